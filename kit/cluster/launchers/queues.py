"""Launchers by batch queues: a script is submitted, and runs when the queue starts it.

A job reads the controller's connection from a folder that all hosts see: some queues
would not pass it on in the environment, and others show the environment to everybody.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from kit.cluster.launchers.launcher import CONNECT_S, Launcher, quiet, run

_OUTPUT = "output"  # of a job, in the shared folder


@dataclass(frozen=True, kw_only=True)
class Queue(Launcher):
    """Base of the launchers by a batch queue.

    The working folder and the Python environment must be the same on all nodes.

    Parameters
    ----------
    account, time, memory : str, optional
        Of the job, in the queue's own notation. By default the site's.
    options : sequence of str
        More lines of options for the script.
    shared : str, optional
        A folder that this machine and all nodes see by the same path. Until the cluster
        stops, a folder in it, which only you can read, holds the files of the job, with
        the key of the cluster among them. By default the working folder.
    address, python
        As for every launcher.
    """

    account: str = ""
    time: str = ""
    memory: str = ""
    options: Sequence[str] = ()
    shared: str = ""
    submits: ClassVar[str] = ""  # the command; its words are kept
    cancels: ClassVar[str] = ""
    asks: ClassVar[Sequence[str]] = ()  # why a job waits; the job's id is added
    reason: ClassVar[str] = r"(\S.*)"  # in the answer to that
    prefix: ClassVar[str] = ""  # of an option's line
    flags: ClassVar[dict[str, str]] = {}  # how a parameter is written, by its name
    finds_job: ClassVar[str] = r"\d+"  # its id, in the answer of `submits`

    def shared_folder(self, folder: Path) -> Path:
        """Return the folder in which the hosts find the connection of the cluster."""
        return Path(self.shared or ".").expanduser().absolute() / f".{folder.name}"

    def traits(
        self, folder: Path, program: Sequence[str]
    ) -> dict[str, dict[str, object]]:
        """Return the traits of ipyparallel's launcher for this queue."""
        return {
            f"{type(self).__name__}EngineSetLauncher": {
                "submit_command": quiet(self.submits, folder),
                # In the working folder, two clusters would overwrite each other's.
                "batch_file_name": str(folder / f"{self.launches}.script"),
                "batch_template": self._script(self.shared_folder(folder) / _OUTPUT),
                "job_id_regexp": self.finds_job,
                "job_id_regexp_group": 0,
                "engine_cmd": list(program[:1]),
                "engine_args": [*program[1:], *self._arguments()],
            }
        }

    def _arguments(self) -> list[str]:
        return ["--slots=1"]  # a job of an array for each task

    @abstractmethod
    def _script(self, output: Path) -> str:
        """Return the script, a template of ipyparallel's."""

    def _lines(self, *fixed: str) -> list[str]:
        """Return the lines of options: the fixed ones, then the user's."""
        given = {name: getattr(self, name) for name in self.flags}
        asked = [self.flags[name] + value for name, value in given.items() if value]
        # Braces would be taken for fields of the template.
        own = [
            line.replace("{", "{{").replace("}", "}}")
            for line in (*asked, *self.options)
        ]
        return [f"{self.prefix}{line}" for line in (*fixed, *own)]

    def ending(self, folder: Path, job: str) -> list[str]:
        """Return the command that cancels the job."""
        return [self.cancels, job] if job else []

    async def waiting_for(self, job: str) -> str:
        """Return the queue's reason why the job has not begun."""
        status, told = await run([*self.asks, job], CONNECT_S)
        found = re.search(self.reason, told)
        if status or found is None:
            return ""
        return f"job {job}: {' '.join(found[1].split())}"


def _text(*lines: str) -> str:
    return "\n".join([*lines, ""])


@dataclass(frozen=True, kw_only=True)
class Slurm(Queue):
    """Start the tasks as a job of Slurm, with one Slurm task for each.

    The working folder and the Python environment must be the same on all nodes.

    Parameters
    ----------
    partition, time, account, memory : str, optional
        Of the job, as for `sbatch`: `time="1:00:00"`, `memory="4G"` (for each node).
        By default the site's.
    options : sequence of str
        More options of sbatch, such as `["--constraint=fast", "--exclusive"]`.
    shared, address, python
        As for every queue.

    Examples
    --------
    Nine tasks, on whatever nodes the queue chooses::

        launcher = kit.launchers.Slurm(partition="short", time="0:30:00")
        cluster = kit.Cluster(ps=1, worker=8, launcher=launcher)
    """

    partition: str = ""
    launches: ClassVar[str] = "slurm"
    submits: ClassVar[str] = "sbatch"
    cancels: ClassVar[str] = "scancel"
    asks: ClassVar[Sequence[str]] = (
        *("squeue", "--noheader", "--format", "%T, %r", "--jobs"),
    )
    prefix: ClassVar[str] = "#SBATCH "
    flags: ClassVar[dict[str, str]] = {
        "partition": "--partition=",
        "time": "--time=",
        "account": "--account=",
        "memory": "--mem=",
    }

    def _arguments(self) -> list[str]:
        return []  # `srun` says in the environment how many run on each node

    def _script(self, output: Path) -> str:
        fixed = ["--export=ALL", "--job-name=psring", "--ntasks={n}"]
        return _text(
            "#!/bin/sh",
            *self._lines(*fixed, f"--output={output}"),
            # The first process of a node forks all tasks there, so it needs all cores.
            "exec srun --cpu-bind=none {program_and_args}",
        )


@dataclass(frozen=True, kw_only=True)
class PBS(Queue):
    """Start the tasks as an array of jobs of PBS, OpenPBS or Torque, one for each.

    The working folder and the Python environment must be the same on all nodes.

    Parameters
    ----------
    queue, account, time, memory : str, optional
        Of each job, as for `qsub`: `time="1:00:00"` is its walltime, `memory="4gb"` its
        mem. By default the site's.
    options : sequence of str
        More options of qsub, such as `["-l select=1:ncpus=4"]`.
    shared, address, python
        As for every queue.

    Examples
    --------
    Nine tasks with four cores each::

        launcher = kit.launchers.PBS(queue="short", options=["-l select=1:ncpus=4"])
        cluster = kit.Cluster(ps=1, worker=8, launcher=launcher)
    """

    queue: str = ""
    launches: ClassVar[str] = "pbs"
    submits: ClassVar[str] = "qsub"
    cancels: ClassVar[str] = "qdel"
    asks: ClassVar[Sequence[str]] = ("qstat", "-f")
    reason: ClassVar[str] = r"comment = (.*(?:\n\t.*)*)"
    prefix: ClassVar[str] = "#PBS "
    flags: ClassVar[dict[str, str]] = {
        "queue": "-q ",
        "account": "-A ",
        "time": "-l walltime=",
        "memory": "-l mem=",
    }
    finds_job: ClassVar[str] = r"\d+(\[\])?"  # with the brackets of an array

    def _script(self, output: Path) -> str:
        array = "-t" if self._is_torque() else "-J"
        fixed = ["-V", "-N psring", "-j oe", f"-o {output}"]
        return _text(
            "#!/bin/sh",
            *self._lines(*fixed),
            # OpenPBS refuses an array of one job.
            f'{{"#PBS {array} 1-%d" % n if n > 1 else "# one job"}}',
            'cd "$PBS_O_WORKDIR" || exit',
            "exec {program_and_args}",
        )

    def _is_torque(self) -> bool:
        try:
            told = subprocess.run(
                [self.submits, "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=CONNECT_S,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False  # submitting will say what is wrong
        return b"pbs" not in (told.stdout + told.stderr).lower()


@dataclass(frozen=True, kw_only=True)
class SGE(Queue):
    """Start the tasks as an array of jobs of Grid Engine, one for each.

    The working folder and the Python environment must be the same on all nodes.

    Parameters
    ----------
    queue, account, time, memory : str, optional
        Of each job, as for `qsub`: `account` is its project, `time="1:00:00"` its h_rt,
        `memory="4G"` its h_vmem. By default the site's.
    options : sequence of str
        More options of qsub, such as `["-pe smp 4"]`.
    shared, address, python
        As for every queue.

    Examples
    --------
    Nine tasks with four cores each::

        launcher = kit.launchers.SGE(queue="all.q", options=["-pe smp 4"])
        cluster = kit.Cluster(ps=1, worker=8, launcher=launcher)
    """

    queue: str = ""
    launches: ClassVar[str] = "sge"
    submits: ClassVar[str] = "qsub"
    cancels: ClassVar[str] = "qdel"
    asks: ClassVar[Sequence[str]] = ("qstat", "-j")
    reason: ClassVar[str] = r"scheduling info:\s*(.*(?:\n\s+.*)*)"
    prefix: ClassVar[str] = "#$ "
    flags: ClassVar[dict[str, str]] = {
        "queue": "-q ",
        "account": "-P ",
        "time": "-l h_rt=",
        "memory": "-l h_vmem=",
    }

    def _script(self, output: Path) -> str:
        fixed = ["-S /bin/sh", "-V", "-cwd", "-N psring", "-j y", f"-o {output}"]
        return _text(
            "#!/bin/sh",
            *self._lines(*fixed, "-t 1-{n}"),
            "exec {program_and_args}",
        )


@dataclass(frozen=True, kw_only=True)
class LSF(Queue):
    """Start the tasks as an array of jobs of LSF, one for each.

    The working folder and the Python environment must be the same on all nodes.

    Parameters
    ----------
    queue, account, time, memory : str, optional
        Of each job, as for `bsub`: `account` is its project, `time="1:00"` (hours and
        minutes) its -W, `memory="4GB"` its -M. By default the site's.
    options : sequence of str
        More options of bsub, such as `["-n 4", "-R 'span[hosts=1]'"]`.
    shared, address, python
        As for every queue.

    Examples
    --------
    Nine tasks, on whatever nodes the queue chooses::

        launcher = kit.launchers.LSF(queue="short", time="0:30")
        cluster = kit.Cluster(ps=1, worker=8, launcher=launcher)
    """

    queue: str = ""
    launches: ClassVar[str] = "lsf"
    submits: ClassVar[str] = "bsub"
    cancels: ClassVar[str] = "bkill"
    asks: ClassVar[Sequence[str]] = ("bjobs", "-p")
    reason: ClassVar[str] = r"\n\s+(\S.*)"  # the first line that is indented
    prefix: ClassVar[str] = "#BSUB "
    flags: ClassVar[dict[str, str]] = {
        "queue": "-q ",
        "account": "-P ",
        "time": "-W ",
        "memory": "-M ",
    }

    def traits(
        self, folder: Path, program: Sequence[str]
    ) -> dict[str, dict[str, object]]:
        """Return the traits of ipyparallel's LSF launcher."""
        found = super().traits(folder, program)
        # ipyparallel gives a shell the first word, followed by '<"SCRIPT"'.
        line = shlex.join(quiet(self.submits, folder))
        found["LSFEngineSetLauncher"]["submit_command"] = [line]
        return found

    def _script(self, output: Path) -> str:
        fixed = ["-J psring[1-{n}]", f"-o {output}"]
        return _text(
            "#!/bin/sh",
            *self._lines(*fixed),
            "exec {program_and_args}",
        )


@dataclass(frozen=True, kw_only=True)
class HTCondor(Queue):
    """Start the tasks as jobs of HTCondor in its vanilla universe, one for each.

    The working folder and the Python environment must be the same on all nodes.

    Parameters
    ----------
    account, memory : str, optional
        Of each job: its accounting_group, and its request_memory, such as `"4GB"`. By
        default the site's.
    time : str, optional
        The most seconds that each job may run (allowed_execute_duration).
    options : sequence of str
        More lines of the submit file, such as `["request_cpus = 4"]`.
    shared, address, python
        As for every queue.

    Examples
    --------
    Nine tasks with four cores each::

        launcher = kit.launchers.HTCondor(options=["request_cpus = 4"])
        cluster = kit.Cluster(ps=1, worker=8, launcher=launcher)
    """

    launches: ClassVar[str] = "htcondor"
    submits: ClassVar[str] = "condor_submit"
    cancels: ClassVar[str] = "condor_rm"
    asks: ClassVar[Sequence[str]] = ("condor_q", "-better-analyze")
    reason: ClassVar[str] = (
        r"(?s)(Hold reason: [^\n]*|Run analysis summary.*|Last failed match: .*)"
    )
    flags: ClassVar[dict[str, str]] = {
        "account": "accounting_group = ",
        "time": "allowed_execute_duration = ",
        "memory": "request_memory = ",
    }
    finds_job: ClassVar[str] = r"(?<=cluster )\d+"

    def _script(self, output: Path) -> str:
        return _text(
            "universe = vanilla",
            "executable = {program}",
            'arguments = "{program_args}"',
            "transfer_executable = False",
            "getenv = True",
            'environment = "PSRING_RANK=$(Process)"',
            f"output = {output}.$(Process)",
            f"error = {output}.$(Process)",
            f"log = {output.with_name('log')}",
            *self._lines(),
            "queue {n}",
        )
