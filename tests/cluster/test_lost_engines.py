"""A lost engine is `PeerLost` for every caller, however it was lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import kit
from kit.cluster import CellFailed, Cluster, ClusterState
from kit.cluster.cells.failures import tells_of_an_end
from kit.cluster.processes import reaper
from kit.errors import PeerLost
from kit.testing.task_process import until
from tests.cluster.insides import supervisor_of

pytestmark = [pytest.mark.engines, pytest.mark.slow]

LOST = "worker:1"


@pytest.fixture
def cluster(gone: Callable[[], None]) -> Iterator[Cluster]:
    with Cluster(ps=0, worker=3) as running:
        yield running
    gone()


def train(cluster: Cluster) -> object:
    run = kit.train(
        lambda params, batch: (0.0, {"w": params["w"]}),
        {"w": np.zeros(4)},
        (np.zeros((8, 1)),),
        topology="ring",
        steps=1,
        batch=8,
        cluster=cluster,
    )
    return run.wait(30)


def end(pid: int) -> None:
    process = reaper.find(pid)
    assert process is not None
    os.kill(pid, signal.SIGKILL)
    assert reaper.wait_gone([process], 5) == set()


def fork_server(cluster: Cluster) -> int:
    """Return the pid of the process that has forked the engines."""
    return int(cluster.call("worker:0", os.getppid))


WAYS: dict[str, Callable[[Cluster], object]] = {
    "call": lambda cluster: cluster.call(LOST, os.getpid),
    "call of all": lambda cluster: cluster.call("all", os.getpid),
    "cell": lambda cluster: cluster.on(LOST, "1"),
    "view": lambda cluster: cluster.view(LOST),
    "session": lambda cluster: kit.Session(cluster, graph=kit.Graph()),
    "session there": lambda cluster: kit.Session(
        cluster.target(LOST), graph=kit.Graph()
    ),
    "training": train,
}


def assert_lost(cluster: Cluster, words: str) -> None:
    """Every way to the lost engine says so, and others are used as before."""
    for name, use in WAYS.items():
        with pytest.raises(PeerLost, match=words) as result:
            use(cluster)

        assert result.value.task == "/job:worker/task:1", name
        assert isinstance(result.value, CellFailed) == (name == "cell")
        if name != "cell":
            assert LOST in str(result.value)
    assert cluster.call("worker:2", len, "abc") == 3


def test_every_way_to_a_lost_engine_says_that_it_is_lost(cluster: Cluster) -> None:
    engines = supervisor_of(cluster).engines
    end(cluster.call(LOST, os.getpid))

    assert_lost(cluster, LOST)
    with pytest.raises(PeerLost, match=rf"cluster\.restart\('{LOST}'\)"):
        cluster.call(LOST, os.getpid)
    # Also when it is not registered any more.
    until(lambda: 1 not in engines.registered, 10)
    assert tells_of_an_end(engines.submit(1, b"").exception(5))
    assert tells_of_an_end(engines.execute(1, "1", lambda _: None, {}).result(5))


def test_what_is_under_way_ends_when_the_fork_server_dies_before_the_engine(
    cluster: Cluster,
) -> None:
    victim = cluster.call(LOST, os.getpid)
    end(fork_server(cluster))
    cell = cluster.begin_cell(LOST, "import signal; signal.pause()")
    assert cell.waiting

    os.kill(victim, signal.SIGKILL)
    with pytest.raises(PeerLost, match=LOST):
        cluster.call(LOST, signal.pause)

    until(lambda: not cell.waiting, 10)
    assert [failure.name for failure in cell.failures] == ["PeerLost"]
    assert cluster.state is ClusterState.LOST
    assert_lost(cluster, LOST)


def test_every_way_to_a_stopped_engine_says_so_until_it_goes_on_or_is_restarted(
    gone: Callable[[], None],
) -> None:
    with kit.settings(dead_after_s=2.0), Cluster(ps=0, worker=3) as cluster:
        victim = reaper.find(cluster.call(LOST, os.getpid))
        assert victim is not None
        cell = cluster.begin_cell(LOST, "1")
        until(lambda: not cell.waiting, 10)
        os.kill(victim.pid, signal.SIGSTOP)
        until(lambda: victim.is_stopped, 10)
        cell = cluster.begin_cell(LOST, "1")

        with pytest.raises(PeerLost, match=f"kill -CONT {victim.pid}"):
            cluster.call(LOST, os.getpid, deadline_s=60)

        until(lambda: not cell.waiting, 10)
        assert [failure.name for failure in cell.failures] == ["PeerLost"]
        assert_lost(cluster, "is stopped or unreachable")

        os.kill(victim.pid, signal.SIGCONT)
        until(lambda: cluster.state is ClusterState.READY, 20)
        assert cluster.call(LOST, os.getpid) == victim.pid

        os.kill(victim.pid, signal.SIGSTOP)
        until(lambda: cluster.state is ClusterState.LOST, 30)
        cluster.restart(LOST)
        assert cluster.state is ClusterState.READY
        assert cluster.call(LOST, os.getpid) != victim.pid
    gone()
