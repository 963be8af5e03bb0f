"""A switch that one member refuses changes nothing on the others, at any step."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import kit
from kit.testing.cluster import LocalCluster
from kit.training.core.epoch import EpochRunner
from kit.training.core.log import Epoch
from tests.training.paced import Held, begin, how
from tests.training.toy import replayed, same_bits

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
