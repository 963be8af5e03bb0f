"""A launcher by mpiexec."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from kit.cluster.launchers.launcher import CONNECT_S, Launcher
from kit.cluster.processes import reaper
from kit.errors import InvalidArgumentError, StartFailed


@dataclass(frozen=True)
class MPI(Launcher):
    """Start the tasks with mpiexec, which has one rank for each of them.

    The Python environment must be the same on all hosts. The tasks are forks of the
    first rank on each host, so mpiexec does not notice when a task is lost. With
    `kit.Cluster(transport="mpi")` each task is a rank of its own.

    Parameters
    ----------
    args : sequence of str
        Arguments of mpiexec in addition to the number of ranks, such as
        `["--hostfile", "hosts"]`.
    command : sequence of str
        The command to run as mpiexec.
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
    starts_ranks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.command:
            raise InvalidArgumentError(
                "command=[] names no mpiexec; leave it out, or write it like "
                "command=['/opt/mpi/bin/mpiexec']."
            )

    def traits(
        self, folder: Path, program: Sequence[str]
    ) -> dict[str, dict[str, object]]:
        """Return the traits of ipyparallel's MPI launcher."""
        # Open MPI passes on only the variables that its arguments name.
        passed = ["-x", "IPP_CONNECTION_INFO"] if self._is_open_mpi(folder) else []
        return {
            "MPIEngineSetLauncher": {
                "mpi_cmd": list(self.command),
                "mpi_args": [*self.args, *passed],
                "engine_cmd": list(program),
                "environment": {reaper.MARK: str(folder)},
            }
        }

    def _is_open_mpi(self, folder: Path) -> bool:
        try:
            answer = subprocess.run(
                [*self.command, "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=CONNECT_S,
                env=os.environ | {reaper.MARK: str(folder)},  # for a stop meanwhile
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StartFailed(
                f"{' '.join(self.command)} cannot be run here: {error}. Install MPI or "
                f"name its mpiexec: MPI(command=[...])."
            ) from error
        return b"Open MPI" in answer.stdout or b"OpenRTE" in answer.stdout
