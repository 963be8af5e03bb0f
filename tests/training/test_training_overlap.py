"""A step that yields its gradients: the same bits, and the exchange beside it."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import kit
from kit.trace.traffic import TransferKind
from kit.training.core.part import Overlap
from tests.training.toy import (
    BATCH,
    DATA,
    Params,
    begin,
    fit,
    quick_cluster,
    replayed,
    same_bits,
)

pytestmark = pytest.mark.slow

NAMES = ["c", "b", "a"]  # the last parameter comes first in the buffer
STEPS = 4
#: What gradients are sent as, and parameters handed out, if that can be early.
KINDS: dict[str, tuple[TransferKind, TransferKind | None]] = {
    "ps": (TransferKind.PUSH, TransferKind.PULL),
    "ring": (TransferKind.REDUCE, TransferKind.GATHER),
    "ring-whole": (TransferKind.REDUCE, None),
    "mesh": (TransferKind.REDUCE, TransferKind.GATHER),
}


def one_by_one(params: Params, batch: Any) -> Generator[Any, None, float]:
    loss, gradients = fit(params, batch)
    yield from reversed(gradients.items())
    return float(loss)


class Slow:
    """A step whose last gradient takes its time; `ready` has when, by worker."""

    def __init__(self) -> None:
        self.ready = defaultdict[int, list[int]](list)

    def __call__(self, params: Params, batch: Any) -> Generator[Any, None, float]:
        yield "a", np.ones(64, np.float32)
        yield "b", np.ones(64, np.float32)
        total = 0.0
        for _ in range(80):  # some milliseconds, in which the interpreter is let go
            total += float(np.sort(np.arange(40_000.0)[::-1]).sum())
        self.ready[threading.get_ident()].append(time.monotonic_ns())
        yield "c", np.ones(64, np.float32)
        return total


@pytest.mark.parametrize("topology", KINDS)
@pytest.mark.parametrize("slots", [False, True])
def test_first_bucket_is_sent_early_and_handed_out_early_without_slots(
    topology: str, slots: bool
) -> None:
    params = {name: np.zeros(64, np.float32) for name in NAMES}
    slow = Slow()
    with quick_cluster(1, 2, bucket_bytes=256) as cluster:
        run = kit.train(
            slow,
            params,
            DATA,
            optimizer=kit.Adagrad(0.1) if slots else kit.GradientDescent(0.1),
            topology=topology,
            steps=STEPS,
            batch=BATCH,
            cluster=cluster,
        ).wait(20)

    # When the workers had the last gradient, in each step.
    lasts = [*zip(*slow.ready.values(), strict=True)]
    assert (len(slow.ready), len(lasts)) == (2, STEPS)

    def n_early(kind: TransferKind, limits: list[int]) -> int:
        moved = run.trace.transfers[run.trace.transfers["kind"] == kind]
        firsts = [moved[moved["step"] == step]["start"].min() for step in range(STEPS)]
        return sum(first < limit for first, limit in zip(firsts, limits, strict=True))

    sent, handed_out = KINDS[topology]
    # A busy machine may let the other thread wait for once.
    assert n_early(sent, [min(times) for times in lasts]) >= 2
    if handed_out is not None:
        assert (n_early(handed_out, [max(times) for times in lasts]) > 0) != slots


def wait_for(event: threading.Event) -> None:
    assert event.wait(20)


def test_exchange_beside_the_computation_has_no_deadline_but_those_of_its_waits() -> (
    None
):
    go, ended = threading.Event(), threading.Event()
    exchange = Overlap(lambda _: wait_for(go), 1, "kit-exchange-test")
    exchange.ready(0)

    def finish() -> None:
        exchange.finish()
        ended.set()

    waiting = threading.Thread(target=finish)
    waiting.start()
    assert not ended.wait(0.05)
    go.set()
    wait_for(ended)
    waiting.join()
    exchange.close()


def test_step_may_yield_in_some_steps_only() -> None:
    def mixed(params: Params, batch: Any) -> Any:
        early = float(params["scale"]) == 1.0
        return one_by_one(params, batch) if early else fit(params, batch)

    with quick_cluster() as cluster:
        run = begin(cluster, mixed, steps=4).wait(10)

    assert same_bits(run.params, replayed(4, 2, kit.GradientDescent()))
