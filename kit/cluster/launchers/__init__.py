"""How a cluster's processes are started on their hosts: `kit.Cluster(launcher=...)`.

A launcher names one of ipyparallel's launchers and configures it. It has that one start
at least one process on each host, `python -m kit.cluster.processes.host`; the tasks
there are forks of it.
"""

from typing import Any

from kit.cluster.launchers.dask_queues import refuse_queue
from kit.cluster.launchers.launcher import LAUNCH_LOG, Launcher
from kit.cluster.launchers.mpi import MPI
from kit.cluster.launchers.site import from_site
from kit.cluster.launchers.slurm import Slurm
from kit.cluster.launchers.ssh import SSH

__all__ = [
    "LAUNCH_LOG",
    "MPI",
    "SSH",
    "Launcher",
    "Slurm",
    "from_site",
]


def __getattr__(name: str) -> Any:
    refuse_queue(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
