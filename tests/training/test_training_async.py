"""Asynchronous training: each worker at its own pace, every update counted once."""

from __future__ import annotations

import numpy as np
import pytest

import kit
from kit.trace.traffic import TransferKind
from tests.training.toy import (
    begin,
    by_kind,
    initial,
    quick_cluster,
    trained,
)

SIZE = sum(value.nbytes for value in initial().values())


@pytest.mark.slow
def test_staleness_is_what_others_did_in_between_and_the_loss_falls() -> None:
    run = trained(1, 3, optimizer=kit.GradientDescent(0.02), sync=False, steps=300)

    # A worker pulls right after its push, so what came between its updates is stale.
    last = dict.fromkeys(run.job.workers, -1)
    in_between = []
    steps = run.trace.steps[run.trace.steps["examples"] > 0]
    for update in np.sort(steps, order="step"):
        in_between.append(update["step"] - last[update["task"]] - 1)
        last[update["task"]] = update["step"]
    losses = [record["loss"] for record in run.metrics]
    assert [record["staleness"] for record in run.metrics] == in_between
    assert max(in_between) >= 2  # all three begin with the same parameters
    assert np.mean(losses[-30:]) < 0.1 * np.mean(losses[:10])


@pytest.mark.slow
@pytest.mark.parametrize("n_ps", [1, 2])
def test_pause_and_resume_lose_no_update(n_ps: int) -> None:
    with quick_cluster(n_ps, 3) as cluster:
        run = begin(cluster, optimizer=kit.Adagrad(0.1), sync=False, steps=2000)
        for _ in range(3):
            run.pause()
            run.advance(50)
            run.resume()
        run.wait(30)

    steps = run.trace.steps
    updates = steps[steps["examples"] > 0]
    assert run.step == 2000
    assert sorted(updates["step"]) == list(range(2000))
    for kind in (TransferKind.PUSH, TransferKind.PULL):
        assert by_kind(run, kind) == 2000 * SIZE
