"""The curves and the row of one run, against traces that are known by heart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.experiments.summary import RunSummary, curves, phases, row
from kit.trace.log import rows
from kit.trace.named_rows import EpochRow
from kit.trace.trace import Trace
from kit.trace.traffic import STEP, TOTAL, TRANSFER, Phase, TransferKind
from tests.cases import for_each
from tests.experiments.traces import PS, TASKS, measured, trace_of

RING = EpochRow(1, "ring", 3, 9, "1gbit")
SIZES = st.lists(st.integers(0, 10**9).map(lambda half: 2 * half), max_size=30)


def test_seconds_begin_with_the_first_step_and_end_with_the_last_worker() -> None:
    result = curves(trace_of([3.0, 2.0, 1.0]))

    assert result.step.tolist() == [0, 1, 2]
    assert result.loss.tolist() == [3.0, 2.0, 1.0]
    assert result.seconds == pytest.approx([0.01, 0.02, 0.03])
    assert result.step_seconds == pytest.approx([0.01] * 3)


@given(SIZES)
def test_bytes_up_to_a_step_are_the_sum_of_those_of_the_steps(sizes: list[int]) -> None:
    epochs = (PS, RING) if len(sizes) > 3 else (PS,)

    result = curves(trace_of([1.0] * len(sizes), sizes, epochs=epochs))

    assert result.bytes.tolist() == np.cumsum(np.array(sizes, float)).tolist()


@given(
    st.integers(1, 20), st.integers(1, 20), st.integers(0, 10**6), st.integers(0, 40)
)
def test_dropped_transfers_change_no_byte_of_steps_that_all_move_the_same(
    before: int, after: int, size: int, keep_from: int
) -> None:
    sizes = [2 * size] * before + [size - size % 2] * after
    epochs = (PS, RING._replace(first_step=before))

    result = curves(
        trace_of([1.0] * len(sizes), sizes, epochs=epochs, keep_from=keep_from)
    )

    assert result.bytes == pytest.approx(np.cumsum(sizes))


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 10**9)), min_size=1))
def test_seconds_never_go_back_however_updates_end(
    times: list[tuple[int, int]],
) -> None:
    table = rows(
        STEP,
        [
            (1 + k % 2, k, 0, 1.0, 8, start, start + took, 0, 0, 0)
            for k, (start, took) in enumerate(times)
        ],
    )

    result = curves(Trace(TASKS, (PS._replace(topology="ps-async"),), steps=table))

    assert (np.diff(result.seconds) >= 0).all()
    whole = max(a + b for a, b in times) - min(a for a, _ in times)
    assert result.seconds[-1] == pytest.approx(whole * 1e-9)
    assert result.step_seconds == pytest.approx([took * 1e-9 for _, took in times])


def test_a_step_that_was_done_again_counts_once_and_its_bytes_twice() -> None:
    push = (1, 0, TransferKind.PUSH)
    moved = [(*push, e, step, 100, 0, 1) for e, step in ((0, 0), (0, 1), (1, 1))]
    again = EpochRow(1, "ps", 1, 5, "", generation=1)
    trace = replace(
        trace_of([2.0, 1.0], epochs=(PS, again)),
        transfers=rows(TRANSFER, moved),
        totals=rows(TOTAL, [(*push, 0, 200, 2), (*push, 1, 100, 1)]),
    )

    result = curves(trace)

    assert result.step.tolist() == [0, 1]
    assert result.bytes.tolist() == [100, 300]


def test_what_was_measured_now_and_then_is_nan_in_between() -> None:
    trace = measured(trace_of([4.0, 3.0, 2.0]), "validation_loss", {0: 5.0, 2: 2.5})

    result = curves(trace).measures["validation_loss"]

    assert result[[0, 2]].tolist() == [5.0, 2.5]
    assert np.isnan(result[1])


TAKEN = ("run", "step", "loss", "state", "steps", "error", "seconds", "bytes_per_step")


def test_what_was_measured_hides_no_column_however_it_is_called() -> None:
    plain = trace_of([4.0, 3.0, 2.0])
    trace = plain
    for number, name in enumerate(TAKEN):
        trace = measured(trace, name, {2: 100.0 + number})
    both = [RunSummary("mine", item, "done", 3, "ps") for item in (plain, trace)]

    columns = curves(trace).measures
    expected, result = (row(item) for item in both)

    assert {*columns}.isdisjoint({"run", "step", "loss", "seconds"})
    assert {name: result[name] for name in expected} == expected
    more = [value for name, value in result.items() if name not in expected]
    assert sorted(map(str, more)) == sorted(str(100.0 + n) for n in range(len(TAKEN)))


def test_a_task_that_computes_a_quarter_of_each_step_does_so_in_its_bar() -> None:
    result = phases(trace_of([1.0, 1.0, 1.0]))

    assert list(result) == ["worker"]  # the server has told nothing
    assert result["worker"][Phase.COMPUTE] == pytest.approx(2.5)
    assert result["worker"][Phase.WAIT] == pytest.approx(7.0)  # 7.5 and 6.5
    assert result["worker"][Phase.APPLY] == 0


def test_the_row_has_the_numbers_of_the_whole_run() -> None:
    trace = trace_of([3.0, 2.0, 1.0, 0.5], [60] * 3 + [20], epochs=(PS, RING))

    result = row(RunSummary("both", trace, "done", 4, "ps"))

    assert result["run"] == "both"
    assert result["topology"] == "ps to ring"
    assert result["link"] == "full speed to 1gbit"
    assert result["tasks"] == "1 ps, 2 worker"
    assert result["loss"] == 0.5
    assert result["bytes_per_step"] == 50
    assert result["ms_per_step"] == pytest.approx(10)
    assert result["steps_per_second"] == pytest.approx(100)
    assert result["seconds"] == pytest.approx(0.04)
    assert result["compute_ms"] == pytest.approx(2.5)


@for_each("trace", [Trace(TASKS), Trace(TASKS, (PS,)), trace_of([], ())])
def test_a_run_without_a_step_has_a_row_of_what_is_not_known(trace: Trace) -> None:
    result = row(RunSummary("none", trace, "failed", 0, "ps", error="StepFailed: no"))

    assert len(curves(trace).step) == 0
    assert (result["steps"], result["state"], result["topology"]) == (0, "failed", "ps")
    unknown = ("loss", "bytes_per_step", "ms_per_step", "steps_per_second", "wait_ms")
    assert all(np.isnan(result[name]) for name in unknown)  # type: ignore[call-overload]


def test_a_loss_that_is_nan_at_the_end_is_not_hidden() -> None:
    result = row(RunSummary("lost", trace_of([1.0, np.nan]), "done", 2, "ps"))

    assert np.isnan(result["loss"])  # type: ignore[call-overload]
