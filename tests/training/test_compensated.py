"""Gradients of asynchronous workers that are corrected for their delay."""

from __future__ import annotations

import numpy as np
import pytest

import kit
from tests.training.toy import (
    Params,
    X,
    Y,
    fit,
    initial,
    replayed,
    rows,
    same_bits,
    trained,
)

N, STEPS, RATE, STRENGTH = 3, 40, 0.01, 0.3


def by_numpy(run: kit.Run, strength: float) -> Params:
    """Make the updates of the trace again, in their order, as in the paper."""
    updates = run.trace.steps[run.trace.steps["examples"] > 0]
    params = initial()
    pulled = dict.fromkeys(run.job.workers, params)
    taken = dict.fromkeys(run.job.workers, 0)
    for update in np.sort(updates, order="step"):
        worker = int(update["task"])
        part = np.array_split(rows(taken[worker]), N)[run.job.workers.index(worker)]
        _, own = fit(pulled[worker], (X[part], Y[part]))
        new = {}
        for name, g in own.items():
            way = params[name] - pulled[worker][name]
            corrected = g + g.dtype.type(strength) * g * g * way
            new[name] = np.asarray(params[name] - g.dtype.type(RATE) * corrected)
        params = pulled[worker] = new
        taken[worker] += 1
    return params


@pytest.mark.slow
def test_updates_are_those_of_the_paper_in_the_order_of_the_trace() -> None:
    optimizer = kit.DelayCompensated(kit.GradientDescent(RATE), STRENGTH)
    run = trained(1, N, optimizer=optimizer, sync=False, steps=STEPS)

    wanted, plain = by_numpy(run, STRENGTH), by_numpy(run, 0.0)
    for name, value in wanted.items():
        np.testing.assert_allclose(run.params[name], value, rtol=1e-5, atol=1e-6)
    assert not np.allclose(wanted["w"], plain["w"], rtol=1e-5, atol=1e-6)
    assert run.step == STEPS


def test_synchronous_steps_are_those_of_the_rule() -> None:
    rule = kit.Adam(0.01)
    run = trained(1, 2, optimizer=kit.DelayCompensated(rule), steps=6)

    assert same_bits(run.params, replayed(6, 2, rule))
