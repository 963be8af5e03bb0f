"""Elastic trainings over a line that is cut and mended."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from kit.errors import DeadlineExceededError, UnavailableError
from kit.settings import Settings
from kit.task import Task
from kit.testing.task_process import until
from kit.training.client.run import Run
from kit.wire.handshake.messages import Role
from kit.wire.link import Link
from kit.wire.rpc import Caller
from tests.net.bench import CLIENT, NetCluster, net_cluster
from tests.net.netlab import EmulatedWire
from tests.net.trainings import QUICK, assert_same_bits, train

SIDES = {
    "here": {"ps:0": "a", "worker:0": "a", "worker:1": "a", "worker:2": "b"},
    "there": {"ps:0": "b", "worker:0": "a", "worker:1": "b", "worker:2": "b"},
}
MANY = 100_000


class Cut(NamedTuple):
    """Where the greater part of the tasks is, which way is cut, in which topology.

    `way`: "ab" lets nothing through to the other end, "ba" nothing back, "abba" both.
    """

    greater: str
    way: str
    topology: str


def cut(wire: EmulatedWire, way: str, is_cut: bool) -> None:
    wire.cut_ab = is_cut and "ab" in way
    wire.cut_ba = is_cut and "ba" in way


def generation_there(cluster: NetCluster, run: Run) -> int:
    """Return the number of the newest generation at the other end of the line.

    -1 if it cannot be asked now.
    """
    task = Task("worker", 2)

    def dial() -> Link:
        return cluster.directory.dial(task, CLIENT, Role.OBSERVER)

    try:
        with closing(Caller(cluster.wire.call("b", dial))) as caller:
            reply, _ = caller.call("elastic.look", 5, {"origin": run.job.run})
    except (UnavailableError, DeadlineExceededError):
        return -1
    return int(reply["job"]["generation"]["number"])


def play(cut: Cut, folder: Path, settings: Settings = QUICK) -> None:
    """Train, cut and mend; raises `AssertionError` for what is not as it should be."""
    places = SIDES[cut.greater]
    with net_cluster(folder, places, settings=settings) as cluster:
        run = train(cluster, MANY, topology=cut.topology, elastic=True)
        try:
            _cut_and_mend(cut, cluster, run)
        except BaseException as error:
            error.add_note(f"{run}, {run.history()}")
            raise


def _cut_and_mend(item: Cut, cluster: NetCluster, run: Run) -> None:
    away = "b" if item.greater == "here" else "a"
    lost = {task for task, end in SIDES[item.greater].items() if end == away}
    until(lambda: run.copied > 0, 30)
    cut(cluster.wire, item.way, True)
    # A busy machine may lose another task meanwhile, which joins again by itself.
    if item.greater == "here":
        until(lambda: lost <= _all_of(run, "lost"), 40)
        seen = run.step
        until(lambda: run.step > seen, 30)
    else:  # only those at the other end know of it
        until(lambda: generation_there(cluster, run) >= 1, 40)
    cut(cluster.wire, item.way, False)

    until(lambda: lost <= _all_of(run, "joined"), 60)
    seen = run.step
    until(lambda: run.step > seen + 5, 30)
    run.stop()
    run.wait(60)
    assert lost <= _all_of(run, "lost")
    assert_same_bits(run, run.step)


def _all_of(run: Run, what: str) -> set[str]:
    return {task for change in run.history() for task in getattr(change, what)}
