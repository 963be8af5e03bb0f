"""A launcher by Slurm: a script is submitted, and runs when the queue starts it.

Nothing of the user's text is in the script: all options are words of the command, which
no shell and no template reads. A job reads the controller's connection from a folder
that all hosts see: in the environment, others could read it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import ClassVar

from kit.cluster.launchers.launcher import CONNECT_S, Launcher, quiet, run
from kit.errors import InvalidArgumentError

_OUTPUT = "output"  # of a job, in the shared folder
# How a parameter is written, by its name.
_FLAGS = {
    "partition": "--partition=",
    "time": "--time=",
    "account": "--account=",
    "memory": "--mem=",
}
# The variables that a job gets, as patterns of shells. Others may hold passwords and
# tokens, and administrators of a queue, or all of its users, can read what jobs have.
HANDED_ON = (
    *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_*", "TZ", "TMPDIR"),
    *(
        "LD_LIBRARY_PATH",
        "PYTHON*",
        "VIRTUAL_ENV",
        "CONDA_*",
        "MODULE*",
        "LOADEDMODULES",
    ),
    *("SLURM_*", "SBATCH_*", "CUDA_*", "NVIDIA_*", "OMP_*", "OPENBLAS_*", "MKL_*"),
    *("BLIS_*", "NUMEXPR_*", "NPY_*", "KIT_*"),
)
# A busy controller does not answer; the queue must not keep the job for that.
_CANCEL = """
for pause_s in 1 2 4 8 16 16 0; do
    scancel --name="$0" && exit
    sleep $pause_s
done
"""


@dataclass(frozen=True, kw_only=True)
class Slurm(Launcher):
    """Start the tasks as a job of Slurm, with one Slurm task for each.

    The working folder and the Python environment must be the same on all nodes.

    Parameters
    ----------
    partition, time, account, memory : str, optional
        Of the job, as for `sbatch`: `time="1:00:00"`, `memory="4G"` (for each node).
        By default the site's.
    options : sequence of str
        More options of sbatch, such as `["--constraint=fast", "--exclusive"]`.
    shared : str, optional
        A folder that this machine and all nodes see by the same path. Until the cluster
        stops, a folder in it, which only you can read, holds the files of the job, with
        the key of the cluster among them. By default the working folder.
    environment : sequence of str
        Names of more variables of the environment that the tasks get, such as
        `["DATA", "MY_*"]`. Without them they get those of Python, Slurm, CUDA, BLAS and
        psring, and no others, which may hold passwords.
    address, python
        As for every launcher.

    Raises
    ------
    InvalidArgumentError
        A value holds a line break, or an option does not begin with a hyphen.

    Examples
    --------
    Nine tasks, on whatever nodes the queue chooses::

        launcher = kit.launchers.Slurm(partition="short", time="0:30:00")
        cluster = kit.Cluster(ps=1, worker=8, launcher=launcher)
    """

    partition: str = ""
    time: str = ""
    account: str = ""
    memory: str = ""
    options: Sequence[str] = ()
    shared: str = ""
    environment: Sequence[str] = ()
    launches: ClassVar[str] = "slurm"

    def __post_init__(self) -> None:
        super().__post_init__()
        for option in self.options:
            if not (option.startswith("-") and _words(option)):
                raise InvalidArgumentError(
                    f"options={list(self.options)!r}: {option!r} is not an option of "
                    f"sbatch; write it like options=['--nice=5', '-N 2']."
                )

    def shared_folder(self, folder: Path) -> Path:
        """Return the folder in which the hosts find the connection of the cluster."""
        return Path(self.shared or ".").expanduser().absolute() / f".{folder.name}"

    def traits(
        self, folder: Path, program: Sequence[str]
    ) -> dict[str, dict[str, object]]:
        """Return the traits of ipyparallel's Slurm launcher."""
        return {
            "SlurmEngineSetLauncher": {
                "submit_command": [
                    *quiet("sbatch", folder, without=self._kept_back(os.environ)),
                    *self._options(folder),
                ],
                # In the working folder, two clusters would overwrite each other's.
                "batch_file_name": str(folder / "slurm.script"),
                # The first process of a node forks all tasks there, so it needs all
                # cores.
                "batch_template": (
                    "#!/bin/sh\nexec srun --cpu-bind=none {program_and_args}\n"
                ),
                "engine_cmd": list(program[:1]),
                # `srun` says in the environment how many run on each node.
                "engine_args": list(program[1:]),
            }
        }

    def _options(self, folder: Path) -> list[str]:
        # In its name, % would begin one of Slurm's own patterns.
        output = str(self.shared_folder(folder) / _OUTPUT).replace("%", "%%")
        values = {name: getattr(self, name) for name in _FLAGS}
        own = [_FLAGS[name] + value for name, value in values.items() if value]
        return [
            *("--export=ALL", f"--job-name={folder.name}", f"--output={output}"),
            *own,
            *(word for option in self.options for word in _words(option)),
        ]

    def _kept_back(self, environment: Mapping[str, str]) -> list[str]:
        """Return the variables that the job does not get."""
        allowed = (*HANDED_ON, *self.environment)
        return [name for name in environment if not _matches(name, allowed)]

    def ending(self, folder: Path) -> list[str]:
        """Return the command that cancels the job, known by its name."""
        return ["sh", "-c", _CANCEL, folder.name]

    async def waiting_for(self, job: str) -> str:
        """Return the queue's reason why the job has not begun."""
        asks = ["squeue", "--noheader", "--format", "%T, %r", "--jobs", job]
        status, words = await run(asks, CONNECT_S)
        match = re.search(r"(\S.*)", words)
        if status or match is None:
            return ""
        return f"job {job}: {' '.join(match[1].split())}"


def _words(option: str) -> list[str]:
    """Return the words of an option such as `-N 2`; none if a quote has no end."""
    try:
        return shlex.split(option)
    except ValueError:
        return []


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
