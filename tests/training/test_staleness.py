"""Asynchronous workers of which none runs too far ahead of the slowest."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import kit
from tests.cases import for_each
from tests.training import toy
from tests.training.toy import DATA, X, fit, initial, quick_cluster

STEPS = 60


def trained(step: Any, data: Any = DATA, **changes: Any) -> kit.Run:
    how: dict[str, Any] = {"optimizer": kit.GradientDescent(1e-4), "steps": STEPS}
    return toy.trained(1, 3, step, data=data, sync=False, **how, **changes)


def most_ahead(run: kit.Run) -> int:
    """Return how many updates more than the slowest any worker had made at any time."""
    updates = run.trace.steps[run.trace.steps["examples"] > 0]
    made = dict.fromkeys(run.job.workers, 0)
    ahead = 0
    for update in np.sort(updates, order="step"):
        made[int(update["task"])] += 1
        ahead = max(ahead, max(made.values()) - min(made.values()))
    return ahead


def slow_third(params: Any, batch: Any) -> Any:
    if X[-1, 0] in batch[0][:, 0]:  # the one mini-batch's last rows
        threading.Event().wait(0.02)
    return fit(params, batch)


@pytest.mark.slow
@for_each("bound", [0, 1, 4])
def test_nobody_is_further_ahead_than_the_bound_and_one(bound: int) -> None:
    run = trained(slow_third, [DATA], staleness=bound)

    steps = run.trace.steps
    updates = steps[steps["examples"] > 0]
    assert sorted(updates["step"]) == list(range(STEPS))
    assert most_ahead(run) == bound + 1


@pytest.mark.slow
def test_without_a_bound_a_slow_worker_is_left_behind() -> None:
    assert most_ahead(trained(slow_third, [DATA])) > 5


@pytest.mark.slow
def test_staleness_is_counted_from_what_a_worker_was_sent() -> None:
    run = trained(fit, staleness=1)

    # No more can come between a pull and a push than what two others may be ahead and
    # behind: each makes bound + 1 updates more, from as much behind, and one.
    late = [record["staleness"] for record in run.metrics]
    assert max(late) <= 2 * (2 * (1 + 1))
    assert run.step == STEPS


@pytest.mark.slow
def test_pauses_and_stops_free_those_that_wait() -> None:
    with quick_cluster(1, 3) as cluster:
        run = kit.train(
            *(slow_third, initial(), [DATA]),
            optimizer=kit.GradientDescent(1e-4),
            sync=False,
            staleness=0,
            steps=400,
            cluster=cluster,
        )
        for _ in range(3):
            run.pause()
            run.advance(5)
            run.resume()
        run.stop()
        run.wait(30)

    updates = run.trace.steps[run.trace.steps["examples"] > 0]
    assert sorted(updates["step"]) == list(range(run.step))
