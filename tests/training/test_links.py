"""Data links are opened along the plans: those of the start, others at a switch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import kit
from kit.errors import UnavailableError
from kit.server.directory import Directory
from kit.task import Task
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from kit.wire.handshake.messages import Role
from kit.wire.link import Link
from tests.training.paced import Held, begin, how
from tests.training.toy import quick_cluster, replayed, same_bits

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
