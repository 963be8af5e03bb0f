"""Variables in a graph: what changes them, and rows of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kit.graph.ops
from kit.errors import InvalidArgumentError
from kit.graph.ops.state.source import constant, placeholder
from kit.graph.ops.state.state import scatter
from kit.graph.variable import Variable
from kit.session.client.session import Session
from tests.cases import for_each

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


@for_each(("kind", "expected"), EXPECTED.items())
def test_a_scatter_changes_its_rows_alone_and_no_value_that_was_read(
    kind: str, expected: Any, v: Variable, session: Session
) -> None:
    session.run(v.initializer)
    before = session.run(v)
    change = scatter(kind, v.ref, [2, 0], ONES)

    np.testing.assert_array_equal(session.run(change), expected)
    np.testing.assert_array_equal(session.run(v), expected)
    np.testing.assert_array_equal(before, START)


@for_each("index", [3, -1])
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
