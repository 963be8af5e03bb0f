"""`tf.while_loop`: values, shapes, gradients, and what is refused.

Expected values come from the same loop in Python, or from a closed formula.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kit import tf1 as tf
from tests.cases import for_each
from tests.tf1.look import initialized


def ran(fetches: Any, feeds: Any = None) -> Any:
    with initialized() as session:
        return session.run(fetches, feeds)


def test_loop_ends_when_its_condition_says_so() -> None:
    n = tf.placeholder(tf.int32, [])
    i, total = tf.while_loop(
        lambda i, total: i < n, lambda i, total: (i + 1, total + i), [0, 0]
    )

    result = [ran([i, total], {n: item}) for item in (5, 0)]

    assert result == [[5, sum(range(5))], [0, 0]]


def test_one_variable_is_given_as_itself() -> None:
    assert ran(tf.while_loop(lambda i: i < 10, lambda i: i * 2, [1])) == 16
    assert ran(tf.while_loop(lambda i: i < 10, lambda i: [i * 2], (1,))) == 16
    same = tf.while_loop(
        lambda i: i < 10, lambda i: i * 2, [1], return_same_structure=True
    )
    assert ran(same) == [16]


def test_iterations_have_a_limit() -> None:
    made = tf.while_loop(
        lambda i, x: i < 100,
        lambda i, x: (i + 1, x * 2),
        (0, 1.0),
        maximum_iterations=3,
    )

    assert ran(made) == (3, 8.0)


def test_variables_may_be_nested() -> None:
    i, (a, rest) = tf.while_loop(
        lambda i, pair: i < 3,
        lambda i, pair: (i + 1, (pair[0] + 1, {"x": pair[1]["x"] * 2})),
        (0, (10, {"x": 1})),
    )

    assert ran([i, a, rest["x"]]) == [3, 13, 8]


def test_body_takes_tensors_and_variables_from_outside() -> None:
    w = tf.Variable(3.0)
    x = tf.placeholder(tf.float32, [2])
    _, y = tf.while_loop(
        lambda i, y: i < 2, lambda i, y: (i + 1, y * w + x), [0, tf.zeros([2])]
    )

    assert ran(y, {x: [1.0, 2.0]}).tolist() == [1 * 3 + 1, 2 * 3 + 2]


def test_shape_may_grow_where_an_invariant_allows_it() -> None:
    _, rows = tf.while_loop(
        lambda i, rows: i < 3,
        lambda i, rows: [i + 1, tf.concat([rows, [i]], 0)],
        [0, tf.constant([7])],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
    )

    assert rows.shape.as_list() == [None]
    assert ran(rows).tolist() == [7, 0, 1, 2]


def test_loops_and_conditions_are_nested() -> None:
    def inner(total: Any) -> Any:
        return tf.while_loop(
            lambda j, t: j < 3, lambda j, t: (j + 1, t + 1), [0, total]
        )[1]

    _, total = tf.while_loop(
        lambda i, t: i < 4,
        lambda i, t: (
            i + 1,
            tf.cond(tf.equal(i % 2, 0), lambda: inner(t), lambda: t * 10),
        ),
        [0, 0],
    )

    assert ran(total) == ((0 + 3) * 10 + 3) * 10


def test_loop_in_a_branch_runs_only_if_that_is_taken() -> None:
    x = tf.placeholder(tf.int32, [])
    calls: list[int] = []

    def counted(value: Any) -> Any:
        calls.append(int(value))
        return value + np.int32(1)

    made = tf.cond(
        x > 0,
        lambda: tf.while_loop(
            lambda i: i < x,
            lambda i: tf.py_func(counted, [i], tf.int32),
            [0],
            shape_invariants=[tf.TensorShape(None)],
        ),
        lambda: -1,
    )

    assert (ran(made, {x: -5}), calls) == (-1, [])
    assert (ran(made, {x: 2}), calls) == (2, [0, 1])


def test_gradient_goes_back_through_all_iterations() -> None:
    x, w = tf.placeholder(tf.float32, []), tf.Variable(3.0)
    n = tf.placeholder(tf.int32, [])
    _, y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * w), [0, x])
    slopes = tf.gradients(y, [x, w])

    # y = x * w ** n
    assert ran(slopes, {x: 2.0, n: 4}) == [3.0**4, 2.0 * 4 * 3.0**3]
    assert ran(slopes, {x: 2.0, n: 0}) == [1.0, 0.0]


def test_gradient_of_what_does_not_propagate_is_none() -> None:
    x = tf.placeholder(tf.float32, [])
    y = tf.while_loop(lambda y: y < 9, lambda y: y * 2, [x], back_prop=False)

    assert tf.gradients(y, x) == [None]


def test_gradient_of_a_recurrent_layer_is_that_of_the_unrolled_one() -> None:
    draw = np.random.default_rng(0).normal
    inputs = draw(size=(4, 2, 3)).astype(np.float32)
    w = tf.Variable(draw(size=(5, 5)).astype(np.float32) * 0.3)
    u = tf.Variable(draw(size=(3, 5)).astype(np.float32))
    xs = tf.constant(inputs)

    def step(i: Any, state: Any) -> Any:
        return i + 1, tf.tanh(tf.matmul(tf.gather(xs, i), u) + tf.matmul(state, w))

    _, looped = tf.while_loop(lambda i, s: i < 4, step, [0, tf.zeros([2, 5])])
    unrolled: Any = tf.zeros([2, 5])
    for i in range(4):
        unrolled = step(i, unrolled)[1]

    pairs = zip(
        ran(tf.gradients(looped, [w, u])),
        ran(tf.gradients(unrolled, [w, u])),
        strict=True,
    )
    for first, other in pairs:
        np.testing.assert_allclose(first, other, rtol=1e-4, atol=1e-5)


def test_gradient_of_a_loop_that_draws_is_refused() -> None:
    x = tf.placeholder(tf.float32, [])
    y = tf.while_loop(lambda y: y < 9, lambda y: y + tf.random_uniform([]) + 1, [x])

    assert ran(y, {x: 0.0}) >= 9
    with pytest.raises(LookupError, match="write the loop in Python"):
        tf.gradients(y, x)


NOT_A_FUNCTION: Any = 1
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "another dtype": (
        lambda: tf.while_loop(lambda i: i < 3, lambda i: tf.cast(i, tf.float32), [0]),
        *(TypeError, "int32, and the body returns float32"),
    ),
    "another number": (
        lambda: tf.while_loop(lambda i: i < 3, lambda i: [i, i], [0]),
        *(TypeError, "structure"),
    ),
    "a shape that changes": (
        lambda: tf.while_loop(
            lambda x: tf.size(x) < 3, lambda x: tf.concat([x, x], 0), [tf.constant([1])]
        ),
        *(ValueError, "not an invariant"),
    ),
    "no variable": (
        lambda: tf.while_loop(bool, bool, []),
        ValueError,
        "No loop variables",
    ),
    "no function": (
        lambda: tf.while_loop(NOT_A_FUNCTION, bool, [1]),
        TypeError,
        "cond must be",
    ),
    "a body that assigns": (
        lambda: assigning(tf.Variable(0)),
        *(NotImplementedError, "assign it outside"),
    ),
}


def assigning(variable: Any) -> Any:
    return tf.while_loop(lambda i: i < 3, lambda i: tf.assign_add(variable, i), [0])


@for_each("name", REFUSED)
def test_loop_is_refused_when_the_line_is_written(name: str) -> None:
    make, kind, words = REFUSED[name]

    with tf.Graph().as_default(), pytest.raises(kind, match=words):
        make()


def test_endless_loop_ends_with_its_deadline() -> None:
    made = tf.while_loop(lambda i: i >= 0, lambda i: i * 0, [0])

    with tf.Session() as session, pytest.raises(tf.errors.DeadlineExceededError):
        session.run(made, options=tf.RunOptions(timeout_in_ms=50))
