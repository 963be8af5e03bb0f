"""Variables in a graph: what changes them, and rows of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kit.graph.ops
from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.graph.ops.state.source import constant, placeholder
from kit.graph.ops.state.state import scatter
from kit.graph.variable import Variable, initialize_all
from kit.session.client.session import Session

assert kit.graph.ops  # fills the table

START = np.arange(6, dtype=np.float32).reshape(3, 2) + 1


@pytest.fixture
def v() -> Variable:
    return Variable(START, name="v")


@pytest.fixture
def session(v: Variable) -> Iterator[Session]:
    with Session() as session:
        session.run(v.initializer)
        yield session


ONES = np.ones((2, 2), np.float32)
EXPECTED: dict[str, Any] = {
    "update": [[1, 1], [3, 4], [1, 1]],
    "add": [[2, 3], [3, 4], [6, 7]],
    "sub": [[0, 1], [3, 4], [4, 5]],
    "mul": [[1, 2], [3, 4], [5, 6]],
    "div": [[1, 2], [3, 4], [5, 6]],
    "min": [[1, 1], [3, 4], [1, 1]],
    "max": [[1, 2], [3, 4], [5, 6]],
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_a_scatter_changes_its_rows_alone(
    kind: str, v: Variable, session: Session
) -> None:
    change = scatter(kind, v.ref, [2, 0], ONES)

    np.testing.assert_array_equal(session.run(change), EXPECTED[kind])
    np.testing.assert_array_equal(session.run(v), EXPECTED[kind])


def test_an_index_that_occurs_twice_is_applied_twice(
    v: Variable, session: Session
) -> None:
    result = session.run(scatter("add", v.ref, [1, 1], ONES))

    np.testing.assert_array_equal(result[1], [5, 6])


def test_one_number_is_added_to_every_element_of_the_rows(
    v: Variable, session: Session
) -> None:
    result = session.run(scatter("add", v.ref, [1], 10.0))

    np.testing.assert_array_equal(result, [[1, 2], [13, 14], [5, 6]])


@pytest.mark.parametrize("index", [3, -1])
def test_an_index_out_of_range_changes_nothing(
    index: int, v: Variable, session: Session
) -> None:
    indices = placeholder("int32", (None,))
    change = scatter("add", v.ref, indices, 1.0)

    with pytest.raises(InvalidArgumentError, match=rf"\[1\] = {index}"):
        session.run(change, {indices: [0, index]})
    np.testing.assert_array_equal(session.run(v), START)


def test_updates_that_do_not_fit_are_refused_when_the_line_is_written(
    v: Variable,
) -> None:
    with pytest.raises(ValueError, match=r"\[2, 2\]"):
        scatter("add", v.ref, [0, 1], np.ones((2, 3), np.float32))
    with pytest.raises(TypeError, match="integers"):
        scatter("add", v.ref, [0.5], ONES[:1])
    with pytest.raises(TypeError, match="float32"):
        scatter("add", v.ref, [0], constant(ONES[:1].astype("float64")))


def test_a_value_that_was_read_is_not_changed_by_a_later_update(
    v: Variable, session: Session
) -> None:
    before = session.run(v)

    session.run(scatter("add", v.ref, [0, 1, 2], 1.0))

    np.testing.assert_array_equal(before, START)


def test_a_variable_without_a_value_cannot_be_scattered_into() -> None:
    w = Variable(START, name="w")
    change = scatter("add", w.ref, [0], 1.0)

    with Session() as session, pytest.raises(FailedPreconditionError, match="'w'"):
        session.run(change)


def test_initialize_all_initialises_each_variable_of_the_graph(v: Variable) -> None:
    w = Variable([5.0], name="w")

    with Session() as session:
        assert not session.run(w.is_initialized())
        session.run(initialize_all())
        assert session.run(w.is_initialized())
        np.testing.assert_array_equal(session.run(w), [5.0])
        np.testing.assert_array_equal(session.run(v), START)


def test_a_variable_needs_a_value_of_a_known_shape() -> None:
    with pytest.raises(ValueError, match="initial value"):
        Variable()
    with pytest.raises(ValueError, match="not known"):
        Variable(placeholder("float32", (None,)))
    assert Variable(placeholder("float32", (None,)), validate_shape=False).shape is None


def test_an_assignment_of_another_shape_or_dtype_is_refused(v: Variable) -> None:
    with pytest.raises(ValueError, match=r"\[3, 2\]"):
        v.assign(np.zeros((2, 2), np.float32))
    with pytest.raises(TypeError, match="float32"):
        v.assign(constant(START.astype("float64")))
