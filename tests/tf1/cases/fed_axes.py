"""Axes that a run is fed: what is known before, and what comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.tf1.attempts import attempt
from tests.tf1.look import makes_case, run, static, tf

if TYPE_CHECKING:  # Python 3.7 cannot evaluate this
    Made = Callable[[Any, Any], Any]

X = np.arange(24).reshape(2, 3, 4).astype("float32")

MADE: dict[str, Made] = {
    "joined": lambda x, axis: tf.concat([x, x], axis),
    "gathered": lambda x, axis: tf.gather(x, [1, 0], axis=axis),
    "taken_apart": lambda x, axis: tf.split(x, 2, axis),
    "turned": lambda x, axis: tf.reverse(x, tf.reshape(axis, [1])),
}


@makes_case
def fed(make: Made) -> Any:
    """Tell shapes for a known and an unknown rank, and values for several axes."""
    axis, any_rank = tf.placeholder(tf.int32), tf.placeholder(tf.float32)
    made = make(tf.constant(X), axis)
    parts = made if isinstance(made, list) else [made]
    others = make(any_rank, axis)
    result = [attempt(run, parts, {axis: item}) for item in (0, 2, -2, 3)]
    others = others if isinstance(others, list) else [others]
    shapes = [static(item)["shape"] for item in (*parts, *others)]
    return [shapes, result]


def case_two_axes_are_turned() -> Any:
    axes = tf.placeholder(tf.int32, [2])
    turned = tf.reverse(tf.constant(X), axes)
    return [
        static(turned)["shape"],
        *[attempt(run, turned, {axes: item}) for item in ([0, 2], [1, -2])],
    ]


def case_two_axes_for_one_join() -> Any:
    axis = tf.placeholder(tf.int32)
    return run(tf.concat([X, X], axis), {axis: [0, 1]})


def case_tensors_that_cannot_be_joined() -> Any:
    return tf.concat([X, X[0]], tf.placeholder(tf.int32))


CASES = {name: fed(make) for name, make in MADE.items()}
