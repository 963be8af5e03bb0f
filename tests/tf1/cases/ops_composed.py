"""Angles, running products, diagonals, orders and blocks, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.tf1.attempts import attempt
from tests.tf1.look import Case, makes_case, run, tf

X = np.array([[0.5, -0.25, 0.125], [0.75, -0.5, 0.25]], np.float32)
IMAGES = np.arange(2 * 2 * 4 * 3, dtype=np.float32).reshape(2, 2, 4, 3)
DEEP = np.arange(16, dtype=np.float32).reshape(1, 2, 1, 8)


@makes_case
def slopes(session: Any, make: Callable[[Any], Any], value: Any = X) -> Any:
    """Return a case: what a function gives of what is fed, its shape and slope."""
    x = tf.placeholder(tf.float32, np.shape(value))
    made = make(x)
    weights = tf.reshape(tf.range(tf.to_float(tf.size(made))), tf.shape(made))
    slope = tf.gradients(made * weights, x)[0]
    result = session.run([made, slope], {x: value})
    return [made.name, made.shape.as_list(), [item.round(4) for item in result]]


def of(name: str, value: Any = X) -> Case:
    return slopes(lambda x: getattr(tf, name)(x), value)


def products(x: Any, **named: Any) -> Any:
    return tf.cumprod(x, 1, **named)


def made(make: Case) -> Case:
    """Return a case: what is computed."""
    return lambda: run(make())


def case_partitions() -> Any:
    x = tf.placeholder(tf.float32, [None, 2])
    numbers = tf.placeholder(tf.int32, [None])
    parts = tf.dynamic_partition(x, numbers, 3)
    slope = tf.gradients(parts[0] * 2.0 + tf.reduce_sum(parts[2]), x)[0]
    feeds = {x: [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], numbers: [0, 2, 0]}
    return [len(parts), *run([*parts, slope], feeds)]


def case_partitions_beyond_the_last() -> Any:
    return run(tf.dynamic_partition([1, 2], [0, 3], 2))


def case_stitches() -> Any:
    x = tf.placeholder(tf.float32, [2, 2])
    parts = ([0, 2], tf.constant(1), [4])
    made = tf.dynamic_stitch(parts, [x, x[0] * 2.0, x[1:]])
    weights = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0], [9.0, 1.0]])
    slope = tf.gradients(made * weights, x)[0]
    shape = tf.dynamic_stitch([[0, 1]], [x]).shape.as_list()
    filled = run([made[:3], made[4], slope], {x: [[1.0, 2.0], [3.0, 4.0]]})
    last = run(tf.dynamic_stitch([[0, 1], [1, 0]], [[1, 2], [3, 4]]))
    return [made.name, shape, filled, last]


def case_stitches_that_do_not_match() -> Any:
    x = tf.placeholder(tf.float32)
    made = tf.dynamic_stitch([[0, 1]], [x])
    return run(made, {x: [1.0, 2.0, 3.0]})


@makes_case
def products_of(equation: str, *shapes: Any) -> Any:
    """Return a case: sums of products, and the slopes of all operands."""
    xs = [tf.placeholder(tf.float32, shape) for shape in shapes]
    y = tf.einsum(equation, *xs)
    weights = tf.reshape(tf.range(tf.to_float(tf.size(y))), tf.shape(y))
    arrays = [
        np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 4 - 1
        for shape in shapes
    ]
    slopes = tf.gradients(y * weights, xs)
    shape = None if y.shape.ndims is None else y.shape.as_list()
    return [shape, run([y, *slopes], {x: a for x, a in zip(xs, arrays)})]  # noqa: B905


def case_wrong_equations() -> Any:
    x = tf.zeros([2, 3])
    calls = [
        *(("ij,jk->ik", x), ("ij->ik", x), ("ij,ij->ijk", x, x)),
        *(("ij,jk->ik", x, x), ("ijk->i", x)),
    ]
    return [attempt(tf.einsum, *call) for call in calls]


def case_running_means(session: Any) -> Any:
    value, update = tf.metrics.mean_squared_error([1.0, 2.0], [2.0, 4.0], [1.0, 3.0])
    session.run(tf.local_variables_initializer())
    result = [session.run(item) for item in (value, update, update, value)]
    return [value.name, update.name, result]


def case_orders() -> Any:
    x = [[3.0, 1.0, 3.0], [2.0, 2.0, 5.0]]
    whole = [[3, 1, 3], [2, 2, 5]]
    return run(
        [
            *(tf.argsort(x), tf.argsort(x, direction="DESCENDING")),
            *(tf.argsort(x, axis=0), tf.sort(whole), tf.sort(x, axis=0)),
            tf.sort(whole, direction="DESCENDING"),
        ],
    )


def case_wrong_orders() -> Any:
    calls: Any = [{"direction": "UP"}, {"axis": 2}]
    return [attempt(tf.argsort, X, **call) for call in calls]


def case_confusions() -> Any:
    truth, guess = [0, 1, 2, 1], [0, 2, 2, 1]
    calls: Any = [
        *({}, {"num_classes": 4}, {"dtype": tf.float32}),
        {"weights": [1, 2, 3, 4], "dtype": tf.int64},
    ]
    return run([tf.confusion_matrix(truth, guess, **call) for call in calls])


def case_other_dtypes() -> Any:
    calls = [
        *(lambda: tf.atan2(1.0, tf.constant(1)), lambda: tf.erf(True)),
        *(lambda: tf.tan("a"), lambda: tf.cumprod(["a"]), lambda: tf.erf(["a"])),
    ]
    return [attempt(call) for call in calls]


def case_blocks_that_do_not_fit() -> Any:
    calls = [
        *(lambda: tf.space_to_depth(IMAGES, 3), lambda: tf.depth_to_space(DEEP, 3)),
        lambda: tf.space_to_depth(IMAGES[0], 2),
    ]
    return [attempt(call) for call in calls]


def case_batches_that_do_not_fit() -> Any:
    calls: Any = [
        (tf.space_to_batch, IMAGES, [[0, 0], [0, 1]], 2),
        (tf.space_to_batch, IMAGES, [[0, 0]], 2),
        (tf.space_to_batch, IMAGES, [[0, 0], [0, -2]], 2),
        (tf.space_to_batch, IMAGES, [[0, 0], [0, 0]], 0),
        (tf.space_to_batch, IMAGES, [[0, 0], [0, 0]]),
        (tf.space_to_batch, IMAGES[0], [[0, 0], [0, 1]], 1),
        (tf.space_to_batch, IMAGES, [[0, 0], [0, 0]], 2, None, 2),
        (tf.batch_to_space_nd, IMAGES, [3], [[0, 0]]),
        (tf.batch_to_space_nd, IMAGES, [2], [[3, 2]]),
    ]
    return [attempt(*call) for call in calls]


def case_batches_of_any_size() -> Any:
    x = tf.placeholder(tf.float32, [None, None, 4, 3])
    there = tf.space_to_batch(x, [[0, 0], [2, 0]], 2)
    back = tf.batch_to_space(there, [[0, 0], [2, 0]], 2)
    odd = attempt(lambda: run(there, {x: IMAGES[:, :1]}))
    return [
        *(there.shape.as_list(), back.shape.as_list(), odd),
        run([there, back, *tf.gradients(there[:3], x)], {x: IMAGES}),
    ]


CASES: dict[str, Case] = {
    **{
        name: of(name)
        for name in ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "atanh")
    },
    **{name: of(name) for name in ("erf", "erfc")},
    "acosh": of("acosh", X + 2),
    "atan2": slopes(lambda x: tf.atan2(x, 0.5 - tf.square(x))),
    "atan2_of_a_row": slopes(lambda x: tf.atan2(x, [1.0, -1.0, 2.0])),
    **{
        f"products_{exclusive}_{reverse}": slopes(
            partial(products, exclusive=exclusive, reverse=reverse)
        )
        for exclusive in (False, True)
        for reverse in (False, True)
    },
    "products_with_a_zero": made(lambda: tf.cumprod([[2, 3], [0, 4], [5, 6]])),
    "products_along_a_missing_axis": made(lambda: tf.cumprod([2, 3], 1)),
    "quotients": slopes(lambda x: tf.div_no_nan(x, [[0.0, 2.0, 4.0]])),
    "diagonal": of("diag", X[0]),
    "matrices": products_of("ij,jk->ik", (2, 3), (3, 4)),
    "matrices_in_batches": products_of("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
    "matrices_without_an_arrow": products_of("ij,jk", (2, 3), (3, 4)),
    "columns": products_of("ij->j", (2, 3)),
    "turned": products_of("ijk->kij", (2, 3, 2)),
    "outer": products_of("i,j->ij", (2,), (3,)),
    "dot": products_of("ij,ij->", (2, 3), (2, 3)),
    "row_of_sums": products_of("ij,k->k", (2, 3), (2,)),
    "heads": products_of("bqhd,bkhd->bhqk", (1, 2, 2, 2), (1, 3, 2, 2)),
    "three": products_of("ij,jk,kl->il", (2, 2), (2, 3), (3, 2)),
    "diagonal_of_rows": of("diag"),
    "on_the_diagonal": of("diag_part", np.arange(9, dtype=np.float32).reshape(3, 3)),
    "on_no_diagonal": lambda: tf.diag_part(X),
    "blocks_to_channels": slopes(lambda x: tf.space_to_depth(x, 2), IMAGES),
    "channels_to_blocks": slopes(lambda x: tf.depth_to_space(x, 2), DEEP),
    "blocks_to_batch": slopes(
        lambda x: tf.space_to_batch(x, [[0, 0], [1, 3]], 2), IMAGES
    ),
    "blocks_to_batch_named": slopes(
        lambda x: tf.nn.space_to_batch(x, [[0, 0], [0, 0]], block_shape=2, name="b"),
        IMAGES,
    ),
    "rows_to_batch": slopes(lambda x: tf.space_to_batch_nd(x, [2], [[1, 1]]), IMAGES),
    "volumes_to_batch": slopes(
        lambda x: tf.space_to_batch_nd(x, [2, 1, 3], [[2, 0], [1, 0], [1, 2]]),
        IMAGES,
    ),
    "batch_to_blocks": slopes(
        lambda x: tf.batch_to_space(x, [[1, 0], [0, 1]], 2, name="b"),
        np.concatenate([IMAGES, -IMAGES]),
    ),
    "batch_to_rows": slopes(lambda x: tf.batch_to_space_nd(x, [2], [[0, 0]]), IMAGES),
    "batch_to_nothing": slopes(
        lambda x: tf.batch_to_space_nd(x, [1, 2], [[1, 0], [3, 4]]), IMAGES
    ),
    "blocks_of_nn": made(lambda: tf.nn.space_to_depth(IMAGES, 2, "s")),
}
