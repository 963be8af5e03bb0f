"""Rates and numbers of one moment, against sums made by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kit.trace.log import rows
from kit.trace.trace import EpochRow, Trace
from kit.trace.traffic import STEP, TRANSFER, TransferKind
from widgets.board.run_state import (
    WINDOW_NS,
    Moment,
    capacity,
    mean_rates,
    numbers,
    rates,
    whole_steps,
)

MakeTrace = Callable[..., Trace]
TASKS = ("ps:0", "worker:0", "worker:1")


def moved(*table: tuple[int, int, int, int]) -> Trace:
    """Return a trace of transfers: source, destination, bytes, end."""
    full = [
        (a, b, TransferKind.PUSH, 1, 0, size, end - 1, end) for a, b, size, end in table
    ]
    return Trace(TASKS, transfers=rows(TRANSFER, full))


def test_a_rate_is_what_arrived_in_the_last_second() -> None:
    now = 10 * WINDOW_NS
    trace = moved(
        (1, 0, 100, now - WINDOW_NS),  # just too old
        (1, 0, 30, now - WINDOW_NS + 1),
        (1, 0, 12, now),
        (2, 0, 5, now - 7),
        (2, 0, 1000, now + 1),  # not yet
    )

    assert rates(trace, now) == {(1, 0): 42.0, (2, 0): 5.0}


def test_a_link_that_fell_silent_has_no_rate_any_more() -> None:
    assert rates(moved((1, 0, 100, 5)), now=WINDOW_NS + 5) == {}


def test_what_a_task_sends_and_receives_are_the_sums_of_its_links() -> None:
    moment = Moment(TASKS, rates={(0, 1): 1.0, (0, 2): 2.0, (1, 0): 4.0, (2, 0): 8.0})

    assert [moment.sent(i) for i in range(3)] == [3.0, 4.0, 8.0]
    assert [moment.received(i) for i in range(3)] == [12.0, 1.0, 2.0]


def test_mean_rates_are_the_totals_over_the_time_of_the_last_epoch(
    make_trace: MakeTrace,
) -> None:
    trace = make_trace(("ps", "ring"), steps=20)

    found = mean_rates(trace)

    epoch = trace.epochs[1]
    elapsed = (int(trace.steps["end"].max()) - epoch.at) / 1e9
    assert set(found) == {(1, 2), (2, 3), (3, 1)}
    for (source, _), rate in found.items():
        assert rate == pytest.approx(trace.sent(source, epoch.number) / elapsed)


def test_bytes_a_step_are_those_of_the_formula_also_with_torn_edges(
    make_trace: MakeTrace,
) -> None:
    trace = make_trace(("ps",), steps=30, n_bytes=600_000)
    torn = replace(trace, transfers=trace.transfers[4:-3])

    assert numbers(torn, None).measured == 2 * 3 * 600_000


def test_rate_and_waiting_are_of_the_newest_epoch_alone() -> None:
    second = 1_000_000_000
    table = [(1, 0, 1, 1.0, 8, 0, 100, 50, 50, 0)]
    for n in range(4):  # in two seconds, of which a quarter is waited
        begin, end = n * second // 2, (n + 1) * second // 2
        table.append((1, 1 + n, 2, 1.0, 8, begin, end, 0, second // 8, n))
    epochs = (EpochRow(1, "ps", 0, 0, ""), EpochRow(2, "ring", 1, 0, ""))
    found = numbers(Trace(TASKS, epochs, steps=rows(STEP, table)), 7)

    assert found.step_rate == 2.0
    assert found.waiting == 0.25
    assert found.staleness == 3
    assert found.formula == 7


def test_nothing_recorded_gives_no_numbers_but_the_formula() -> None:
    found = numbers(Trace(TASKS), 12)

    assert (found.step_rate, found.measured, found.waiting) == (None, None, None)
    assert found.formula == 12


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


def test_asynchronous_is_a_word_on_the_topology() -> None:
    moment = Moment(TASKS, topology="ps-async")

    assert (moment.plain_topology, moment.is_synchronous) == ("ps", False)
    assert Moment(TASKS).is_synchronous
