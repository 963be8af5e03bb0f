"""Biases, convolutions, pools and embeddings: values, gradients, shapes, errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.look import makes_case, run, static, tf

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


CASES = {
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
}

STATICS = {
    "bias_add_takes_a_name": lambda: tf.nn.bias_add([[1.0]], [1.0], name="biased"),
    "conv2d_takes_a_name": lambda: convolved(name="layer"),
    "max_pool_takes_a_name": lambda: pooled(name="pool"),
}
