"""A `Log` keeps the newest rows, in their order."""

from __future__ import annotations

import threading
from collections import deque

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import ResourceExhaustedError
from kit.trace.log import Log
from kit.trace.traffic import MOST_NAMES, SPAN, STEP, MeasureRow, Meter, StepRow


def row(number: int) -> tuple[int, ...]:
    return (number % 7, 1 + number % 5, number, -number, number**3)


@given(
    limit=st.integers(1, 200),
    adds=st.lists(st.integers(0, 150), max_size=6),
    most=st.none() | st.integers(0, 100),
    data=st.data(),
)
def test_log_gives_what_a_bounded_list_would(
    limit: int, adds: list[int], most: int | None, data: st.DataObject
) -> None:
    log, kept = Log(SPAN, limit), deque[tuple[int, ...]](maxlen=limit)
    total = 0
    for count in adds:
        added = [row(number) for number in range(total, total + count)]
        log.extend(added[: count // 2])
        for item in added[count // 2 :]:
            log.add(item)
        kept.extend(added)
        total += count
        cursor = data.draw(st.integers(0, total))
        news, after = log.since(cursor, most)
        begin = max(0, cursor - (total - len(kept)))
        expected = list(kept)[begin:][:most]
        assert news.tolist() == expected
        assert after == max(cursor, total - len(kept)) + len(expected)
        assert log.added == total


@pytest.mark.parametrize("limit", [2**45, 2**70])
def test_log_that_no_memory_can_hold_is_refused_with_its_size(limit: int) -> None:
    with pytest.raises(ResourceExhaustedError, match=f"{limit:,} rows.*trace_rows"):
        Log(SPAN, limit)


def test_cursor_beyond_the_end_is_the_end_and_hides_nothing_from_others() -> None:
    log = Log(SPAN, 10)
    log.extend([row(number) for number in range(20)])

    news, after = log.since(2**62)
    log.extend([row(number) for number in range(20, 25)])

    assert (len(news), after) == (0, 20)
    assert log.since(20)[0].tolist() == [row(number) for number in range(20, 25)]


def test_rows_of_two_threads_all_arrive_whole() -> None:
    log = Log(SPAN, 10_000)

    def add(task: int) -> None:
        for number in range(3_000):
            log.add((task, 1, number, number, number))

    threads = [threading.Thread(target=add, args=(task,)) for task in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    rows, _ = log.since(0)
    for task in range(2):
        mine = rows[rows["task"] == task]
        assert mine["step"].tolist() == list(range(3_000))
        assert (mine["end"] == mine["start"]).all()


def test_rows_keep_fractions_and_what_was_read_does_not_change() -> None:
    log = Log(STEP, 1)
    log.add(StepRow(1, 2, 3, 0.125, 4, 5, 6, 7, 8, 9))
    before, _ = log.since(0)

    log.add(StepRow(1, 3, 3, float("nan"), 4, 5, 6, 7, 8, 9))

    assert before.tolist() == [(1, 2, 3, 0.125, 4, 5, 6, 7, 8, 9)]


@given(
    window=st.integers(1, 100),
    limit=st.integers(1, 400),
    adds=st.lists(st.integers(0, 200), max_size=8),
)
def test_whoever_reads_in_time_gets_every_row_once(
    window: int, limit: int, adds: list[int]
) -> None:
    log, cursor, total = Log(SPAN, limit, window), 0, 0
    for count in adds:
        added = [row(number) for number in range(total, total + count)]
        log.extend(added)
        total += count
        news, cursor = log.since(cursor)
        assert news.tolist() == added[-limit:]
        assert cursor == total


@given(
    window=st.integers(1, 100),
    limit=st.integers(1, 400),
    adds=st.lists(st.integers(0, 200), max_size=8),
)
def test_rows_that_nobody_has_read_are_kept_up_to_the_limit(
    window: int, limit: int, adds: list[int]
) -> None:
    log, total = Log(SPAN, limit, window), 0
    for count in adds:
        log.extend([row(number) for number in range(total, total + count)])
        total += count

    news, _ = log.since(0)

    assert news.tolist() == [row(n) for n in range(max(0, total - limit), total)]


def test_log_that_is_read_takes_no_more_memory_than_its_window() -> None:
    log, cursor = Log(SPAN, limit=1_000_000, window=1_000), 0

    for _ in range(100):
        log.extend([row(7)] * 500)
        _, cursor = log.since(cursor)

    assert cursor == 50_000
    assert len(log.since(0)[0]) == 1_000


def test_log_takes_its_memory_as_it_is_used_although_the_heap_has_some_left() -> None:
    for _ in range(2):  # what is given back a second time stays with the heap
        np.empty(20_000_000, np.uint8)
    process = psutil.Process()
    before = process.memory_info().rss

    log = Log(SPAN, 700_000)

    assert log.added == 0
    assert process.memory_info().rss - before < 0.2 * 700_000 * SPAN.itemsize


def test_a_meter_keeps_the_numbers_of_so_many_names_and_no_more() -> None:
    meter = Meter(0)
    first, further = MeasureRow(0, 0, b"m0", 0.5, 1, 1), b"one more"
    for number in range(MOST_NAMES):
        assert meter.measured(first._replace(name=b"m%d" % number))

    assert not meter.measured(first._replace(name=further))
    assert meter.measured(first._replace(step=1))

    assert meter.measures is not None
    names = meter.measures.since(0)[0]["name"].tolist()
    assert (len(names), names[-1], further in names) == (MOST_NAMES + 1, b"m0", False)
