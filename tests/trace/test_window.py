"""Tables of bounded size keep what they say, and change nothing that was handed out."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.trace.log import Rows
from kit.trace.window import MeasureTable, Thinned, Thinning, Window
from tests.cases import for_each

ROW = np.dtype([("step", "i8"), ("task", "u2")])
SIZES = st.lists(st.integers(0, 40), max_size=30)


def steps(*numbers: int, task: int = 0) -> Rows:
    return np.array([(number, task) for number in numbers], ROW)


def fill(table: Window, n_steps: int, *, each: int = 10, first: int = 0) -> None:
    """Let two tasks tell of many steps, some at a time, the second one later."""
    for begin in range(first, first + n_steps, each):
        for task in (0, 1):
            table.add(steps(*range(begin, begin + each), task=task))


@given(sizes=SIZES, limit=st.integers(1, 60))
def test_a_window_has_the_newest_rows_and_at_least_seven_eighths_of_its_limit(
    sizes: list[int], limit: int
) -> None:
    window, lines = Window(ROW, limit), list[int]()
    for size in sizes:
        window.add(steps(*range(len(lines), len(lines) + size)))
        lines += range(len(lines), len(lines) + size)

    kept = window.rows["step"].tolist()
    assert kept == lines[len(lines) - len(kept) :]
    assert min(len(lines), max(1, limit * 7 // 8)) <= len(kept) <= limit
    assert window.whole == len(lines) - len(kept)


@given(sizes=SIZES, limit=st.integers(1, 60))
def test_who_asks_in_time_gets_every_row_once(sizes: list[int], limit: int) -> None:
    window, cursor, seen = Window(ROW, limit), 0, list[int]()
    for size in sizes:
        size %= max(1, limit * 7 // 8) + 1  # no more than are kept
        window.add(steps(*range(window.added, window.added + size)))
        news, cursor = window.since(cursor)
        seen += news["step"].tolist()

    assert seen == list(range(window.added))


@pytest.mark.parametrize("table", [Window(ROW, 50), Thinned(ROW, 50, Thinning())])
def test_what_was_handed_out_does_not_change_and_cannot_be_changed(
    table: Window,
) -> None:
    fill(table, 20)
    view = table.rows
    before = view.copy()

    fill(table, 100, first=20)

    assert (view == before).all()
    with pytest.raises(ValueError, match="read-only"):
        view["step"] = 0


def test_news_are_views_of_the_table() -> None:
    window = Window(ROW, 50)
    fill(window, 10)

    news, _ = window.since(12)

    assert len(news) == 8
    assert np.shares_memory(news, window.rows)


def test_steps_below_the_limit_are_all_kept() -> None:
    table = Thinned(ROW, 200, Thinning())

    fill(table, 100)

    assert len(table.rows) == 200


@for_each("first", [0, 1_003])
@for_each("n_steps", [110, 1_000, 12_340])
def test_older_steps_are_thinned_evenly_and_the_newest_are_whole(
    first: int, n_steps: int
) -> None:
    thinning = Thinning()
    table = Thinned(ROW, 200, thinning)

    fill(table, n_steps, first=first)

    last = first + n_steps - 1
    older = [n for n in range(first, thinning.whole) if n % thinning.stride == 0]
    wanted = sorted({first, *older, *range(thinning.whole, last + 1)})
    for task in (0, 1):  # a step is there with all its rows or not at all
        mine = table.rows[table.rows["task"] == task]
        assert mine["step"].tolist() == wanted
    assert len(table.rows) <= 200
    assert last - thinning.whole >= 50  # steps of two rows each
    assert len(older) >= 5
    assert thinning.stride & (thinning.stride - 1) == 0


def test_a_task_that_is_far_behind_adds_no_step_that_others_lack() -> None:
    thinning = Thinning()
    table = Thinned(ROW, 200, thinning)
    table.add(steps(0, task=1))
    table.add(steps(*range(300)))

    table.add(steps(*range(1, 300), task=1))

    by_task = [table.rows[table.rows["task"] == task]["step"] for task in (0, 1)]
    assert thinning.stride > 1
    assert set(by_task[1].tolist()) <= set(by_task[0].tolist()) | {*range(300)[-175:]}
    old = [set(some[some < thinning.whole].tolist()) for some in by_task]
    assert old[0] == old[1]


def test_tables_that_share_a_thinning_keep_the_same_older_steps() -> None:
    thinning = Thinning()
    first, many = Thinned(ROW, 400, thinning), Thinned(ROW, 200, thinning)
    for begin in range(0, 3_000, 10):
        fill(first, 10, first=begin)
        for _ in range(2):
            fill(many, 10, first=begin)

    older = [table.rows["step"][table.rows["step"] < 500] for table in (first, many)]
    assert set(older[1].tolist()) <= set(older[0].tolist())


@given(sizes=SIZES, limit=st.integers(1, 20))
def test_rows_never_exceed_the_limit_even_when_a_step_has_more(
    sizes: list[int], limit: int
) -> None:
    table = Thinned(ROW, limit, Thinning())
    for step, size in enumerate(sizes):
        table.add(steps(*[step] * size))

        assert len(table.rows) <= limit
        assert len(table.rows) >= min(1, size)


@pytest.mark.parametrize("kind", ["window", "thinned"])
def test_rows_that_go_leave_nothing_in_the_heap_of_the_thread(kind: str) -> None:
    limit = 100_000
    table = Window(ROW, limit) if kind == "window" else Thinned(ROW, limit, Thinning())
    table.add(steps(*range(limit)))
    news = steps(*range(limit, limit + 1_000))

    tracemalloc.start()
    table.add(news)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(table.rows) < limit
    assert most < 8 * limit  # less than one column


NAMED = np.dtype([("step", "i8"), ("name", "S32")])


def named(name: str, *numbers: int) -> Rows:
    return np.array([(number, name) for number in numbers], NAMED)


def test_what_is_measured_seldom_stays_while_what_is_measured_often_is_thinned() -> (
    None
):
    thinning = Thinning()
    table = MeasureTable(NAMED, 200, thinning)

    for step in range(1_000):
        table.add(named("accuracy", step))
        if step % 30 == 29:  # mostly not a step that a stride of 2, 4, 8 ... keeps
            table.add(named("validation_loss", step))

    result = table.rows
    seldom = result["step"][result["name"] == b"validation_loss"]
    often = result["step"][result["name"] == b"accuracy"]
    assert len(result) <= 200
    assert seldom.tolist() == list(range(29, 1_000, 30))
    assert thinning.stride > 1
    assert all(thinning.keeps(often))
    assert often[-1] == 999


@given(sizes=SIZES, n_names=st.integers(1, 80), limit=st.integers(1, 60))
def test_however_many_names_are_measured_the_table_stays_within_its_limit(
    sizes: list[int], n_names: int, limit: int
) -> None:
    table, step = MeasureTable(NAMED, limit, Thinning()), 0
    for size in sizes:
        names = [f"name {number % n_names}" for number in range(step, step + size)]
        table.add(np.array([(step, name) for name in names], NAMED))
        step += size
        assert len(table.rows) <= limit
