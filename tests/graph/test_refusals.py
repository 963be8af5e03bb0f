"""What an op refuses: when the line is written, or in the run that shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kit.graph.ops
from kit.errors import InvalidArgumentError
from kit.graph.dtypes import to_array
from kit.graph.graph import Graph
from kit.graph.ops.array import blocks, broadcast, fill, join, pad, rows, shape
from kit.graph.ops.array.choose import select
from kit.graph.ops.math import linear, ranking
from kit.graph.ops.math.arithmetic import add_n
from kit.graph.ops.math.compare import equal, logical_and
from kit.graph.ops.math.reduce import reduce_along
from kit.graph.ops.state.source import constant, placeholder
from kit.graph.ops.state.strings import as_string, string_join
from kit.session.client.session import Session
from tests.cases import for_each

assert kit.graph.ops  # fills the table

A = np.zeros((2, 3), np.float32)


LINES: dict[str, tuple[type[Exception], Callable[[Any], Any]]] = {
    "shapes that cannot be broadcast": (ValueError, lambda x: x + np.ones(2)),
    "columns and rows that differ": (ValueError, lambda x: linear.matmul(x, x)),
    "a matrix product of vectors": (ValueError, lambda x: linear.matmul(x[0], x[1])),
    "a reshape to another count": (ValueError, lambda x: x.reshape(4)),
    "a reshape that does not divide": (ValueError, lambda x: x.reshape(4, -1)),
    "two sizes to be found": (ValueError, lambda x: x.reshape(-1, -1)),
    "a size below -1": (ValueError, lambda x: x.reshape(-2, 3)),
    "a shape of fractions": (TypeError, lambda x: shape.reshape(x, [2.0, 3.0])),
    "an axis that is not there": (ValueError, lambda x: np.sum(x, axis=2)),
    "one axis twice": (ValueError, lambda x: np.sum(x, axis=(0, -2))),
    "an axis that is a fed tensor": (
        ValueError,
        lambda x: np.sum(x, axis=placeholder("int32", ())),
    ),
    "a perm that leaves an axis out": (ValueError, lambda x: x.transpose(0, 0)),
    "a squeeze of a larger axis": (ValueError, lambda x: np.squeeze(x, 1)),
    "an index out of bounds": (ValueError, lambda x: x[2]),
    "an index out of bounds below": (ValueError, lambda x: x[:, -4]),
    "too many indices": (ValueError, lambda x: x[0, 0, 0]),
    "a step of zero": (ValueError, lambda x: x[::0]),
    "an index that is a fraction": (TypeError, lambda x: x[0.5]),
    "a mask in the brackets": (TypeError, lambda x: x[np.array([True, False])]),
    "a tensor of fractions in the brackets": (TypeError, lambda x: x[x[0, 0]]),
    "a block outside": (ValueError, lambda x: blocks.slice_of(x, [1, 0], [2, 1])),
    "a block of too few numbers": (ValueError, lambda x: blocks.slice_of(x, [1], [1])),
    "a concat of unequal sizes": (ValueError, lambda x: join.concat([x, x.T], 0)),
    "a concat of numbers": (ValueError, lambda x: join.concat([1.0, 2.0], 0)),
    "a stack of unequal shapes": (ValueError, lambda x: join.stack([x, x.T])),
    "a split that leaves a rest": (ValueError, lambda x: join.split(x, 2, 1)),
    "sizes that are too much": (ValueError, lambda x: join.split(x, [2, 2], 1)),
    "a tile of too few numbers": (ValueError, lambda x: broadcast.tile(x, [2])),
    "a broadcast that shrinks": (ValueError, lambda x: np.broadcast_to(x, (3,))),
    "a padding of too few rows": (ValueError, lambda x: pad.pad(x, [[1, 1]])),
    "a padding below zero": (ValueError, lambda x: pad.pad(x, [[-1, 0], [0, 0]])),
    "a mirror longer than the axis": (
        ValueError,
        lambda x: pad.pad(x, [[2, 0], [0, 0]], "reflect"),
    ),
    "a mode that is unknown": (ValueError, lambda x: pad.pad(x, [[0, 0]] * 2, "wrap")),
    "a fill with a vector": (ValueError, lambda x: fill.fill([2], x[0])),
    "a shape below zero": (ValueError, lambda x: fill.zeros([-2])),
    "a range by zero": (ValueError, lambda x: fill.arange(0, 5, 0)),
    "a range away from its end": (ValueError, lambda x: fill.arange(0, 5, -1)),
    "a one-hot of fractions": (TypeError, lambda x: fill.one_hot(x, 3)),
    "rows by fractions": (TypeError, lambda x: rows.gather(x, x)),
    "a place that is too long": (ValueError, lambda x: rows.gather_nd(x, [[0, 0, 0]])),
    "a condition of numbers": (TypeError, lambda x: np.where(x, x, x)),
    "choices among other rows": (
        ValueError,
        lambda x: select([True, False, True], x, x, rows=True),
    ),
    "fractions as axes": (
        TypeError,
        lambda x: reduce_along("Sum", x, placeholder("float32")),
    ),
    "logic of numbers": (TypeError, lambda x: logical_and(x, x)),
    "terms of unequal shapes": (ValueError, lambda x: add_n([x, x.T])),
    "no terms": (ValueError, lambda x: add_n([])),
    "a text times a number": (TypeError, lambda x: constant(["a"]) * constant(["b"])),
    "a text as a number": (TypeError, lambda x: constant(["a"]).astype("float32")),
    "unequal lengths": (ValueError, lambda x: np.add(x, [[1.0], [1.0, 2.0]])),
    "sums along an axis that is not there": (ValueError, lambda x: np.cumsum(x, 2)),
    "more elements than a row has": (ValueError, lambda x: ranking.top_k(x, 4)),
    "an order of fractions": (TypeError, lambda x: ranking.invert_permutation(x[0])),
    "an order of two axes": (
        ValueError,
        lambda x: ranking.invert_permutation([[0], [1]]),
    ),
    "targets that are fractions": (
        TypeError,
        lambda x: ranking.in_top_k(x, [0.0, 1.0], 1),
    ),
    "targets for other rows": (
        ValueError,
        lambda x: ranking.in_top_k(x, [0, 1, 2], 1),
    ),
    "None as an operand": (ValueError, lambda x: x + None),
}


@for_each("what", LINES)
def test_a_line_that_cannot_be_right_is_refused_at_once(what: str) -> None:
    kind, line = LINES[what]

    with pytest.raises(kind):
        line(constant(A))


RUNS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "a whole number divided by zero": (lambda x: constant(1) // x.astype("int32"), 0),
    "a rest of a division by zero": (lambda x: constant(1) % x.astype("int32"), 0),
    "another number of elements": (lambda x: x.reshape(2, 2), [1, 2, 3]),
    "shapes that do not meet": (lambda x: x + np.ones(2), [1, 2, 3]),
    "columns and rows": (lambda x: x.reshape(1, -1) @ np.ones((2, 2)), [1, 2, 3]),
    "an axis that is not there": (lambda x: np.sum(x, axis=1), [1, 2, 3]),
    "a fed axis that is not there": (
        lambda x: reduce_along("Sum", A, x.astype("int32")),
        2,
    ),
    "an index out of bounds": (lambda x: x[3], [1, 2, 3]),
    "a row out of range": (lambda x: rows.gather(x, [3]), [1, 2, 3]),
    "a negative row": (lambda x: rows.gather(x, [-1]), [1, 2, 3]),
    "a place out of range": (lambda x: rows.gather_nd(x, [[4]]), [1, 2, 3]),
    "a split with a rest": (lambda x: join.split(x, 2, 0), [1, 2, 3]),
    "parts that are too many": (lambda x: join.unstack(x, 2), [1, 2, 3]),
    "terms of unequal shapes": (lambda x: add_n([x, constant([1.0])]), [1, 2, 3]),
    "a squeeze of a larger axis": (lambda x: np.squeeze(x, 0), [1, 2, 3]),
    "a block outside": (lambda x: blocks.slice_of(x, [2], [2]), [1, 2, 3]),
    "a mirror that is too long": (lambda x: pad.pad(x, [[3, 0]], "reflect"), [1, 2]),
    "sums along an axis that is not there": (lambda x: np.cumsum(x, 1), [1, 2, 3]),
    "more elements than a row has": (lambda x: ranking.top_k(x, 4), [1, 2, 3]),
    "an order with one twice": (
        lambda x: ranking.invert_permutation(x.astype("int32")),
        [0, 1, 1],
    ),
    "an order with one beyond": (
        lambda x: ranking.invert_permutation(x.astype("int32")),
        [0, 3, 1],
    ),
    "an order of two axes": (
        lambda x: ranking.invert_permutation(x.astype("int32")),
        [[0, 1]],
    ),
    "targets for other rows": (lambda x: ranking.in_top_k(x, [0, 1], 1), [[1, 2]]),
    "a negative power of a whole number": (
        lambda x: constant(2) ** x.astype("int32"),
        -1,
    ),
}


@for_each("what", RUNS)
def test_a_value_that_cannot_be_right_ends_the_run_and_names_the_op(
    what: str, graph: Graph
) -> None:
    line, fed = RUNS[what]
    x = placeholder("float32")
    result = line(x)

    with Session() as session:
        with pytest.raises(InvalidArgumentError, match=r"op '\w+' \(\w+\)"):
            session.run(result, {x: fed})
        assert session.run(constant(1.0)) == 1.0  # the session goes on


def test_texts_are_compared_joined_and_taken_apart() -> None:
    x = constant(["a", "b"])

    with Session() as session:
        result = session.run(
            [
                equal(x, ["a", "c"]),
                x + "!",
                string_join([x, x], separator="-"),
                x[1],
                join.concat([x, x[:1]], 0),
                as_string(constant([1, 2])),
                as_string(constant([True])),
            ]
        )

    assert result[0].tolist() == [True, False]
    assert result[1].tolist() == [b"a!", b"b!"]
    assert result[2].tolist() == [b"a-a", b"b-b"]
    assert result[3] == b"b"
    assert result[4].tolist() == [b"a", b"b", b"a"]
    assert result[5].tolist() == [b"1", b"2"]
    assert result[6].tolist() == [b"true"]


def test_python_values_become_arrays_of_their_kind() -> None:
    assert to_array(2**40).dtype == np.int64
    assert to_array([True]).dtype == bool
    assert to_array("ä").item() == "ä".encode()
    with pytest.raises(TypeError, match="mixture"):
        to_array(["a", 1])
    with pytest.raises(TypeError, match="int32"):
        to_array(1.5, np.dtype("int32"))
