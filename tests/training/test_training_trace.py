"""What is recorded of a training, by formulas, measures and the clocks of its parts."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import StepFailed
from kit.testing.cluster import LocalCluster
from kit.trace.trace import Trace
from kit.trace.traffic import Meter, Phase
from kit.training.worker.own_part import OwnPart
from kit.training.worker.worker import named
from tests.cases import for_each
from tests.training.toy import (
    BATCH,
    Params,
    X,
    Y,
    begin,
    fit,
    initial,
    quick_cluster,
    replayed,
    rows,
    same_bits,
    share,
    telling,
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


# -- what a step tells beside its loss -------------------------------------------------

EIGHT = 8


def one_by_one(params: Params, batch: Any) -> Any:
    loss, gradients = fit(params, batch)
    yield from gradients.items()
    return loss, {"accuracy": share(batch[0])}


def in_place(params: Params, batch: Any, grads: Any) -> Any:
    loss, gradients = fit(params, batch)
    for name, value in gradients.items():
        grads[name][...] = value
    return loss, None, {"accuracy": share(batch[0])}


@pytest.fixture(scope="module")
def runs() -> tuple[kit.Run, kit.Run]:
    """A training that tells its loss alone, and one that tells more."""
    with quick_cluster(1, 2) as cluster:
        silent, tells = (
            begin(cluster, step, steps=EIGHT).wait(30) for step in (fit, telling)
        )
    return silent, tells


@pytest.mark.parametrize("step", [telling, one_by_one, in_place])
def test_a_measure_is_the_mean_over_the_whole_mini_batch(step: Any) -> None:
    with quick_cluster(1, 3) as cluster:  # ten examples: 4, 3 and 3
        run = begin(cluster, step, steps=EIGHT).wait(30)

    steps, values = run.trace.measured("accuracy")
    assert steps.tolist() == list(range(EIGHT))
    assert values == pytest.approx([share(X[rows(s)]) for s in range(EIGHT)])
    assert same_bits(run.params, replayed(EIGHT, 3, kit.GradientDescent()))


def test_measures_move_no_byte_between_the_tasks(runs: tuple[kit.Run, kit.Run]) -> None:
    silent, reply = runs

    assert np.array_equal(reply.trace.totals, silent.trace.totals)
    assert len(silent.trace.measures) == 0
    assert len(reply.trace.measures) == 2 * 2 * EIGHT


def test_who_tells_nothing_keeps_no_log() -> None:
    with quick_cluster(1, 2) as cluster:
        begin(cluster, steps=2).wait(30)
        meters = [
            member.meter
            for server in cluster.servers
            if (member := server.trainings.member) is not None
        ]

    assert len(meters) == 3
    assert [meter.measures for meter in meters] == [None] * 3


def test_each_asynchronous_update_tells_its_own() -> None:
    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, telling, steps=20, sync=False).wait(30)

    steps, values = run.trace.measured("n")
    assert steps.tolist() == list(range(20))
    assert values.tolist() == [BATCH / 2] * 20


def test_measures_are_columns_of_the_frame(runs: tuple[kit.Run, kit.Run]) -> None:
    pytest.importorskip("pandas")

    frame = runs[1].frame()

    assert frame["accuracy"].tolist() == pytest.approx(
        [share(X[rows(s)]) for s in range(EIGHT)]
    )
    assert set(frame["n"]) == {BATCH / 2}
    assert "loss" in frame


def test_a_measure_hides_no_column_of_the_frame() -> None:
    pytest.importorskip("pandas")

    def telling(params: Params, batch: Any) -> Any:
        return (*fit(params, batch), {"loss": 7.0, "topology": 8.0, "step": 9.0})

    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, telling, steps=2).wait(30)
        plain = begin(cluster, fit, steps=2).wait(30)

    result, expected = run.frame(), plain.frame()
    same = ["loss", "topology", "examples", "contributors"]
    assert result[same].equals(expected[same])
    assert result.index.tolist() == [0, 1]
    more = result.drop(columns=[*expected.columns])
    assert more.iloc[0].to_dict() == {
        "loss (2)": 7.0,
        "step (2)": 9.0,
        "topology (2)": 8.0,
    }


def test_a_saved_trace_keeps_them_and_one_of_before_has_none(
    runs: tuple[kit.Run, kit.Run], tmp_path: Path
) -> None:
    run, path = runs[1], tmp_path / "run.json"
    run.trace.save(path)

    assert np.array_equal(Trace.load(path).measures, run.trace.measures)
    document = json.loads(path.read_text())
    del document["psring"]["measures"]
    path.write_text(json.dumps(document))
    assert len(Trace.load(path).measures) == 0
    assert np.array_equal(Trace.load(path).spans, run.trace.spans)


def test_a_nan_is_kept_as_it_is(tmp_path: Path) -> None:
    def unsure(params: Params, batch: Any) -> Any:
        return (*fit(params, batch), {"accuracy": float("nan")})

    with quick_cluster(1, 1) as cluster:
        run = begin(cluster, unsure, steps=2).wait(30)
    run.trace.save(tmp_path / "run.json")

    _, values = Trace.load(tmp_path / "run.json").measured("accuracy")
    assert np.isnan(values).tolist() == [True, True]


@for_each(
    ("result", "said"),
    [
        ([0.5], r"gave \[0.5\] besides loss and gradients; give a dict"),
        ({f"m{i}": 1.0 for i in range(17)}, "17 of them"),
        ({"": 1.0}, "called ''"),
        ({"a" * 33: 1.0}, "1 to 32"),
        ({3: 1.0}, "called 3"),
        ({"a\0": 1.0}, r"called 'a\\x00'; .* printable"),  # a row cuts zeros off
        ({"\ud800": 1.0}, "printable"),
        ({"a\nb": 1.0}, "printable"),
        ({"accuracy": "good"}, "gave 'good' as 'accuracy'"),
        ({"accuracy": np.ones(2)}, "the mean over this worker's examples"),
    ],
)
def test_what_is_no_measure_is_named(result: Any, said: str) -> None:
    with pytest.raises(StepFailed, match=f"worker:1, step 7: .*{said}"):
        named("worker:1", 7, result)


def test_a_bad_measure_stops_the_training_and_changes_nothing() -> None:
    def bad(params: Params, batch: Any) -> Any:
        return (*fit(params, batch), {"accuracy": None})

    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, bad)
        with pytest.raises(StepFailed, match="None as 'accuracy'"):
            run.wait(30)

    assert run.step == 0
    assert same_bits(run.params, initial())


# -- a worker's own part ---------------------------------------------------------------

MS = 1_000_000


class Clock:
    """A clock and a scheduler that are told how the time goes by."""

    def __init__(self) -> None:
        self.now = 100 * MS
        self.delay: int | None = 0
        self.n_asked = 0

    def __call__(self) -> int:
        return self.now

    def asked(self) -> int | None:
        self.n_asked += 1
        return self.delay


def do_step(part: OwnPart, clock: Clock, step: int, *, queued: int) -> None:
    since = part.begin()
    clock.now += 2 * MS
    part.load(since)
    clock.now += 7 * MS
    if clock.delay is not None:
        clock.delay += queued
    part.end(step)


def spans(meter: Meter) -> list[tuple[Phase, int, int]]:
    result = meter.spans.since(0)[0]
    return [
        (Phase(phase), step, (end - since) // MS)
        for _, phase, step, since, end in result.tolist()
    ]


def test_time_without_a_core_is_taken_from_the_computing() -> None:
    clock, meter = Clock(), Meter(1)
    part = OwnPart(meter, clock, clock.asked)

    do_step(part, clock, 0, queued=3 * MS)

    assert spans(meter) == [
        (Phase.LOAD, 0, 2),
        (Phase.COMPUTE, 0, 4),
        (Phase.QUEUE, 0, 3),
    ]


def test_mini_batches_of_local_steps_are_one_span_of_loading() -> None:
    clock, meter = Clock(), Meter(1)
    part = OwnPart(meter, clock, clock.asked)

    part.begin()
    for _ in range(3):  # local steps
        since = part.clock()
        clock.now += 2 * MS
        part.load(since)
        clock.now += 5 * MS
    part.end(0)

    assert spans(meter)[:2] == [(Phase.LOAD, 0, 6), (Phase.COMPUTE, 0, 15)]


def test_more_delay_than_the_step_lasted_is_of_loading_too() -> None:
    clock, meter = Clock(), Meter(1)

    do_step(OwnPart(meter, clock, clock.asked), clock, 0, queued=99 * MS)

    assert spans(meter)[1:] == [(Phase.COMPUTE, 0, 0), (Phase.QUEUE, 0, 7)]


def test_kernel_is_asked_at_most_once_in_20_ms() -> None:
    clock, meter = Clock(), Meter(1)
    part = OwnPart(meter, clock, clock.asked)

    for step in range(5):
        do_step(part, clock, step, queued=0)

    # A step takes 9 ms: the first that begins 20 ms after the end of the first one.
    asked = [step for phase, step, _ in spans(meter) if phase is Phase.QUEUE]
    assert asked == [0, 4]
    assert clock.n_asked == 4


def test_kernel_that_tells_nothing_leaves_the_computing_whole() -> None:
    clock, meter = Clock(), Meter(1)
    clock.delay = None

    do_step(OwnPart(meter, clock, clock.asked), clock, 0, queued=0)

    assert spans(meter) == [(Phase.LOAD, 0, 2), (Phase.COMPUTE, 0, 7)]


def test_without_a_trace_nothing_is_asked() -> None:
    clock, meter = Clock(), Meter(1, trace=False)

    do_step(OwnPart(meter, clock, clock.asked), clock, 0, queued=0)

    assert clock.n_asked == 0
    assert spans(meter) == []


def test_each_step_of_a_training_loads_and_then_computes(cluster: LocalCluster) -> None:
    run = begin(cluster, steps=4).wait(30)

    assert isinstance(run, kit.Run)
    for worker in run.job.workers:
        mine = run.trace.spans[run.trace.spans["task"] == worker]
        loads = mine[mine["phase"] == Phase.LOAD]
        computes = mine[mine["phase"] == Phase.COMPUTE]
        assert np.array_equal(loads["step"], [0, 1, 2, 3])
        assert np.array_equal(loads["end"], computes["start"])
