"""Without slots, finished parameters travel while the rest is still computed."""

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
from tests.training.toy import BATCH, DATA, Params, quick_cluster

pytestmark = pytest.mark.slow

NAMES = ["c", "b", "a"]  # the last parameter comes first in the buffer
STEPS = 4


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


@pytest.mark.parametrize(
    ("topology", "kind"),
    [
        ("ring", TransferKind.GATHER),
        ("mesh", TransferKind.GATHER),
        ("ps", TransferKind.PULL),
    ],
)
@pytest.mark.parametrize("slots", [False, True])
def test_first_parameters_are_handed_out_early_only_without_slots(
    topology: str, kind: TransferKind, slots: bool
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

    moved = run.trace.transfers[run.trace.transfers["kind"] == kind]
    firsts = [moved[moved["step"] == step]["start"].min() for step in range(STEPS)]
    # When the last worker had the last gradient, in each step.
    lasts = [max(times) for times in zip(*slow.ready.values(), strict=True)]
    assert len(slow.ready) == 2
    assert len(lasts) == STEPS
    early = [first < last for first, last in zip(firsts, lasts, strict=True)]
    assert any(early) != slots
