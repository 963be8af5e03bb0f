"""A constant that gives a shape, an axis or a size can be fed like any tensor.

What a run gives is compared with the same function of the value itself. Where an
operation must know the value when the line is written, a feed is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kit import tf1 as tf

X = np.arange(12, dtype=np.float32).reshape(3, 4)
# The function of x and its argument, what the line says, and what is fed.
HONOURED: dict[str, tuple[Callable[[Any, Any], Any], Any, Any]] = {
    "reshape": (tf.reshape, [2, 6], [6, 2]),
    "reshape to one axis": (tf.reshape, [-1, 3], [-1, 4]),
    "sum": (tf.reduce_sum, 0, 1),
    "sum of two axes": (tf.reduce_sum, [0, 1], [1, 0]),
    "mean": (tf.reduce_mean, 0, 1),
    "mean that keeps": (lambda x, axis: tf.reduce_mean(x, axis, True), [0], [1]),
    "zeros": (lambda x, size: tf.zeros(size) + x[0, 0], [2], [5]),
    "ones": (lambda x, size: tf.ones(size) * x[0, 0], [2], [5]),
    "fill": (lambda x, size: tf.fill(size, x[1, 1]), [2], [5]),
    "slice from": (lambda x, begin: tf.slice(x, begin, [1, 2]), [0, 1], [1, 2]),
    "slice of": (lambda x, size: tf.slice(x, [1, 0], size), [1, 2], [2, 3]),
    "range": (lambda x, end: tf.cast(tf.range(end), tf.float32) + x[0, 0], 3, 5),
    "tile": (tf.tile, [1, 2], [2, 1]),
    "broadcast": (tf.broadcast_to, [2, 3, 4], [1, 3, 4]),
    "pad": (tf.pad, [[0, 1], [1, 0]], [[1, 1], [0, 2]]),
    "top": (lambda x, k: tf.nn.top_k(x, k).values, 1, 2),
    "one hot": (lambda x, n: tf.one_hot([0, 2], n) * x[1, 1], 3, 4),
    "scatter": (
        lambda x, size: tf.scatter_nd([[1], [0], [2]], x, size),
        [3, 4],
        [5, 4],
    ),
}
REFUSED: dict[str, tuple[Callable[[Any, Any], Any], Any, Any]] = {
    "max": (tf.reduce_max, 0, 1),
    "concat": (lambda x, axis: tf.concat([x, x], axis), 0, 1),
    "transpose": (tf.transpose, [0, 1], [1, 0]),
    "expand": (tf.expand_dims, 0, 1),
    "cumsum": (tf.cumsum, 0, 1),
    "argmax": (tf.argmax, 0, 1),
    "reverse": (tf.reverse, [0], [1]),
}


@pytest.mark.parametrize("name", HONOURED)
def test_a_fed_argument_counts_and_without_a_feed_nothing_changes(
    name: str, session: Any
) -> None:
    function, line, fed = HONOURED[name]
    x, argument = tf.placeholder(tf.float32, X.shape), tf.constant(line)
    result, plain = function(x, argument), function(x, line)
    expected = function(x, fed)
    slopes = [tf.gradients(item * item, x)[0] for item in (result, plain)]

    as_fed = session.run(result, {x: X, argument: fed})
    wanted = session.run(expected, {x: X})
    as_written = session.run([result, slopes[0]], {x: X})
    usual = session.run([plain, slopes[1]], {x: X})

    assert result.shape.as_list() == plain.shape.as_list()
    for first, other in zip([as_fed, *as_written], [wanted, *usual], strict=True):
        np.testing.assert_allclose(first, other, rtol=1e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_a_feed_that_could_not_count_is_refused(name: str, session: Any) -> None:
    function, line, fed = REFUSED[name]
    first = tf.constant(line)
    argument = first + 0  # also what it is computed of cannot be fed
    result = function(tf.constant(X), argument)

    for item in (first, argument):
        with pytest.raises(ValueError, match="when the line was written"):
            session.run(result, {item: fed})


def test_a_constant_that_a_loop_takes_from_outside_can_be_fed(session: Any) -> None:
    factor, limit = tf.constant(2.0), tf.constant(3)
    _, power = tf.while_loop(
        lambda i, _: i < limit, lambda i, x: (i + 1, x * factor), [0, 1.0]
    )

    assert session.run(power) == 8.0
    assert session.run(power, {factor: 3.0}) == 27.0
    assert session.run(power, {factor: 3.0, limit: 2}) == 9.0


@pytest.mark.parametrize(
    "fed",
    [
        np.array(["a", "\xe9"], object),
        np.array([b"a", "\xe9"], object),
        np.array(["a", "\xe9"]),
        ["a", b"\xc3\xa9"],
    ],
    ids=["str", "both", "numpy", "list"],
)
def test_fed_texts_are_bytes_in_utf_8_however_they_come(fed: Any, session: Any) -> None:
    x = tf.placeholder(tf.string, [2])

    result, same = session.run([tf.identity(x), tf.equal(x, "\xe9")], {x: fed})

    assert result.tolist() == [b"a", b"\xc3\xa9"]
    assert same.tolist() == [False, True]
