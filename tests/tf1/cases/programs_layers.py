"""What programs with networks use: convolutions back, losses of sequences, metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import Case, initialized, makes_case, names_of, tf

IMAGE = np.arange(18, dtype=np.float32).reshape(1, 3, 3, 2)
FILTERS = np.arange(36, dtype=np.float32).reshape(3, 3, 2, 2) / 9
LOGITS = np.sin(np.arange(24, dtype=np.float32)).reshape(2, 3, 4)
TARGETS = np.array([[0, 1, 2], [3, 2, 1]], np.int32)
WEIGHTS = np.array([[1, 1, 0], [0.5, 0, 0]], np.float32)


def run(fetch: Any, feeds: Any = None) -> Any:
    with initialized() as session:
        session.run(tf.local_variables_initializer())
        return session.run(fetch, feeds)


@makes_case
def transposed(shape: list[int], strides: Any, padding: str, **more: Any) -> Any:
    x, w = tf.constant(IMAGE), tf.constant(FILTERS)
    y = tf.nn.conv2d_transpose(x, w, shape, strides, padding, **more)
    slopes = tf.gradients(tf.reduce_sum(y * y), [x, w])
    return y.name, y.shape.as_list(), run([y, slopes])


def layers() -> Any:
    """Return `tf.layers`, which later releases of the original do not have whole."""
    return tf.layers if hasattr(tf.layers, "conv2d_transpose") else tf.contrib.layers


@makes_case
def layer(**how: Any) -> Any:
    x = tf.placeholder(tf.float32, [None, 3, 3, 2])
    ones = tf.ones_initializer()
    y = layers().conv2d_transpose(x, 4, kernel_initializer=ones, **how)
    names = [
        (global_variable.name, global_variable.shape.as_list())
        for global_variable in tf.global_variables()
    ]
    return y.shape.as_list(), names, run(y, {x: IMAGE})


def case_a_layer_of_an_unknown_size() -> Any:
    x = tf.placeholder(tf.float32, [None, None, 3, 2])
    y = layers().conv2d_transpose(
        x, 2, 3, 2, "same", kernel_initializer=tf.ones_initializer()
    )
    return run(y, {x: IMAGE})


@makes_case
def of_sequences(**flags: Any) -> Any:
    options = map(tf.constant, (LOGITS, TARGETS, WEIGHTS))
    return run(tf.contrib.seq2seq.sequence_loss(*options, **flags))


def lists() -> Any:
    return (
        [tf.constant(LOGITS[:, time]) for time in range(3)],
        [tf.constant(TARGETS[:, time]) for time in range(3)],
        [tf.constant(WEIGHTS[:, time]) for time in range(3)],
    )


def case_loss_by_example() -> Any:
    legacy = tf.contrib.legacy_seq2seq
    whole = legacy.sequence_loss_by_example(*lists(), average_across_timesteps=False)
    return run([legacy.sequence_loss_by_example(*lists()), whole])


def case_loss_of_lists() -> Any:
    legacy = tf.contrib.legacy_seq2seq
    whole = legacy.sequence_loss(*lists(), average_across_batch=False)
    return run([legacy.sequence_loss(*lists()), whole])


def case_lists_of_other_lengths() -> Any:
    logits, targets, weights = lists()
    return tf.contrib.legacy_seq2seq.sequence_loss_by_example(
        logits, targets, weights[1:]
    )


def case_a_decoder_that_reads_what_it_wrote() -> Any:
    cell = tf.contrib.rnn.BasicRNNCell(2)
    with tf.variable_scope("top", initializer=tf.ones_initializer()):
        outputs, last = tf.contrib.legacy_seq2seq.rnn_decoder(
            [tf.constant([[0.1, 0.2]])] * 3,
            tf.zeros([1, 2]),
            cell,
            loop_function=lambda previous, time: previous * float(time),
        )
    names = names_of(tf.global_variables())
    return names, run([outputs, last])


@makes_case
def parts(*what: Any, **masks: Any) -> Any:
    cube = tf.constant(np.arange(24).reshape(2, 3, 4))
    result = tf.strided_slice(cube, *what, **masks)
    return result.name, result.shape.as_list(), run(result)


def case_a_slice_from_where_a_tensor_says() -> Any:
    begin = tf.placeholder(tf.int32, [1])
    result = tf.strided_slice(tf.range(9), begin, begin + 3, [1])
    return run(result, {begin: [4]})


@makes_case
def measured(session: Any, make: Callable[[Any], Any]) -> Any:
    """Return a case that runs a metric on two batches."""
    fed = tf.placeholder(tf.int64, [3])
    value, update = make(fed)
    names = names_of((*tf.local_variables(), value, update))
    session.run(tf.local_variables_initializer())
    before = session.run(value)
    updates = [session.run(update, {fed: item}) for item in ([1, 2, 3], [1, 1, 1])]
    return names, before, updates, session.run(value)


def case_metrics_twice() -> Any:
    for _ in range(2):
        tf.metrics.accuracy([1], [1])
    return names_of(tf.get_collection(tf.GraphKeys.METRIC_VARIABLES))


SAME, TWO = [1, 1, 1, 1], [1, 2, 2, 1]
CASES: dict[str, Case] = {
    "conv2d_transpose_that_keeps_the_size": transposed([1, 3, 3, 2], SAME, "SAME"),
    "conv2d_transpose_with_strides": transposed([1, 6, 5, 2], TWO, "SAME", name="up"),
    "conv2d_transpose_without_padding": transposed([1, 7, 7, 2], TWO, "VALID"),
    "conv2d_transpose_to_another_size": transposed([1, 9, 9, 2], TWO, "SAME"),
    "conv2d_transpose_to_other_channels": transposed([1, 6, 6, 3], TWO, "SAME"),
    "conv2d_transpose_to_a_matrix": transposed([6, 6], TWO, "SAME"),
    "a_layer": layer(kernel_size=3, strides=2, padding="same"),
    "a_layer_without_padding": layer(kernel_size=[3, 2], strides=(1, 3), name="up"),
    "a_layer_without_bias": layer(kernel_size=2, use_bias=False),
    "loss_of_sequences": of_sequences(),
    "loss_of_sequences_over_times": of_sequences(average_across_batch=False),
    "loss_of_sequences_over_the_batch": of_sequences(average_across_timesteps=False),
    "loss_of_sequences_for_each": of_sequences(
        average_across_timesteps=False, average_across_batch=False
    ),
    "loss_of_sequences_summed": of_sequences(
        average_across_timesteps=False,
        average_across_batch=False,
        sum_over_timesteps=True,
        sum_over_batch=True,
    ),
    "loss_of_sequences_both_ways": of_sequences(sum_over_batch=True),
    "loss_of_a_matrix": lambda: tf.contrib.seq2seq.sequence_loss(
        *map(tf.constant, (LOGITS[0], TARGETS, WEIGHTS))
    ),
    "strided_slice": parts([0, 1, 0], [2, 3, 4], [1, 1, 2]),
    "strided_slice_without_strides": parts([1], [2], name="mine"),
    "strided_slice_back": parts([1, -1], [0, 0], [-1, -1]),
    "strided_slice_with_masks": parts(
        [1, 1, 1], [1, 2, 2], begin_mask=1, end_mask=4, shrink_axis_mask=2
    ),
    "strided_slice_with_an_ellipsis": parts(
        [0, 0, 1], [0, 0, 2], ellipsis_mask=1, new_axis_mask=2
    ),
    "accuracy": measured(lambda fed: tf.metrics.accuracy([1, 2, 2], fed)),
    "accuracy_of_a_column": measured(
        lambda fed: tf.metrics.accuracy([[1], [2], [2]], fed, name="mine")
    ),
    "mean": measured(lambda fed: tf.metrics.mean(fed)),
    "mean_with_weights": measured(lambda fed: tf.metrics.mean(fed, [0.0, 2, 1])),
    "accuracy_of_other_shapes": lambda: tf.metrics.accuracy([1, 2], [1, 2, 3]),
}
