"""Asynchronous training: each worker at its own pace, every update counted once."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import kit
from kit.trace.traffic import TransferKind
from tests.training.toy import (
    DATA,
    X,
    begin,
    by_kind,
    fit,
    initial,
    quick_cluster,
    trained,
)

STEPS = 60
SIZE = sum(value.nbytes for value in initial().values())


@pytest.mark.parametrize("n_ps", [1, 2])
def test_exactly_the_wanted_updates_are_made_and_moved(n_ps: int) -> None:
    run = trained(n_ps, 3, sync=False, steps=STEPS)

    steps = run.trace.steps
    updates = steps[steps["examples"] > 0]
    assert run.step == STEPS
    assert sorted(updates["step"]) == list(range(STEPS))
    assert (
        by_kind(run, TransferKind.PUSH)
        == by_kind(run, TransferKind.PULL)
        == STEPS * SIZE
    )


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
def test_slow_worker_delays_no_other() -> None:
    slow = threading.Event()  # never set: a wait on it is a slow computation
    # Each worker has rows of its own of the one mini-batch that there is.
    mark = X[-1, 0]

    def step(params: Any, batch: Any) -> Any:
        if mark in batch[0][:, 0]:
            slow.wait(0.3)
        return fit(params, batch)

    with quick_cluster(1, 3) as cluster:
        run = kit.train(
            step,
            initial(),
            [DATA],
            optimizer=kit.GradientDescent(1e-4),
            sync=False,
            steps=200,
            cluster=cluster,
        ).wait(20)

    steps = run.trace.steps
    done = [int((steps["task"] == worker).sum()) for worker in run.job.workers]
    assert sum(done) == 200
    assert done[2] < 0.1 * min(done[:2])


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
    assert by_kind(run, TransferKind.PUSH) == 2000 * SIZE


def test_generator_steps_train_asynchronously_too() -> None:
    def one_by_one(params: Any, batch: Any) -> Any:
        loss, gradients = fit(params, batch)
        yield from gradients.items()
        return loss

    run = trained(1, 2, one_by_one, sync=False, steps=20)

    assert run.step == 20
    assert all(np.isfinite(value).all() for value in run.params.values())


@pytest.mark.parametrize("n_ps", [1, 2])
def test_the_parameters_hold_every_workers_updates(n_ps: int) -> None:
    def always_one(params: Any, batch: Any) -> Any:
        return 0.0, {name: np.ones_like(value) for name, value in params.items()}

    rate = 2.0**-10  # exact, so the order of the updates does not matter
    run = trained(
        n_ps, 3, always_one, optimizer=kit.GradientDescent(rate), sync=False, steps=64
    )

    for name, value in run.params.items():
        moved = np.float64(initial()[name]) - np.float64(value)
        np.testing.assert_allclose(moved, 64 * rate, rtol=1e-5)
