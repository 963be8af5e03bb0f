"""What is asked of a cluster on two hosts, however its tasks got there.

Programs that a test starts where a queue or dask is known import this, too: each of
these raises, saying what was found, where something is not as it should be.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import psutil

import kit
from kit.cluster.processes import left_behind
from kit.cluster.report import ClusterState
from kit.errors import DeadlineExceededError, KitError, PeerLost
from kit.task import Task
from kit.testing.task_process import until
from kit.training.client.run import Run

NAMED_S = 5.0  # from a task's end until everybody who waits for it is told


def named_within(
    cluster: kit.Cluster,
    training: Run,
    name: str,
    *,
    by: str = "",
    within_s: float = NAMED_S,
) -> str:
    """Kill a task of a training that runs, from its own host; return what was told.

    The signal comes from the task `by`, of the same host, or from the task itself. By
    `within_s` after it, who waits for the training has an error with the task's name,
    and the status says why it is lost.
    """
    task = Task.parse(name)
    until(lambda: training.step > 3, 30)
    pid = cluster.call(name, os.getpid)
    begun = time.monotonic()
    gone = () if by else (PeerLost,)  # one that kills itself does not answer
    with contextlib.suppress(*gone):
        cluster.call(by or name, os.kill, pid, signal.SIGKILL)
    try:
        training.wait(max(0.0, begun + within_s - time.monotonic()))
    except DeadlineExceededError as error:
        raise AssertionError(
            f"{name}'s end was not told within {within_s} s"
        ) from error
    except KitError as error:
        message = str(error)
    else:
        raise AssertionError(f"the training ended well without {name}")
    assert re.search(rf"{task}\b|\b{task.short}\b", message), message
    row = cluster.tasks.index(task)
    until(
        lambda: cluster.status[row].state is ClusterState.LOST,
        max(0.0, begun + within_s - time.monotonic()),
    )
    reason = cluster.status[row].reason
    assert reason, cluster.status
    assert time.monotonic() - begun <= within_s
    return f"{message}\n{reason}"


def interrupt(cluster: kit.Cluster, name: str) -> str:
    """Run a cell for too long; return what was told, and what the next cell gives."""
    try:
        cluster.on(
            name, "import time\nfor _ in range(600): time.sleep(0.1)", timeout_s=1
        )
    except DeadlineExceededError as error:
        message = str(error)
    else:
        raise AssertionError("a minute has passed in a second")
    assert name in message, message
    (after,) = cluster.on(name, "'free again'", timeout_s=10)
    return f"{after.result} after: {message}"


def compute(cluster: kit.Cluster, name: str) -> list[float]:
    """Return what a session makes of an operation that is placed on a task."""
    with kit.Graph().as_default():
        with kit.device(str(Task.parse(name))):
            doubled = kit.constant(np.arange(3.0)) * 2.0
        with kit.Session(cluster) as session:
            return list(map(float, session.run(doubled)))


_GROUP = """
import kit, numpy as np
group = kit.group()
total = group.all_reduce(np.arange(3.0) + group.rank).tolist()
before, after = (group.rank - 1) % group.size, (group.rank + 1) % group.size
told = group.sendrecv(group.rank, after, before) == before
group.barrier()
print(total, told, group.traffic.measured == group.traffic.formula > 0)
group.barrier()
"""


def exchange(cluster: kit.Cluster) -> set[str]:
    """Return what three workers say of a group: a sum, a message, bytes by formula."""
    return {
        output.stdout.strip() for output in cluster.on("worker", _GROUP, timeout_s=30)
    }


EXCHANGED = {"[3.0, 6.0, 9.0] True True"}


def hosts_told(cluster: kit.Cluster) -> list[str]:
    """Return the host of each task by the status, once the table has its memory."""

    def mib() -> list[float]:
        cells = re.findall(r"<td>(\d+)</td></tr>", cluster._repr_html_())
        return [float(cell) for cell in cells]

    until(lambda: len(mib()) == len(cluster.tasks) and min(mib()) > 10, 10)
    return [item.host for item in cluster.status]


# -- what a cluster leaves -------------------------------------------------------------

# What launchers start above a cluster's own processes, without the cluster's mark.
_LAUNCHERS = ("hydra_pmi_proxy", "mpiexec.hydra", "slurmstepd", "srun")


def folders_of(cluster: kit.Cluster) -> list[Path]:
    """Return the folders of a cluster: here, those on its hosts, what these share."""
    processes = left_behind.find()
    here = [item.folder for item in processes if item.processes & cluster.processes]
    assert len(here) == 1, processes
    there = {cluster.log_path(task).parents[1] for task in cluster.tasks}
    launcher = cluster.options.launcher
    shared = None if launcher is None else launcher.shared_folder(here[0])
    result = [*here, *sorted(there), *([shared] if shared is not None else [])]
    assert all(folder.is_dir() for folder in result), result
    return result


def processes_of(folders: Iterable[Path]) -> list[psutil.Process]:
    """Return the processes of all hosts that a cluster with these folders has marked.

    The mark is a folder's name, in the environment or in an argument.
    """
    names = {folder.name.removeprefix(".") for folder in folders}
    result = []
    for item in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            texts = [*item.cmdline(), *item.environ().values()]
            if any(name in text for name in names for text in texts):
                result.append(item)
    return result


def launchers_of(folders: Iterable[Path]) -> set[psutil.Process]:
    """Return the processes of a launcher that have started those of a cluster."""
    result = set()
    for text in processes_of(folders):
        with contextlib.suppress(psutil.Error):
            result |= {above for above in text.parents() if above.name() in _LAUNCHERS}
    return result


def left_of(
    folders: Sequence[Path], launchers: Iterable[psutil.Process] = ()
) -> list[str]:
    """Return what is there of a cluster: folders, and processes of any host."""
    left = [str(folder) for folder in folders if folder.exists()]
    for item in {*processes_of(folders), *launchers}:
        with contextlib.suppress(psutil.Error):
            if item.is_running() and item.status() != psutil.STATUS_ZOMBIE:
                left.append(f"{item.pid}: {' '.join(item.cmdline())}")
    return left
