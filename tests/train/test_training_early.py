"""Without slots, finished parameters travel while the rest is still computed."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import kit
from kit.traffic import Kind, Phase
from tests.train.toy import BATCH, DATA, Params, quick_cluster

pytestmark = pytest.mark.slow

NAMES = ["c", "b", "a"]  # the last parameter comes first in the buffer
STEPS = 4


def slow(params: Params, batch: Any) -> Generator[Any, None, float]:
    yield "a", np.ones(64, np.float32)
    yield "b", np.ones(64, np.float32)
    total = 0.0
    for _ in range(80):  # some milliseconds, in which the interpreter is let go
        total += float(np.sort(np.arange(40_000.0)[::-1]).sum())
    yield "c", np.ones(64, np.float32)
    return total


@pytest.mark.parametrize(
    ("topology", "kind"),
    [("ring", Kind.GATHER), ("mesh", Kind.GATHER), ("ps", Kind.PULL)],
)
@pytest.mark.parametrize("slots", [False, True])
def test_first_parameters_are_handed_out_early_only_without_slots(
    topology: str, kind: Kind, slots: bool
) -> None:
    params = {name: np.zeros(64, np.float32) for name in NAMES}
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

    trace = run.trace
    moved = trace.transfers[trace.transfers["kind"] == kind]
    computing = trace.spans[trace.spans["phase"] == Phase.COMPUTE]
    for step in range(STEPS):
        first = moved[moved["step"] == step]["start"].min()
        computed = computing[computing["step"] == step]["end"].max()
        assert (first < computed) != slots
