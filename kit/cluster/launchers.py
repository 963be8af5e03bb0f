"""How a cluster's processes come to their hosts: `kit.Cluster(launcher=...)`.

A launcher names one of ipyparallel's and says what that one needs. It starts at least
one process on each host, `python -m kit.cluster.processes.host`; the tasks there are
forks of it. Launching itself is ipyparallel's.
"""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from kit.cluster.processes import reaper
from kit.errors import InvalidArgumentError, StartFailed, UnavailableError
from kit.wire.sockets import address_towards

_CONNECT_S = 10
LAUNCH_LOG = "logs/launch.log"  # in the cluster's folder: what launching complained of
_NOWHERE = "192.0.2.1"  # for documentation (RFC 5737): where the default route leads


@dataclass(frozen=True, kw_only=True)
class Launcher(ABC):
    """What all launchers can be told.

    Parameters
    ----------
    address : str, optional
        The address of this machine at which the hosts reach it. By default the one
        that packets to the hosts leave from.
    python : str, optional
        The interpreter on the hosts, in which the kit is installed.
    """

    address: str = ""
    python: str = sys.executable
    launches: ClassVar[str] = ""  # ipyparallel's name of the launcher

    def n_processes(self, n_tasks: int) -> int:
        """Return how many processes are launched for so many tasks, one for each.

        Raises `InvalidArgumentError` if the hosts cannot hold them.
        """
        return n_tasks

    @abstractmethod
    def traits(
        self, folder: Path, program: Sequence[str]
    ) -> dict[str, dict[str, object]]:
        """Return the traits of ipyparallel's launcher, by class.

        `program` is what to start on each host; `folder` is the cluster's own, here.
        """

    @property
    def reached_at(self) -> str:
        """The address of this machine at which the hosts reach it."""
        if self.address:
            return self.address
        try:
            return address_towards(_NOWHERE)
        except UnavailableError as error:
            raise StartFailed(
                f"the address at which the hosts reach this machine is not known "
                f"({error.message}); name it with address=... of the launcher."
            ) from error

    async def check(self, n_tasks: int) -> None:
        """Raise `StartFailed` for what can be known to fail before anything starts."""
        return None

    def ending(self, job: str) -> list[str]:
        """Return the command that ends what is left of the launched job `job`."""
        return []

    async def waiting_for(self, job: str) -> str:
        """Say why the launched job `job` has not begun; empty if that is not known."""
        return ""


@dataclass(frozen=True)
class SSH(Launcher):
    """Start the tasks on hosts that this one can log in to with ssh.

    Parameters
    ----------
    hosts : mapping of str to int
        How many tasks each host can hold, by its name for ssh: `"nodea"`,
        `"me@nodea"`, `"nodea:2222"`. Parameter servers come first, then workers, host
        after host.
    ssh_args : sequence of str
        Arguments for ssh and scp, such as `["-i", "key"]`. A password is never asked
        for.
    address, python
        As for every launcher; python is `python3` by default.

    Examples
    --------
    Three tasks on one host and two on another::

        launcher = kit.launchers.SSH({"nodea": 3, "nodeb": 2})
        cluster = kit.Cluster(ps=1, worker=4, launcher=launcher)
    """

    hosts: Mapping[str, int]
    ssh_args: Sequence[str] = field(default=(), kw_only=True)
    python: str = field(default="python3", kw_only=True)
    launches: ClassVar[str] = "ssh"

    def __post_init__(self) -> None:
        bad = [host for host, n in self.hosts.items() if not host or n < 1]
        if bad or not self.hosts:
            raise InvalidArgumentError(
                f"hosts={dict(self.hosts)!r}: give at least one host, and for each how "
                f"many tasks it can hold, such as {{'nodea': 3, 'nodeb': 2}}."
            )

    def n_processes(self, n_tasks: int) -> int:
        """Return how many hosts are needed, the first ones."""
        n_slots = 0
        for n_hosts, slots in enumerate(self.hosts.values(), 1):
            n_slots += slots
            if n_slots >= n_tasks:
                return n_hosts
        raise InvalidArgumentError(
            f"the hosts {dict(self.hosts)!r} can hold {n_slots} tasks, and the cluster "
            f"has {n_tasks}; give more hosts, or larger numbers."
        )

    def traits(
        self, folder: Path, program: Sequence[str]
    ) -> dict[str, dict[str, object]]:
        """Return those of ipyparallel's ssh launcher."""
        options = self._options(folder)
        engines = {
            host: {
                "engine_args": [f"--slots={n}", f"--label={host}"],
                "remote_profile_dir": f"/tmp/{folder.name}-{_as_file(host)}",
            }
            for host, n in self.hosts.items()
        }
        return {
            "SSHEngineSetLauncher": {"engines": engines},
            "SSHEngineLauncher": {
                "ssh_cmd": _quiet("ssh", folder),
                "scp_cmd": _quiet("scp", folder),
                "ssh_args": list(options),
                "scp_args": list(options),
                "remote_python": self.python,
                "engine_cmd": list(program),
                "to_send": [],  # the connection travels in the environment
            },
        }

    @property
    def reached_at(self) -> str:
        """The address of this machine at which the first host reaches it."""
        if not self.address:
            with suppress(UnavailableError):  # ssh alone may know the host by its name
                return address_towards(_plain_host(next(iter(self.hosts))))
        return super().reached_at

    def _options(self, folder: Path | None = None) -> list[str]:
        chosen = ["BatchMode=yes", f"ConnectTimeout={_CONNECT_S}"]
        if folder is not None:  # one login serves all that is done at a host
            chosen += ["ControlMaster=auto", "ControlPersist=10"]
            chosen += [f"ControlPath={folder}/ssh-%C"]
        return [*self.ssh_args, *(word for one in chosen for word in ("-o", one))]

    async def check(self, n_tasks: int) -> None:
        """Log in to each host that is needed and import there what a task needs.

        Raises `StartFailed` with the host and the words of ssh or of its Python.
        """
        needed = list(self.hosts)[: self.n_processes(n_tasks)]
        answers = await asyncio.gather(*map(self._check_host, needed))
        problems = [problem for problem in answers if problem]
        if problems:
            raise StartFailed("\n".join(problems))

    async def _check_host(self, host: str) -> str:
        login, _, port = host.partition(":")
        code = "import ipyparallel, kit.cluster"
        remote = shlex.join([self.python, "-P", "-c", code])
        ports = ["-p", port] if port else []
        command = ["ssh", *self._options(), *ports, login, remote]
        status, told = await _run(command, 2 * _CONNECT_S)
        if status == 0:
            return ""
        if status == 255:  # ssh(1): an error of its own
            return f"{host} cannot be logged in to: {told}"
        return (
            f"{host} cannot run tasks with {self.python!r}: {told}. Install psring "
            f"there, or name the interpreter that has it: SSH(python=...)."
        )


def _quiet(program: str, folder: Path) -> list[str]:
    """Return a command that writes its complaints into the cluster's folder.

    By its mark a stop finds it, should it still wait for a host.
    """
    words = shlex.quote(str(folder / LAUNCH_LOG))
    script = f'exec {program} "$@" 2>>{words}'
    return ["env", f"{reaper.MARK}={folder}", "sh", "-c", script, program]


@dataclass(frozen=True)
class Slurm(Launcher):
    """Start the tasks as a job of Slurm, one of its tasks for each of ours.

    The folder that is worked in and the Python environment must be the same on all
    nodes.

    Parameters
    ----------
    partition, time, account : str, optional
        Of the job, as for `sbatch`: `time="1:00:00"`. The site's own if not given.
    options : sequence of str
        More options of sbatch, such as `["--constraint=fast", "--exclusive"]`.
    address, python
        As for every launcher.

    Examples
    --------
    Nine tasks, wherever the queue puts them::

        launcher = kit.launchers.Slurm(partition="short", time="0:30:00")
        cluster = kit.Cluster(ps=1, worker=8, launcher=launcher)
    """

    partition: str = field(default="", kw_only=True)
    time: str = field(default="", kw_only=True)
    account: str = field(default="", kw_only=True)
    options: Sequence[str] = field(default=(), kw_only=True)
    launches: ClassVar[str] = "slurm"

    def traits(
        self, folder: Path, program: Sequence[str]
    ) -> dict[str, dict[str, object]]:
        """Return those of ipyparallel's Slurm launcher."""
        named = {
            "partition": self.partition,
            "time": self.time,
            "account": self.account,
        }
        options = [f"--{name}={value}" for name, value in named.items() if value]
        script = [
            "#!/bin/sh",
            "#SBATCH --export=ALL",
            "#SBATCH --job-name=psring",
            "#SBATCH --ntasks={n}",
            "#SBATCH --output={output_file}",
            *(f"#SBATCH {option}" for option in (*options, *self.options)),
            # The first process of a node forks all tasks there: it needs all cores.
            "exec srun --cpu-bind=none {program_and_args}",
        ]
        return {
            "SlurmEngineSetLauncher": {
                "submit_command": _quiet("sbatch", folder),
                # Its own name: in the working folder, two clusters would share it.
                "batch_file_name": str(folder / "slurm.sbatch"),
                "batch_template": "\n".join([*script, ""]),
                "engine_cmd": list(program[:1]),
                "engine_args": list(program[1:]),
            }
        }

    def ending(self, job: str) -> list[str]:
        """Return the command that cancels the job."""
        return ["scancel", job]

    async def waiting_for(self, job: str) -> str:
        """Say in the words of the queue why the job has not begun."""
        command = ["squeue", "--noheader", "--jobs", job, "--format", "%T, %r"]
        status, told = await _run(command, _CONNECT_S)
        return f"job {job} is {told}" if status == 0 and told else ""


@dataclass(frozen=True)
class MPI(Launcher):
    """Start the tasks with mpiexec, one of its ranks for each of them.

    The Python environment must be the same on all hosts. The tasks are forks of the
    first rank of each host, so mpiexec does not notice when one is lost.

    Parameters
    ----------
    args : sequence of str
        Arguments of mpiexec beside the number of ranks, such as
        `["--hostfile", "hosts"]`.
    command : sequence of str
        What is run as mpiexec.
    address, python
        As for every launcher.

    Examples
    --------
    Four tasks on the hosts of a file::

        launcher = kit.launchers.MPI(args=["--hostfile", "hosts"])
        cluster = kit.Cluster(ps=1, worker=3, launcher=launcher)
    """

    args: Sequence[str] = field(default=(), kw_only=True)
    command: Sequence[str] = field(default=("mpiexec",), kw_only=True)
    launches: ClassVar[str] = "mpi"

    def traits(
        self, folder: Path, program: Sequence[str]
    ) -> dict[str, dict[str, object]]:
        """Return those of ipyparallel's MPI launcher."""
        # Open MPI passes on no variable that it is not told to.
        passed = ["-x", "IPP_CONNECTION_INFO"] if self._is_open_mpi() else []
        return {
            "MPIEngineSetLauncher": {
                "mpi_cmd": list(self.command),
                "mpi_args": [*self.args, *passed],
                "engine_cmd": list(program),
                "environment": {reaper.MARK: str(folder)},
            }
        }

    def _is_open_mpi(self) -> bool:
        try:
            told = subprocess.run(
                [*self.command, "--version"], capture_output=True, timeout=_CONNECT_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StartFailed(
                f"{' '.join(self.command)} cannot be run here: {error}. Install MPI or "
                f"name its mpiexec: MPI(command=[...])."
            ) from error
        return b"Open MPI" in told.stdout or b"OpenRTE" in told.stdout


def _as_file(host: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in host)[-24:]


def _plain_host(host: str) -> str:
    return host.rpartition("@")[2].partition(":")[0]


async def _run(command: Sequence[str], limit_s: float) -> tuple[int, str]:
    """Run a command that asks nothing; return its status and last words."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except FileNotFoundError as error:
        return 127, f"{command[0]} is not installed here ({error.strerror})"
    try:
        async with asyncio.timeout(limit_s):
            told, _ = await process.communicate()
    except TimeoutError:
        return 124, f"no answer within {limit_s:g} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = told.decode("utf-8", "replace").strip().splitlines()
    return process.returncode or 0, (lines[-1].rstrip(".") if lines else "")


__all__ = ["MPI", "SSH", "Launcher", "Slurm"]
