"""An accumulator's state: what is dropped, what is handed out, who is served first."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import CancelledError, DeadlineExceededError, InvalidArgumentError
from kit.session.worker.accumulators import (
    Accumulator,
    DenseAccumulator,
    RowAccumulator,
    merged,
)
from kit.session.worker.step import Step, Ways
from kit.task import Task
from kit.testing.task_process import until
from tests.cases import for_each
from tests.session.scene import failure, in_thread

FLOAT = np.dtype("float32")
ANY = np.zeros(0, np.int64)  # the shape of a sparse gradient that does not say it


def dense(shape: Any = None, reduction: str = "MEAN") -> DenseAccumulator:
    return DenseAccumulator("sums", FLOAT, shape, reduction)


def sparse(shape: Any = None, reduction: str = "MEAN") -> RowAccumulator:
    return RowAccumulator("rows", FLOAT, shape, reduction)


def step(limit_s: float = 5.0) -> Step:
    task = Task("ps", 0)
    return Step(1, (task, 1), task, cast(Ways, None), limit_s)


def number(value: float) -> Any:
    return np.asarray(value, FLOAT)


def apply_rows(
    to: RowAccumulator, at: list[int], rows: Any, local_step: int = 0
) -> None:
    to.apply(local_step, np.asarray(at, np.int64), np.asarray(rows, FLOAT), ANY)


def waiting(accumulator: Accumulator) -> int:
    return len(accumulator.waiting)


# -- dense -----------------------------------------------------------------------------


def test_gradient_that_was_pushed_is_not_changed_by_those_after_it() -> None:
    sums, first = dense((3,)), np.ones(3, FLOAT)

    for _ in range(3):
        sums.apply(0, first)

    assert sums.take(step(), 3).tolist() == [1.0, 1.0, 1.0]
    assert first.tolist() == [1.0, 1.0, 1.0]


def test_stale_gradient_is_dropped_whatever_its_shape_and_a_later_one_counts() -> None:
    sums = dense((2,))
    sums.set_step(3)

    sums.apply(2, np.ones(7, FLOAT))
    sums.apply(9, np.ones(2, FLOAT))

    assert sums.count == 1


@pytest.mark.parametrize(
    "wrong", [np.ones(3, FLOAT), np.ones((1, 2), FLOAT), np.ones(2, np.float64)]
)
def test_gradient_that_does_not_fit_is_refused_and_changes_nothing(wrong: Any) -> None:
    sums = dense((2,))
    sums.apply(0, np.ones(2, FLOAT))

    with pytest.raises(InvalidArgumentError, match="'sums'"):
        sums.apply(0, wrong)

    assert sums.count == 1
    assert sums.take(step(), 1).tolist() == [1.0, 1.0]


def test_first_gradient_decides_the_shape_until_it_is_taken() -> None:
    sums = dense(None)
    sums.apply(0, np.ones(2, FLOAT))
    with pytest.raises(InvalidArgumentError, match="after one of"):
        sums.apply(0, np.ones(3, FLOAT))
    sums.take(step(), 1)

    sums.apply(1, np.ones(3, FLOAT))

    assert sums.take(step(), 1).shape == (3,)


def test_step_that_goes_back_is_set_and_told(caplog: pytest.LogCaptureFixture) -> None:
    sums = dense(())
    sums.set_step(5)

    sums.set_step(2)
    sums.apply(2, number(1))

    assert sums.count == 1
    assert "goes back from 5 to 2" in caplog.text


# -- who waits -------------------------------------------------------------------------


def test_who_came_first_is_served_first_even_if_others_ask_for_less() -> None:
    sums = dense(())
    many = in_thread(lambda: sums.take(step(), 3))
    until(lambda: waiting(sums) == 1)
    first = in_thread(lambda: sums.take(step(), 1))
    until(lambda: waiting(sums) == 2)

    sums.apply(0, number(1))
    sums.apply(0, number(2))
    is_too_early = many.done() or first.done()
    sums.apply(0, number(6))

    assert not is_too_early
    assert many.result(5) == 3.0
    assert not first.done()
    sums.apply(1, number(10))
    assert first.result(5) == 10.0


def test_who_gives_up_lets_the_next_be_served_and_takes_nothing() -> None:
    sums, first = dense(()), step()
    many = in_thread(lambda: sums.take(first, 3))
    until(lambda: waiting(sums) == 1)
    item = in_thread(lambda: sums.take(step(), 1))
    until(lambda: waiting(sums) == 2)
    sums.apply(0, number(4))

    first.abort(CancelledError("enough."))

    assert isinstance(failure(many), CancelledError)
    assert item.result(5) == 4.0


def test_deadline_names_the_accumulator_and_how_many_are_there() -> None:
    sums = dense(())
    sums.apply(0, number(1))

    with pytest.raises(DeadlineExceededError, match=r"'sums' \(1 of 2 are there\)"):
        sums.take(step(0.05), 2)

    assert sums.count == 1


def test_deadline_counts_the_gradients_that_came_while_it_was_waited_for_them() -> None:
    sums, time = dense(()), 0.0
    task = Task("ps", 0)
    ends = Step(1, (task, 1), task, cast(Ways, None), 5.0, clock=lambda: time)
    taken = in_thread(lambda: sums.take(ends, 2))
    until(lambda: waiting(sums) == 1)

    sums.apply(0, number(1))
    time = 6.0

    assert "'sums' (1 of 2 are there)" in str(failure(taken))


@pytest.mark.parametrize("n", [0, -1])
def test_fewer_than_one_gradient_cannot_be_asked_for(n: int) -> None:
    with pytest.raises(InvalidArgumentError, match="1 or more"):
        dense(()).take(step(), n)


# -- sparse ----------------------------------------------------------------------------

ROWS = st.dictionaries(st.integers(0, 9), st.integers(-8, 8), max_size=6)


@given(st.lists(ROWS, min_size=1, max_size=5))
def test_row_is_divided_by_how_many_gradients_had_it(
    gradients: list[dict[int, int]],
) -> None:
    rows = sparse()
    for gradient in gradients:
        at = sorted(gradient)
        apply_rows(
            rows, at, [[gradient[i], 2 * gradient[i]] for i in at] or np.zeros((0, 2))
        )

    indices, values, _ = rows.take(step(), 1)

    touched = sorted({i for item in gradients for i in item})
    assert indices.tolist() == touched
    for i, row in zip(touched, values, strict=True):
        had = [item[i] for item in gradients if i in item]
        mean = np.float32(sum(had)) / np.float32(len(had))
        assert row.tolist() == [mean, 2 * mean]


@given(st.lists(st.integers(0, 9), max_size=8), st.lists(st.integers(0, 9), max_size=8))
def test_merging_keeps_every_row_of_both_once_and_in_its_order(
    left: list[int], right: list[int]
) -> None:
    where, of_left, of_right = merged(np.asarray(left, int), np.asarray(right, int))

    assert [i for i in of_left if i >= 0] == list(range(len(left)))
    assert [i for i in of_right if i >= 0] == list(range(len(right)))
    for index, i, j in zip(where, of_left, of_right, strict=True):
        assert i >= 0 or j >= 0
        assert i < 0 or left[i] == index
        assert j < 0 or right[j] == index


@for_each(
    ("at", "rows", "shape"),
    [
        ([7], [[1, 2]], []),
        ([0], [[1, 2, 3]], []),
        ([0], [1], []),
        ([0, 1], [[1, 2]], []),
        ([[0]], [[1, 2]], []),
        ([0], 1, []),
        ([0], [[1, 2]], [5, 2]),
        ([0], [[1, 2]], [4]),
    ],
)
def test_rows_that_do_not_fit_the_whole_are_refused(
    at: Any, rows: Any, shape: Any
) -> None:
    accumulator = sparse((4, 2))
    gradient = np.asarray(at, int), np.asarray(rows, FLOAT), np.asarray(shape, int)

    with pytest.raises(InvalidArgumentError, match="'rows'"):
        accumulator.apply(0, *gradient)

    assert accumulator.count == 0
    accumulator.set_step(1)
    accumulator.apply(0, *gradient)  # stale, so nobody looks at it


def test_whole_of_no_axes_says_nothing() -> None:
    rows = sparse(())
    apply_rows(rows, [100], [[1, 2]])

    _, _, whole = rows.take(step(), 1)

    assert whole.tolist() == [-1, 2]
