"""What is asked of a cluster on two hosts, however its tasks got there.

Programs that a test starts where a queue or dask is known import this, too: each of
these raises where something is not as it should be.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest

import kit
from kit.cluster.processes import left_behind
from kit.cluster.report import ClusterState
from kit.errors import DeadlineExceededError, KitError, PeerLost
from kit.task import Task
from kit.testing.task_process import until
from tests.cluster.engine_training import assert_replayed, begin

NAMED_S = 5.0  # from a task's end until everybody who waits for it hears of it
HOSTS = ["nodea", "nodea", "nodeb", "nodeb"]  # of a server and three workers
FAR = "worker:2"
ENDLESS = "import time\nfor _ in range(600): time.sleep(0.1)"


def use(cluster: kit.Cluster) -> None:
    """Use a server and three workers on two hosts as if all were on this machine."""
    assert cluster.call("all", platform.node) == HOSTS
    assert hosts_by_status(cluster) == HOSTS
    assert "MiB of the tasks on all hosts" in cluster.memory_in_words
    until(lambda: "Completed registration" in cluster.log(FAR, 100), 10)

    (output,) = cluster.on(FAR, "print('from afar'); 6 * 7")
    assert (output.stdout, output.result) == ("from afar\n", "42")
    with pytest.raises(DeadlineExceededError, match=FAR):
        cluster.on(FAR, ENDLESS, timeout_s=1)
    (output,) = cluster.on(FAR, "'free again'", timeout_s=10)
    assert output.result == "'free again'"

    with kit.Graph().as_default():
        with kit.device(str(Task.parse(FAR))):
            doubled = kit.constant(np.arange(3.0)) * 2.0
        with kit.Session(cluster) as session:
            assert session.run(doubled).tolist() == [0.0, 2.0, 4.0]
    assert exchange(cluster) == EXCHANGED

    training = begin(cluster, steps=10**6, topology="ps")
    for topology in "ring", "hierarchical":
        _step_on(training)
        training.topology = topology
        until(lambda now=topology: training.topology == now, 30)  # type: ignore[misc]
    _step_on(training)
    training.stop()
    training.wait(60)
    topologies = [epoch.topology for epoch in training.trace.epochs]
    assert topologies == ["ps", "ring", "hierarchical"]
    assert training.job.hosts == (*HOSTS,)
    assert_replayed(training)


def _step_on(training: kit.Run) -> None:
    seen = training.step
    until(lambda: training.step > seen + 5, 30)


def lose(cluster: kit.Cluster) -> None:
    """Kill a far task in a training, from its own host, and give it a new process.

    Soon after the signal who waits for the training has an error with the task's name,
    and the status says why it is lost.
    """
    task, before = Task.parse(FAR), cluster.spec
    row = cluster.tasks.index(task)
    training = begin(cluster, steps=10**6, topology="ring")
    until(lambda: training.step > 3, 30)
    pid, begun = cluster.call(FAR, os.getpid), time.monotonic()
    cluster.call("worker:1", os.kill, pid, signal.SIGKILL)
    with pytest.raises(KitError, match=rf"{task}\b|{task.short}\b"):
        training.wait(NAMED_S)
    until(lambda: cluster.status[row].state is ClusterState.LOST, NAMED_S)
    assert time.monotonic() - begun <= NAMED_S
    assert "killed by signal 9" in cluster.status[row].reason
    with pytest.raises(PeerLost, match=rf"{FAR} killed by signal 9"):
        cluster.call(FAR, os.getpid)

    cluster.restart(FAR)
    assert cluster.spec == before
    assert cluster.call(FAR, platform.node) == HOSTS[row]
    assert_replayed(begin(cluster, steps=20).wait(60))


_GROUP = """
import kit, numpy as np
group = kit.group()
total = group.all_reduce(np.arange(3.0) + group.rank).tolist()
before, after = (group.rank - 1) % group.size, (group.rank + 1) % group.size
is_sent = group.sendrecv(group.rank, after, before) == before
group.barrier()
print(total, is_sent, group.traffic.measured == group.traffic.formula > 0)
group.barrier()
"""


def exchange(cluster: kit.Cluster) -> set[str]:
    """Return what three workers say of a group: a sum, a message, bytes by formula."""
    return {
        output.stdout.strip() for output in cluster.on("worker", _GROUP, timeout_s=30)
    }


EXCHANGED = {"[3.0, 6.0, 9.0] True True"}


def hosts_by_status(cluster: kit.Cluster) -> list[str]:
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
