"""Layers of networks: biases, pools, embeddings, activations, cross entropies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import Case, facts, makes_case, run, static, tf

IMAGE = np.arange(32.0, dtype=np.float32).reshape(1, 4, 4, 2) / 8.0
FILTERS = np.arange(24.0, dtype=np.float32).reshape(2, 2, 2, 3) / 12.0 - 1.0
ONES = [1, 1, 1, 1]
TABLE = [[0.0, 1.0], [10.0, 11.0], [20.0, 21.0], [30.0, 31.0], [40.0, 41.0]]


def convolved(image: Any = IMAGE, filters: Any = FILTERS, **more: Any) -> Any:
    options = {"strides": ONES, "padding": "VALID", **more}
    return tf.nn.conv2d(image, filters, **options)


def pooled(image: Any = IMAGE, **more: Any) -> Any:
    options = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    return tf.nn.max_pool(image, **{**options, **more})


@makes_case
def pooled_with_places(**more: Any) -> Any:
    """Return a case: largest numbers, of images with equal ones, places and slopes."""
    image = tf.constant(np.concatenate([IMAGE % 1.5, -IMAGE]))
    options = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    made = tf.nn.max_pool_with_argmax(image, **{**options, **more})
    slope = tf.gradients(tf.square(made.output), image)
    return [made._fields, *map(static, made), run([*made, *slope])]


@makes_case
def slopes_of_convolution(padding: str, stride: int) -> Any:
    image, filters = tf.constant(IMAGE), tf.constant(FILTERS)
    strides = [1, stride, stride, 1]
    result = convolved(image, filters, strides=strides, padding=padding)
    return run(tf.gradients(tf.square(result), [image, filters]))


def case_max_pool_has_a_gradient() -> Any:
    image = tf.constant(IMAGE[:, ::-1])
    result = pooled(image, ksize=[1, 3, 3, 1], strides=ONES)
    return run(tf.gradients(tf.square(result), image))


@makes_case
def over_shards(strategy: str) -> Any:
    sizes = {"mod": [[0, 2, 4], [1, 3]], "div": [[0, 1, 2], [3, 4]]}[strategy]
    shards = [tf.constant([TABLE[row] for row in rows]) for rows in sizes]
    result = tf.nn.embedding_lookup(shards, [4, 0, 3, 1], partition_strategy=strategy)
    return [result.get_shape().as_list(), run(result)]


def case_dropout_by_a_rate_without_a_shape() -> Any:
    x, kept = tf.ones([2, 3]), tf.placeholder(tf.float32)
    made = [tf.nn.dropout(x, kept), tf.layers.dropout(x, kept, training=True)]
    return [tensor.shape.as_list() for tensor in made]


NAMES = [
    *("relu", "elu", "leaky_relu", "sigmoid", "tanh"),
    *("softplus", "softmax", "log_softmax", "l2_loss"),
]
VALUES = [-3.0, -0.5, 0.0, 0.5, 3.0]

INPUTS: dict[str, Case] = {
    "a_list": lambda: VALUES,
    "a_float64_matrix": lambda: tf.constant([VALUES, VALUES[::-1]], tf.float64),
    "large_numbers": lambda: [-1000.0, 1000.0, 999.0],
    "integers": lambda: tf.constant([1, 2]),
    "strings": lambda: tf.constant(["a"]),
    "none": lambda: None,
}


def applied(name: str, kind: str) -> Case:
    return lambda: facts(getattr(tf.nn, name)(INPUTS[kind]()))


def case_activations_take_a_name() -> Any:
    return [getattr(tf.nn, name)([[1.0, 2.0]], name="chosen").name for name in NAMES]


@makes_case
def slope(name: str) -> Any:
    values = tf.constant(VALUES)
    weights = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0])
    result = getattr(tf.nn, name)(values)
    return run(tf.gradients(result * weights, values))


def case_activations_of_a_fed_batch() -> Any:
    batch = tf.placeholder(tf.float32, [None, 3])
    return [static(getattr(tf.nn, name)(batch)) for name in NAMES]


def dropped(**options: Any) -> Any:
    values = run(tf.nn.dropout(tf.ones([2000]), seed=1, **options))
    return [
        sorted({round(float(value), 4) for value in values}),
        abs(values.mean() - 1) < 0.1,
    ]


def case_dropout_of_whole_rows() -> Any:
    kept = tf.nn.dropout(tf.ones([50, 4]), rate=0.5, noise_shape=[50, 1], seed=2)
    values = run(kept)
    return [bool((values == values[:, :1]).all()), len(np.unique(values))]


def case_dropout_differs_from_run_to_run(session: Any) -> Any:
    kept = tf.nn.dropout(tf.ones([200]), rate=0.5)
    return bool(np.array_equal(session.run(kept), session.run(kept)))


def case_dropout_takes_a_rate_that_is_fed() -> Any:
    rate = tf.placeholder(tf.float32, [])
    kept = tf.nn.dropout(tf.ones([8]), rate=rate)
    return [static(kept), run(kept, {rate: 0.0})]


LOGITS = [[2.0, 1.0, -1.0], [0.0, 0.0, 3.0]]
LABELS = [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]


def dense(labels: Any = LABELS, logits: Any = LOGITS, **more: Any) -> Any:
    return tf.nn.softmax_cross_entropy_with_logits_v2(
        labels=labels, logits=logits, **more
    )


def sparse(labels: Any = (0, 2), logits: Any = LOGITS, **more: Any) -> Any:
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=logits, **more
    )


def sigmoid(labels: Any = LABELS, logits: Any = LOGITS, **more: Any) -> Any:
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, **more)


@makes_case
def slopes(loss: Callable[..., Any], labels: Any) -> Any:
    logits = tf.constant(LOGITS)
    return run(tf.gradients(loss(labels=labels, logits=logits), logits))


@makes_case
def slope_of_labels(loss: Callable[..., Any]) -> Any:
    labels = tf.constant(LABELS)
    return run(tf.gradients(loss(labels=labels), labels))


@makes_case
def of_a_fed_batch(loss: Callable[..., Any], labels: list[Any]) -> Any:
    dtype = tf.float32 if len(labels) > 1 else tf.int64
    tensor = tf.placeholder(dtype, labels)
    logits = tf.placeholder(tf.float32, [None, 3])
    return static(loss(labels=tensor, logits=logits))


CASES: dict[str, Case] = {
    "bias_add_refuses_another_size": lambda: tf.nn.bias_add([[1.0, 2.0]], [1.0]),
    "bias_add_refuses_a_matrix": lambda: tf.nn.bias_add([[1.0, 2.0]], [[1.0, 2.0]]),
    "bias_add_refuses_a_vector_of_values": lambda: tf.nn.bias_add([1.0], [1.0]),
    "conv2d_without_padding_has_a_gradient": slopes_of_convolution("VALID", 1),
    "conv2d_that_keeps_the_size_has_a_gradient": slopes_of_convolution("SAME", 1),
    "conv2d_with_strides_has_a_gradient": slopes_of_convolution("SAME", 2),
    "conv2d_refuses_a_matrix": lambda: convolved(image=tf.constant([[1.0]])),
    "conv2d_refuses_an_unknown_padding": lambda: convolved(padding="ROUND"),
    "conv2d_refuses_integers": lambda: convolved(
        image=IMAGE.astype(np.int64), filters=FILTERS.astype(np.int64)
    ),
    "conv2d_refuses_two_strides": lambda: convolved(strides=[1, 2, 2]),
    "max_pool_refuses_a_matrix": lambda: pooled(image=[[1.0]]),
    "max_pool_refuses_an_unknown_padding": lambda: pooled(padding="ROUND"),
    "max_pool_refuses_a_window_that_is_too_large": lambda: pooled(ksize=[1, 5, 5, 1]),
    "max_pool_with_places": pooled_with_places(name="pool"),
    "max_pool_with_places_that_keeps_the_size": pooled_with_places(
        strides=ONES, padding="SAME", ksize=[1, 3, 2, 1]
    ),
    "max_pool_with_places_among_all_images": pooled_with_places(
        include_batch_in_index=True
    ),
    "max_pool_with_places_refuses_two_dtypes": lambda: pooled_with_places(
        Targmax=tf.int64, output_dtype=tf.int64
    )(),
    "max_pool_with_places_refuses_fractions": lambda: pooled_with_places(
        Targmax=tf.float32
    )(),
    "max_pool_with_places_refuses_nchw": pooled_with_places(data_format="NCHW"),
    "embedding_lookup_over_shards_by_remainder": over_shards("mod"),
    "embedding_lookup_over_shards_by_ranges": over_shards("div"),
    "embedding_lookup_refuses_no_table": lambda: tf.nn.embedding_lookup([], [0]),
    "embedding_lookup_refuses_none": lambda: tf.nn.embedding_lookup(None, [0]),
    "embedding_lookup_refuses_fractions": lambda: tf.nn.embedding_lookup(TABLE, [0.5]),
    **{f"{name}_of_{kind}": applied(name, kind) for name in NAMES for kind in INPUTS},
    **{f"{name}_has_a_gradient": slope(name) for name in NAMES},
    "dropout_keeps_by_probability": lambda: dropped(keep_prob=0.8),
    "dropout_drops_by_rate": lambda: dropped(rate=0.2),
    "dropout_without_a_rate_is_refused": lambda: tf.nn.dropout([1.0]),
    "dropout_refuses_a_rate_above_one": lambda: tf.nn.dropout([1.0], rate=1.5),
    "dropout_refuses_a_negative_rate": lambda: tf.nn.dropout([1.0], rate=-0.1),
    "dropout_refuses_integers": lambda: tf.nn.dropout(tf.constant([1, 2]), rate=0.5),
    "softmax_cross_entropy_has_a_gradient": slopes(dense, LABELS),
    "softmax_cross_entropy_has_a_gradient_for_labels": slope_of_labels(dense),
    "softmax_cross_entropy_of_a_fed_batch": of_a_fed_batch(dense, [None, 3]),
    "softmax_cross_entropy_refuses_integers": lambda: dense(
        logits=tf.constant([[1, 2, 3]]), labels=tf.constant([[1, 0, 0]])
    ),
    "sparse_softmax_cross_entropy_has_a_gradient": slopes(sparse, [0, 2]),
    "sparse_softmax_cross_entropy_of_a_fed_batch": of_a_fed_batch(sparse, [None]),
    "sparse_softmax_cross_entropy_refuses_a_matrix_of_labels": lambda: sparse(
        labels=[[0, 1], [1, 0]]
    ),
    "sparse_softmax_cross_entropy_refuses_float_labels": lambda: sparse(
        labels=[0.0, 1.0]
    ),
    "sparse_softmax_cross_entropy_refuses_scalars": lambda: sparse(
        labels=0, logits=1.0
    ),
    "sparse_softmax_cross_entropy_refuses_positions": lambda: (
        tf.nn.sparse_softmax_cross_entropy_with_logits(LOGITS, [0, 2])
    ),
    "sigmoid_cross_entropy_has_a_gradient": slopes(sigmoid, LABELS),
    "sigmoid_cross_entropy_has_a_gradient_for_labels": slope_of_labels(sigmoid),
    "sigmoid_cross_entropy_of_a_fed_batch": of_a_fed_batch(sigmoid, [None, 3]),
    "sigmoid_cross_entropy_refuses_two_dtypes": lambda: sigmoid(
        labels=tf.constant(LABELS, tf.float64), logits=tf.constant(LOGITS)
    ),
}


FACTS = {
    "bias_add_of_an_image": lambda: tf.nn.bias_add(IMAGE, [100.0, 200.0]),
    "conv2d_without_padding": lambda: convolved(),
    "conv2d_that_keeps_the_size": lambda: convolved(padding="SAME"),
    "max_pool_of_windows": lambda: pooled(),
    "max_pool_that_keeps_the_size": lambda: pooled(strides=ONES, padding="SAME"),
    "embedding_lookup_takes_one_row": lambda: tf.nn.embedding_lookup(
        tf.constant(TABLE), 2
    ),
    "embedding_lookup_with_a_matrix_of_ids": lambda: tf.nn.embedding_lookup(
        TABLE, [[0, 1], [2, 2]], name="rows"
    ),
    "leaky_relu_takes_a_slope": lambda: tf.nn.leaky_relu([-2.0, 2.0], alpha=0.5),
    "log_softmax_takes_an_axis": lambda: tf.nn.log_softmax(
        [[1.0, 2.0], [3.0, 9.0]], axis=0
    ),
    "softmax_cross_entropy_of_rows": lambda: dense(),
    "softmax_cross_entropy_along_an_axis": lambda: dense(
        labels=np.transpose(LABELS), logits=np.transpose(LOGITS), axis=0
    ),
    "sparse_softmax_cross_entropy_of_rows": lambda: sparse(),
    "sparse_softmax_cross_entropy_of_one_row": lambda: sparse(
        labels=1, logits=[1.0, 2.0]
    ),
    "sigmoid_cross_entropy_of_each": lambda: sigmoid(),
}


RUNS = {
    "softmax_of_a_scalar_is_refused": lambda: tf.nn.softmax(1.0),
    "softmax_of_a_bad_axis_is_refused": lambda: tf.nn.softmax([[1.0]], axis=2),
    "dropout_keeps_everything": lambda: tf.nn.dropout([1.0, 2.0], keep_prob=1.0),
}


STATICS = {
    "bias_add_takes_a_name": lambda: tf.nn.bias_add([[1.0]], [1.0], name="biased"),
    "conv2d_takes_a_name": lambda: convolved(name="layer"),
    "max_pool_takes_a_name": lambda: pooled(name="pool"),
    "softmax_cross_entropy_takes_a_name": lambda: dense(name="loss"),
    "sparse_softmax_cross_entropy_takes_a_name": lambda: sparse(name="loss"),
    "sigmoid_cross_entropy_takes_a_name": lambda: sigmoid(name="loss"),
}
