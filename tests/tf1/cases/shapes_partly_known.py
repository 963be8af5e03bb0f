"""Static shapes of which a part is known when the line is written."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import run, static

SHAPES = {"any": None, "some": [None], "rows": [None, 3], "whole": [2, 3], "none": []}


def fed(tf: Any, kind: str, dtype: str = "float32") -> Any:
    return tf.placeholder(getattr(tf, dtype), SHAPES[kind])


def number(tf: Any) -> Any:
    return tf.placeholder(tf.int32, [])


# What is done to a tensor of each of the shapes.
DONE = {
    "reshaped_by_a_stack": lambda tf, x: tf.reshape(x, tf.stack([number(tf), 3])),
    "reshaped_by_a_list_of_tensors": lambda tf, x: tf.reshape(x, [number(tf), -1, 3]),
    "reshaped_by_its_own_size": lambda tf, x: tf.reshape(x, [tf.shape(x)[0], -1]),
    "reshaped_by_joined_sizes": lambda tf, x: tf.reshape(
        x, tf.concat([[2], tf.reshape(number(tf), [1])], 0)
    ),
    "sliced": lambda tf, x: tf.slice(x, [0, 1], [-1, 2]),
    "sliced_somewhere": lambda tf, x: tf.slice(
        x, tf.placeholder(tf.int32, [2]), [1, 2]
    ),
    "tiled": lambda tf, x: tf.tile(x, [2, 2]),
    "chosen_by_itself": lambda tf, x: tf.where(x > 0, x, tf.ones([2, 3])),
    "chosen_by_a_fed_one": lambda tf, x: tf.where(fed(tf, "whole", "bool"), x, x),
    "chosen_by_rows": lambda tf, x: tf.where(fed(tf, "some", "bool"), x, x),
    "filled_zeros": lambda tf, x: tf.zeros([tf.shape(x)[0], 4]),
    "filled_by_a_stack": lambda tf, x: tf.fill(tf.stack([number(tf), 3]), 1.0),
    "drawn": lambda tf, x: tf.random_normal([number(tf), 3]),
    "spread": lambda tf, x: tf.broadcast_to(x, [number(tf), 2, 3]),
}


def done(name: str, kind: str) -> Any:
    return lambda tf: static(DONE[name](tf, fed(tf, kind)))


CASES = {f"{name}_of_{kind}": done(name, kind) for name in DONE for kind in SHAPES}


def case_extremes_of_nothing(tf: Any) -> Any:
    nothing = tf.zeros([0, 2])
    return run(tf, [tf.reduce_logsumexp(nothing, 0), tf.reduce_sum(nothing, 0)])
