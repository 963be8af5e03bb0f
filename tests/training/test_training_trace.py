"""What is recorded of a training agrees with what happened, and with the formulas."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import kit
from kit.trace.traffic import Phase
from tests.training.toy import (
    BATCH,
    X,
    Y,
    begin,
    fit,
    initial,
    quick_cluster,
    rows,
    trained,
)

SIZE = sum(value.nbytes for value in initial().values())
STEPS = 6


@pytest.fixture(scope="module")
def run() -> kit.Run:
    with quick_cluster(1, 2) as cluster:
        return begin(cluster).wait(20)


@pytest.mark.slow
def test_closed_formulas_of_both_topologies_are_met() -> None:
    with quick_cluster(1, 3) as cluster:
        star = begin(cluster, topology="ps").wait(20)
        ring = begin(cluster, topology="ring").wait(20)

    assert star.trace.received("ps:0") == STEPS * 3 * SIZE
    assert star.trace.sent("ps:0") == STEPS * 3 * SIZE
    assert star.trace.sent("worker:1") == STEPS * SIZE
    assert ring.trace.received("ps:0") == 0
    sent = sum(ring.trace.sent(f"worker:{n}") for n in range(3))
    assert sent == STEPS * 2 * 2 * SIZE  # n workers, each 2(n-1)/n of the bytes


def test_metrics_have_one_record_a_step_with_the_weighted_loss() -> None:
    run = trained(1, 3, steps=1)

    (record,) = run.metrics
    chosen = rows(0)
    whole, _ = fit(initial(), (X[chosen], Y[chosen]))
    assert record["loss"] == pytest.approx(whole, rel=1e-6)
    assert record["loss"] == pytest.approx(run.loss)
    assert (record["step"], record["epoch"]) == (0, 1)
    assert (record["examples"], record["staleness"]) == (BATCH, 0)
    assert 0 < record["compute"] < record["seconds"]


@pytest.mark.parametrize("topology", ["ps", "ring"])
def test_spans_of_a_task_do_not_overlap_and_fill_its_steps(topology: str) -> None:
    def busy(params: Any, batch: Any) -> Any:
        np.sort(np.arange(100_000.0)[::-1])  # else the loop's own cost would count
        return fit(params, batch)

    run = trained(1, 2, busy, topology=topology)

    trace = run.trace
    for worker in run.job.workers:
        spans = trace.spans[trace.spans["task"] == worker]
        spans = spans[np.argsort(spans["start"], kind="stable")]
        assert all(a["end"] <= b["start"] for a, b in pairwise(spans))
        assert (spans["start"] <= spans["end"]).all()
        # Other processes may interrupt a step between two spans, but not all of them.
        filled = [
            length_within(spans, step["start"], step["end"])
            / (step["end"] - step["start"])
            for step in trace.steps[trace.steps["task"] == worker]
        ]
        assert max(filled) > 0.6


def length_within(spans: Any, start: int, end: int) -> int:
    ends, starts = np.minimum(spans["end"], end), np.maximum(spans["start"], start)
    return int(np.maximum(ends - starts, 0).sum())


def test_transfers_lie_within_their_step_and_arrive_after_they_left(
    run: kit.Run,
) -> None:
    trace = run.trace
    assert (trace.transfers["start"] <= trace.transfers["end"]).all()
    assert (trace.transfers["source"] != trace.transfers["destination"]).all()
    for step in range(STEPS):
        moved = trace.transfers[trace.transfers["step"] == step]
        table = trace.steps[trace.steps["step"] == step]
        assert moved["start"].min() >= table["start"].min() or step == 0
        assert moved["end"].max() <= table["end"].max()


def test_compute_spans_count_the_time_in_the_step_function(run: kit.Run) -> None:
    spent = run.trace.phase_time()[:, Phase.COMPUTE]
    assert spent[0] == 0  # the parameter server computes nothing
    assert (spent[1:] > 0).all()


def test_oldest_rows_are_dropped_and_the_totals_stay_exact() -> None:
    with quick_cluster(1, 2, trace_rows=10) as cluster:
        run = begin(cluster, steps=30).wait(20)

    assert len(run.trace.transfers) <= 10
    assert run.trace.kept.details
    assert all(entry.agrees for entry in run.traffic)
