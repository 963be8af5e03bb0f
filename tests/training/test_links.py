"""Links of a training: those of a plan or a switch, slow ones, and between hosts."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import kit
from benchmarks.hosts import between_hosts
from kit.errors import UnavailableError
from kit.exchange.topologies.topology import by_name
from kit.server.directory import Directory
from kit.task import Task
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from kit.trace.trace import Trace
from kit.trace.traffic import TransferKind
from kit.training.core.epoch import EpochRunner
from kit.training.core.log import Epoch
from kit.wire.handshake.messages import Role
from kit.wire.link import Link
from tests.training import toy
from tests.training.paced import Held, begin, how
from tests.training.toy import BATCH, DATA, quick_cluster, replayed, same_bits

N = 5
Pair = tuple[int, int]
RING = {(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)}
FROM_THE_FIRST = {(0, item) for item in range(1, N)}
MOMENTUM = kit.Momentum(0.001)
ALL = {(item, other) for other in range(N) for item in range(other)}


@pytest.fixture
def workers() -> Iterator[LocalCluster]:
    with quick_cluster(0, N, step_deadline_s=4.0) as result:
        yield result


class Dialled:
    """The pairs of workers that have dialled a data link, in their order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pairs: list[Pair] = []
        self.refused: set[Pair] = set()
        plain: Callable[..., Link] = Directory.dial

        def dial(
            own: Directory, task: Task, me: Task, role: Role, *a: Any, **k: Any
        ) -> Link:
            pair = task.index, me.index
            if role is Role.DATA and pair in self.refused:
                raise UnavailableError("nobody answers there.")
            link = plain(own, task, me, role, *a, **k)
            if role is Role.DATA:
                self.pairs.append(pair)
            return link

        monkeypatch.setattr(Directory, "dial", dial)


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> Dialled:
    return Dialled(monkeypatch)


def holds(run: kit.Run, topology: str) -> bool:
    return run.topology == topology or run.done


@pytest.mark.slow
def test_links_are_opened_once_when_a_plan_needs_them(
    workers: LocalCluster, dialled: Dialled
) -> None:
    step = Held()
    run = begin(workers, step, topology="ring", optimizer=MOMENTUM)
    assert step.reached.wait(20)
    at_the_start = list(dialled.pairs)
    for topology, at in ("mesh", 5), ("ring-whole", 10), ("mesh", 15), ("ring", 20):
        run.switch(topology, at=at)
    step.go.set()
    run.wait(30)

    names = ["ring", "mesh", "ring-whole", "mesh", "ring"]
    assert how(run) == [(name, 5 * n) for n, name in enumerate(names)]
    assert same_bits(run.params, replayed(30, N, MOMENTUM))
    assert sorted(at_the_start) == sorted(RING | FROM_THE_FIRST)
    assert sorted(dialled.pairs) == sorted(ALL)


@pytest.mark.slow
def test_switch_whose_links_cannot_be_opened_is_refused_and_may_be_asked_for_again(
    workers: LocalCluster, dialled: Dialled
) -> None:
    step = Held()
    run = begin(workers, step, steps=1_000_000, topology="ring", optimizer=MOMENTUM)
    assert step.reached.wait(20)
    dialled.refused.add((1, 3))
    run.topology = "mesh"
    step.go.set()
    until(lambda: bool(run.refused) or run.done)
    assert run.error is None
    refused = run.refused
    dialled.refused.clear()
    for topology in "ring-whole", "mesh":
        run.topology = topology
        until(partial(holds, run, topology))
        assert run.error is None, topology
    run.stop()
    run.wait(30)

    assert "worker:3: /job:worker/task:1 did not come up in time" in refused
    assert [name for name, _ in how(run)] == ["ring", "ring-whole", "mesh"]
    assert same_bits(run.params, replayed(run.step, N, MOMENTUM))
    assert sorted(dialled.pairs) == sorted(ALL)


# -- refused switches ------------------------------------------------------------------

SGD = kit.GradientDescent(0.05)


def refusing(
    task: str, prepare: Callable[[EpochRunner, Epoch], frozenset[int]]
) -> Callable[..., frozenset[int]]:
    """Return a way to prepare that fails on one task, but for the first epoch."""

    def prepared(runner: EpochRunner, epoch: Epoch) -> frozenset[int]:
        if epoch.number > 1 and threading.current_thread().name.endswith(task):
            raise MemoryError("no room")
        return prepare(runner, epoch)

    return prepared


@pytest.mark.parametrize("at", [4, 5])
@pytest.mark.parametrize(
    ("before", "after"), [("ps", "ring"), ("ring", "ps"), ("mesh", "ring")]
)
def test_training_keeps_its_bits_when_one_member_refuses_a_switch(
    before: str,
    after: str,
    at: int,
    cluster: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        EpochRunner, "prepare", refusing("worker:1", EpochRunner.prepare)
    )
    step = Held()
    run = begin(cluster, step, steps=12, topology=before, optimizer=SGD)
    run.switch(after, at=at)

    step.go.set()
    run.wait(30)

    assert "worker:1: no room" in run.refused
    assert how(run) == [(before, 0)]
    assert same_bits(run.params, replayed(12, 2, SGD))


def test_switch_after_a_refused_one_moves_what_it_should(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, momentum = EpochRunner.prepare, kit.Momentum(0.05, 0.9)
    refuse = refusing("worker:1", prepare)

    def first_time(runner: EpochRunner, epoch: Epoch) -> frozenset[int]:
        return (refuse if epoch.topology == "mesh" else prepare)(runner, epoch)

    monkeypatch.setattr(EpochRunner, "prepare", first_time)
    step = Held()
    run = begin(cluster, step, steps=12, optimizer=momentum)
    run.switch("mesh", at=3)
    run.switch("ring", at=7)

    step.go.set()
    run.wait(30)

    assert how(run) == [("ps", 0), ("ring", 7)]
    assert same_bits(run.params, replayed(12, 2, momentum))


# -- slow links ------------------------------------------------------------------------

N_ITEMS = 2500
S = 4 * N_ITEMS  # 10 000 bytes: 10 ms at 8 Mbit/s
BYTES_A_SECOND = 1e6
STEPS = 3


def even(params: Any, batch: Any) -> Any:
    return 0.0, {"w": np.ones(N_ITEMS, np.float32)}


def begin_even(cluster: Any, **changes: Any) -> kit.Run:
    params = {"w": np.zeros(N_ITEMS, np.float32)}
    options: dict[str, Any] = {
        "steps": STEPS,
        "batch": BATCH,
        "cluster": cluster,
    } | changes
    return kit.train(even, params, DATA, **options)


def shortest_step_s(trace: Trace, epoch: int | None = None) -> float:
    """Return the least time from any member's begin to any member's end of a step."""
    table = trace.steps
    if epoch is not None:
        table = table[table["epoch"] == epoch]
    result = []
    for step in np.unique(table["step"]):
        rows = table[table["step"] == step]
        result.append((int(rows["end"].max()) - int(rows["start"].min())) * 1e-9)
    return min(result)


@pytest.mark.parametrize(
    ("n_ps", "n_workers", "topology", "factor"),
    [
        (0, 2, "ring", 2 * 1 / 2),
        (0, 3, "ring", 2 * 2 / 3),
        (0, 3, "mesh", 2 * 2 / 3),
        # The server takes n gradients in one after the other, and hands out n times.
        (1, 2, "ps", 2 * 2),
        (1, 3, "ps", 2 * 3),
    ],
)
def test_step_takes_the_time_of_its_bytes(
    n_ps: int, n_workers: int, topology: str, factor: float
) -> None:
    with quick_cluster(n_ps, n_workers) as cluster:
        run = begin_even(cluster, topology=topology, link="8mbit").wait(20)

    needed = factor * S / BYTES_A_SECOND
    assert shortest_step_s(run.trace) >= 0.99 * needed


def test_latency_is_paid_on_each_way() -> None:
    with quick_cluster(1, 2) as cluster:
        run = begin_even(cluster, topology="ps", link="10ms").wait(20)

    assert shortest_step_s(run.trace) >= 2 * 0.010


def test_link_is_shaped_over_tcp_too() -> None:
    with quick_cluster(1, 2, transport="tcp", insecure=True) as cluster:
        run = begin_even(cluster, topology="ps", link="8mbit").wait(20)

    assert shortest_step_s(run.trace) >= 0.99 * 2 * 2 * S / BYTES_A_SECOND


def test_change_of_the_link_is_an_epoch_of_its_own() -> None:
    calls = itertools.count(1)
    expected = threading.Event()

    def step(params: Any, batch: Any) -> Any:
        assert expected.wait(10)
        if next(calls) == 5:  # one of two threads, in any case
            run.link = "8mbit, 1ms"
        return even(params, batch)

    with quick_cluster(0, 2) as cluster:
        run = kit.train(
            step,
            {"w": np.zeros(N_ITEMS, np.float32)},
            lambda: iter([DATA] * 12),
            topology="ring",
            link="100gbit",
            steps=12,
            cluster=cluster,
        )
        expected.set()
        run.wait(20)

    links = [epoch.link for epoch in run.trace.epochs]
    assert links == ["100gbit", "8mbit,1ms"]
    assert run.link == "8mbit,1ms"
    assert run.trace.epochs[1].first_step in range(2, 7)
    assert shortest_step_s(run.trace, 2) >= 0.99 * S / BYTES_A_SECOND
    assert all(entry.agrees for entry in run.traffic)


def test_link_at_full_speed_is_an_empty_text() -> None:
    with quick_cluster(0, 2) as cluster:
        run = begin_even(cluster, topology="ring", link="none").wait(20)

    assert run.link == ""


# -- several hosts ---------------------------------------------------------------------

IN_TURN = ["a", "a", "b", "a", "b"]  # the server's, then the workers'
BY_HOST = ["a", "a", "a", "b", "b"]


def train(hosts: Sequence[str], topology: str, link: str = "") -> kit.Run:
    with quick_cluster(1, 4) as cluster:
        cluster.hosts = hosts
        return toy.begin(cluster, steps=6, topology=topology, link=link).wait(20)


def test_workers_of_a_host_stand_together() -> None:
    job = train(IN_TURN, "ring").job

    assert job.workers == (1, 3, 2, 4)
    assert job.group.blocks == ((1, 3), (2, 4))
    assert job.coordinator == 1


@pytest.mark.parametrize("topology", ["ring", "hierarchical"])
@pytest.mark.parametrize("hosts", [IN_TURN, BY_HOST])
def test_links_between_hosts_carry_what_the_formulas_say(
    topology: str, hosts: Sequence[str]
) -> None:
    run = train(hosts, topology)

    group = run.job.group
    wanted = between_hosts(by_name(topology).traffic(run.job.layout, group), group)
    result: dict[tuple[int, int], int] = {}
    for row in run.trace.totals:
        link = group.host(int(row["source"])), group.host(int(row["destination"]))
        if link[0] != link[1] and row["kind"] in (
            TransferKind.REDUCE,
            TransferKind.GATHER,
        ):
            result[link] = result.get(link, 0) + int(row["bytes"])
    assert result == {link: 6 * size for link, size in wanted.items()}
    assert len(result) == 2
