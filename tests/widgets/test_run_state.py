"""Rates and numbers of one moment, against sums made by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.trace.log import rows
from kit.trace.named_rows import EpochRow
from kit.trace.trace import Trace
from kit.trace.traffic import MEASURE, STEP, TRANSFER, TransferKind
from tests.cases import for_each
from tests.widgets.traces import toggled
from widgets.board.run_state import Moment, capacity, measured, whole_steps

TASKS = ("ps:0", "worker:0", "worker:1")


SECOND = 1_000_000_000


def played(*ends: float, n_bytes: int = 100) -> Trace:
    """Return a trace of two workers whose steps ended at these seconds.

    Both push in each step, worker:1 three times as much, halfway through it.
    """
    moves, steps = [], []
    for n, (begin, end) in enumerate(pairwise((0.0, *ends))):
        start, last = int(begin * SECOND), int(end * SECOND)
        for task in (1, 2):
            size, at = n_bytes * (2 * task - 1), (start + last) // 2
            moves.append((task, 0, TransferKind.PUSH, 1, n, size, start, at))
            steps.append((task, n, 1, 0.5, 8, start, last, 0, (last - start) // 4, 0))
    epochs = (EpochRow(1, "ps", 0, 0, ""),)
    return Trace(
        TASKS, epochs, transfers=rows(TRANSFER, moves), steps=rows(STEP, steps)
    )


def test_a_rate_is_the_bytes_of_whole_steps_over_their_time() -> None:
    trace = played(*(n / 10 for n in range(1, 31)))  # ten steps a second

    result = measured(trace)

    # The newest step may lack news, so the second ends with the one before.
    assert result.numbers.n_steps == 10
    assert result.numbers.step_rate == pytest.approx(10.0)
    assert result.rates == pytest.approx({(1, 0): 1000.0, (2, 0): 3000.0})
    assert result.per_step == {(1, 0): 100.0, (2, 0): 300.0}


@given(st.lists(st.integers(20, 900), min_size=4, max_size=40))
def test_numbers_of_one_moment_agree_with_each_other(lengths_ms: list[int]) -> None:
    result = measured(played(*(np.cumsum(lengths_ms) / 1000)))

    n = result.numbers
    assert n.step_rate is not None
    assert n.step_s is not None
    assert n.measured == sum(result.per_step.values())
    assert n.step_rate * n.step_s == pytest.approx(1.0)
    for link, n_bytes in result.per_step.items():
        assert result.rates[link] == pytest.approx(n_bytes * n.step_rate)


@for_each("length_s", [0.02, 0.7, 2.0, 30.0])
def test_updates_of_workers_that_go_at_their_own_pace_are_counted_as_often_as_they_end(
    length_s: float,
) -> None:
    # Two workers, half a step apart; each update is one of them.
    steps, moves = [], []
    for n in range(400):
        task, end = 1 + n % 2, int((n + 1) * length_s / 2 * SECOND)
        start = end - int(length_s * SECOND)
        steps.append((task, n, 1, 0.5, 8, start, end, 0, 0, 0))
        moves.append((task, 0, TransferKind.PUSH, 1, n, 100, start, end))
    epochs = (EpochRow(1, "ps-async", 0, 0, ""),)
    moved, done = rows(TRANSFER, moves), rows(STEP, steps)
    trace = Trace(TASKS, epochs, transfers=moved, steps=done)

    result = measured(trace)

    assert result.numbers.step_rate == pytest.approx(2 / length_s)
    assert sum(result.rates.values()) == pytest.approx(200 / length_s)
    if result.numbers.n_steps == 1:
        assert result.numbers.step_s == pytest.approx(length_s)


def test_when_no_step_ends_for_long_nothing_moves_and_the_bytes_stay() -> None:
    trace = played(0.1, 0.2, 0.3, 0.4)

    soon, late = (measured(trace, now=int(at * SECOND)) for at in (1.2, 1.4))

    assert set(soon.rates.values()) == {1000.0, 3000.0}
    assert set(late.rates.values()) == {0.0}
    assert late.numbers.step_rate is None
    assert late.per_step == soon.per_step == {(1, 0): 100.0, (2, 0): 300.0}


def test_steps_of_many_seconds_have_a_rate_until_the_next_one_is_overdue() -> None:
    trace = played(8, 16, 24, 32)  # the third is the newest whole one

    assert measured(trace, now=39 * SECOND).rates[1, 0] == pytest.approx(100 / 8)
    assert measured(trace, now=41 * SECOND).rates[1, 0] == 0


def test_links_of_a_ring_are_equally_fast_right_after_a_switch() -> None:
    trace = toggled(("ps", "ring"), steps=6, n_bytes=600_000)

    result = measured(trace)

    assert set(result.per_step.values()) == {2 * 2 / 3 * 600_000}
    assert result.rates.keys() == {(1, 2), (2, 3), (3, 1)}  # none of the server
    assert len(set(result.rates.values())) == 1


def test_a_single_step_after_a_pause_is_shown_whole() -> None:
    trace = played(0.1, 0.2, 9.0)  # a second, and then one step

    result = measured(trace, now=99 * SECOND, is_complete=True, is_standing=True)

    assert result.numbers.n_steps == 1
    assert result.per_step == {(1, 0): 100.0, (2, 0): 300.0}
    assert result.numbers.step_rate is None
    assert set(result.rates.values()) == {0.0}


def test_the_loss_is_that_of_the_newest_whole_step_by_examples() -> None:
    table = [(1, 7, 1, 1.0, 10, 0, 9, 0, 0, 0), (2, 7, 1, 4.0, 20, 0, 9, 0, 0, 0)]
    epochs = (EpochRow(1, "ring", 7, 0, ""),)
    lines = [(1, 7, b"accuracy", 0.4, 10, 9), (2, 7, b"accuracy", 0.7, 20, 9)]
    shares = rows(MEASURE, lines)
    trace = Trace(TASKS, epochs, steps=rows(STEP, table), measures=shares)

    result = measured(trace, is_complete=True)

    assert result.loss == pytest.approx(3.0)
    assert result.accuracy == pytest.approx(0.6)


def test_the_loss_is_the_newest_one_until_the_next_epoch_has_whole_steps() -> None:
    before = played(0.1, 0.2, 0.3, 0.4)
    switched = replace(before, epochs=(*before.epochs, EpochRow(2, "ring", 4, 0, "")))
    begun = np.concatenate([before.steps, before.steps[-2:]])
    begun["epoch"][-2:], begun["step"][-2:], begun["loss"][-2:] = 2, 4, 9.0

    for trace in (switched, replace(switched, steps=begun)):
        result = measured(trace)
        assert result.loss == 0.5
        assert result.numbers.step_rate is None  # rates are those of one configuration
        assert result.rates == {}


def test_a_moment_says_what_a_task_sends_and_receives_and_whether_steps_wait() -> None:
    rates = {(0, 1): 1.0, (0, 2): 2.0, (1, 0): 4.0, (2, 0): 8.0}
    moment = Moment(TASKS, topology="ps-async", rates=rates)

    assert (moment.plain_topology, moment.is_synchronous) == ("ps", False)
    assert Moment(TASKS).is_synchronous
    assert [moment.sent(i) for i in range(3)] == [3.0, 4.0, 8.0]
    assert [moment.received(i) for i in range(3)] == [12.0, 1.0, 2.0]


def test_bytes_a_step_are_those_of_the_formula_also_with_torn_edges() -> None:
    trace = toggled(("ps",), steps=30, n_bytes=600_000)
    torn = replace(trace, transfers=trace.transfers[4:-3])

    assert measured(torn).numbers.measured == 2 * 3 * 600_000


def test_rate_waiting_and_staleness_are_of_the_newest_epoch_alone() -> None:
    table = [(1, 0, 1, 1.0, 8, 0, 100, 50, 50, 0)]
    for n in range(4):  # in two seconds, of which a quarter is waited
        begin, end = n * SECOND // 2, (n + 1) * SECOND // 2
        table.append((1, 1 + n, 2, 1.0, 8, begin, end, 0, SECOND // 8, n))
    epochs = (EpochRow(1, "ps", 0, 0, ""), EpochRow(2, "ring", 1, 0, ""))
    trace = Trace(TASKS, epochs, steps=rows(STEP, table))

    result = measured(trace, 7, is_complete=True).numbers

    assert result.step_rate == 2.0
    assert result.waiting == 0.25
    assert result.staleness == 3
    assert result.formula == 7


def test_nothing_recorded_gives_no_numbers_but_the_formula() -> None:
    result = measured(Trace(TASKS), 12).numbers

    assert (result.step_rate, result.measured, result.waiting) == (None, None, None)
    assert result.formula == 12


def test_steps_are_whole_when_no_task_lacks_a_part_of_them() -> None:
    task = np.array([0] * 6 + [1] * 4)
    step = np.array([3, 4, 5, 6, 7, 8, 5, 6, 7, 8])

    assert whole_steps(task, step) == (6, 7)
    assert whole_steps(task[:1], step[:1]) == (0, -1)
    assert whole_steps(task[:0], step[:0]) == (0, -1)


def test_the_speed_of_the_links_fills_a_bar_where_there_is_one() -> None:
    assert capacity("100mbit", 1.0) == (12_500_000.0, True)
    assert capacity("5ms", 300.0) == (300.0, False)
    assert capacity("", 0.0) == (1.0, False)
