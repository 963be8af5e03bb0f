"""Cross entropies: values, gradients, shapes, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import Case, makes_case, run, static, tf

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

STATICS = {
    "softmax_cross_entropy_takes_a_name": lambda: dense(name="loss"),
    "sparse_softmax_cross_entropy_takes_a_name": lambda: sparse(name="loss"),
    "sigmoid_cross_entropy_takes_a_name": lambda: sigmoid(name="loss"),
}
