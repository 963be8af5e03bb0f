"""The first process on a host other than the notebook's; it becomes the fork server.

    launcher --starts--> host.py =becomes=> fork server --forks--> the host's own engine
                                                        --forks--> tasks, as ordered

ipyparallel's launchers start it instead of an engine: the controller's connection is in
the environment, or in a file named by an option. It makes the cluster's folder on this
host, and a reaper, which ends everything and removes the folder when the fork server is
gone. The host's own engine is not a task: the notebook runs calls about the host there
(`host_calls.py`). It ends when the controller has been gone for long, and then all
others end with it.

If a launcher starts several processes on a host, the first of them does this for all,
and the others wait until it ends. Where tasks are linked by MPI, each process is as a
host of its own with one task, which so has the place of a rank in mpiexec's job.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import re
import signal
import sys
import time
from multiprocessing import Pipe
from pathlib import Path

import psutil

from kit import machine
from kit.cluster.processes import reaper
from kit.cluster.processes.forks import connection_file
from kit.cluster.processes.processes import ReaperHandle
from kit.cluster.runtime import (
    engine_environment,
    launch_folder,
    number_in,
)

_CONNECTION = "IPP_CONNECTION_INFO"
# In these launchers put the rank of a process on its host, and the number of ranks.
LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
LOCAL_SIZES = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
_SET_PARENT_DEATH_SIGNAL = 1  # prctl(2); it survives execve, to the fork server
_COUNTS = re.compile(r"(\d+)(?:\(x(\d+)\))?")
_MOST_HOSTS = 1 << 16
_CHECK_S = 0.1
_LEASE_S = 0.01  # of the fork server, which does not come back


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="psring host", description=__doc__)
    parser.add_argument("--label", default="", help="what the launcher calls the host")
    parser.add_argument("--slots", type=int, help="tasks that it may hold")
    parser.add_argument("--ranks", action="store_true", help="each rank has a task")
    parser.add_argument("--connection", type=Path, help="file in place of the variable")
    parser.add_argument("--mpi", action="store_true", help="ipyparallel's; not used")
    parser.add_argument(
        "--threads", type=int, default=0, help="of BLAS; 0 if not asked"
    )
    parser.add_argument("--cores", type=int, help="that its tasks share")
    parser.add_argument("--pin", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--parent", type=int, help="whose end is to be its own")
    parser.add_argument("--deadline", type=float, required=True)
    return parser.parse_args()


def launched_here() -> int:
    """Return how many processes the launcher has started on this host."""
    if n_here := number_in(LOCAL_SIZES, 0):
        return n_here
    counts = os.environ.get("SLURM_STEP_TASKS_PER_NODE", "")  # such as 2(x3),1
    each: list[int] = []
    for number, times in _COUNTS.findall(counts):
        each += [int(number)] * min(int(times or 1), _MOST_HOSTS)
    return each[number_in(["SLURM_NODEID"], 0) % len(each)] if each else 1


def _wait_for_first_process(deadline_s: float) -> None:
    """Wait until the first of the processes launched on this host ends.

    Its forks are the tasks. The others must not end before it: the launcher takes the
    end of one of its processes for a failure.
    """
    parent = psutil.Process(os.getppid())
    give_up_at = time.monotonic() + deadline_s
    while time.monotonic() < give_up_at:
        for sibling in parent.children():
            with contextlib.suppress(psutil.Error):
                theirs = sibling.environ()
                if any(theirs.get(name) == "0" for name in LOCAL_RANKS):
                    sibling.wait()
                    return
        time.sleep(_CHECK_S)


def _end_with(parent: int) -> None:
    """Be killed when the thread that has started this process ends, however it does."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    # It may have ended before: then there will be no signal.
    if os.getppid() != parent:
        sys.exit(f"the process {parent} has ended")


def main() -> None:
    """Prepare the folder, and become the fork server."""
    arguments = _arguments()
    if arguments.parent is not None:
        _end_with(arguments.parent)
    if number_in(LOCAL_RANKS, 0) > 0 and not arguments.ranks:
        _wait_for_first_process(arguments.deadline)
        return
    n_here = launched_here()
    slots = 1 if arguments.ranks else arguments.slots or n_here
    folder = launch_folder(Path(os.environ.get("IPP_PROFILE_DIR", "")))
    connection = connection_file(folder, "engine")
    connection.touch(mode=0o600)  # before the key is in it
    connection.write_text(
        arguments.connection.read_text()
        if arguments.connection
        else os.environ.pop(_CONNECTION)
    )
    share = n_here if arguments.ranks else 1  # of the cores, for each rank
    cores = arguments.cores or max(1, machine.physical_cores() // share)
    facts = {"label": arguments.label, "slots": slots, "cores": cores}
    (folder / "host.json").write_text(json.dumps(facts))
    # A launcher kills what it has launched. The reaper then has the tasks to end, which
    # are orphans, and the folder to remove: it is none of the notebook's processes.
    os.environ[reaper.MARK] = str(folder)
    # It watches this process by pid and start time, and execve keeps both.
    ReaperHandle(folder, _LEASE_S)
    command = [sys.executable, "-P", "-m", "kit.cluster.processes.fork_server"]
    options = [f"--folder={folder}", f"--deadline={arguments.deadline}"]
    # Both ends outlive execve: one as the standard input, one for the host's engine.
    host_end, server_end = Pipe()
    os.dup2(server_end.fileno(), 0)
    os.set_inheritable(host_end.fileno(), True)
    options.append(f"--host-end={host_end.fileno()}")
    # The tasks of all hosts get one number; what it is, only the notebook can tell.
    environment = os.environ | engine_environment(folder, arguments.threads or 1)
    environment |= dict(pin.split("=", 1) for pin in arguments.pin)
    os.execve(sys.executable, [*command, *options], environment)


if __name__ == "__main__":
    main()
