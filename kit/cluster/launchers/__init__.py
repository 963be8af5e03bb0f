"""How a cluster's processes are started on their hosts: `kit.Cluster(launcher=...)`.

A launcher names one of ipyparallel's launchers and configures it. It has that one start
at least one process on each host, `python -m kit.cluster.processes.host`; the tasks
there are forks of it.
"""

from kit.cluster.launchers.launcher import LAUNCH_LOG, Launcher
from kit.cluster.launchers.mpi import MPI
from kit.cluster.launchers.queues import LSF, PBS, SGE, HTCondor, Slurm
from kit.cluster.launchers.site import from_site
from kit.cluster.launchers.ssh import SSH

__all__ = [
    "LAUNCH_LOG",
    "LSF",
    "MPI",
    "PBS",
    "SGE",
    "SSH",
    "HTCondor",
    "Launcher",
    "Slurm",
    "from_site",
]
