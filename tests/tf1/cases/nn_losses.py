"""Cross entropies: values, gradients, shapes, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import facts, makes_case, run, static

LOGITS = [[2.0, 1.0, -1.0], [0.0, 0.0, 3.0]]
LABELS = [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]


def dense(tf: Any, labels: Any = LABELS, logits: Any = LOGITS, **more: Any) -> Any:
    return tf.nn.softmax_cross_entropy_with_logits_v2(
        labels=labels, logits=logits, **more
    )


def sparse(tf: Any, labels: Any = (0, 2), logits: Any = LOGITS, **more: Any) -> Any:
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=logits, **more
    )


def sigmoid(tf: Any, labels: Any = LABELS, logits: Any = LOGITS, **more: Any) -> Any:
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, **more)


@makes_case
def slopes(tf: Any, loss: Callable[..., Any], labels: Any) -> Any:
    logits = tf.constant(LOGITS)
    return run(tf, tf.gradients(loss(tf, labels=labels, logits=logits), logits))


@makes_case
def slope_of_labels(tf: Any, loss: Callable[..., Any]) -> Any:
    labels = tf.constant(LABELS)
    return run(tf, tf.gradients(loss(tf, labels=labels), labels))


@makes_case
def of_a_fed_batch(tf: Any, loss: Callable[..., Any], labels: list[Any]) -> Any:
    dtype = tf.float32 if len(labels) > 1 else tf.int64
    tensor = tf.placeholder(dtype, labels)
    logits = tf.placeholder(tf.float32, [None, 3])
    return static(loss(tf, labels=tensor, logits=logits))


CASES: dict[str, Callable[[Any], Any]] = {
    "softmax_cross_entropy_of_rows": lambda tf: facts(tf, dense(tf)),
    "softmax_cross_entropy_takes_a_name": lambda tf: static(dense(tf, name="loss")),
    "softmax_cross_entropy_along_an_axis": lambda tf: facts(
        tf, dense(tf, labels=np.transpose(LABELS), logits=np.transpose(LOGITS), axis=0)
    ),
    "softmax_cross_entropy_has_a_gradient": slopes(dense, LABELS),
    "softmax_cross_entropy_has_a_gradient_for_labels": slope_of_labels(dense),
    "softmax_cross_entropy_of_a_fed_batch": of_a_fed_batch(dense, [None, 3]),
    "softmax_cross_entropy_refuses_integers": lambda tf: dense(
        tf, logits=tf.constant([[1, 2, 3]]), labels=tf.constant([[1, 0, 0]])
    ),
    "sparse_softmax_cross_entropy_of_rows": lambda tf: facts(tf, sparse(tf)),
    "sparse_softmax_cross_entropy_of_one_row": lambda tf: facts(
        tf, sparse(tf, labels=1, logits=[1.0, 2.0])
    ),
    "sparse_softmax_cross_entropy_takes_a_name": lambda tf: static(
        sparse(tf, name="loss")
    ),
    "sparse_softmax_cross_entropy_has_a_gradient": slopes(sparse, [0, 2]),
    "sparse_softmax_cross_entropy_of_a_fed_batch": of_a_fed_batch(sparse, [None]),
    "sparse_softmax_cross_entropy_refuses_a_matrix_of_labels": lambda tf: sparse(
        tf, labels=[[0, 1], [1, 0]]
    ),
    "sparse_softmax_cross_entropy_refuses_float_labels": lambda tf: sparse(
        tf, labels=[0.0, 1.0]
    ),
    "sparse_softmax_cross_entropy_refuses_scalars": lambda tf: sparse(
        tf, labels=0, logits=1.0
    ),
    "sparse_softmax_cross_entropy_refuses_positions": lambda tf: (
        tf.nn.sparse_softmax_cross_entropy_with_logits(LOGITS, [0, 2])
    ),
    "sigmoid_cross_entropy_of_each": lambda tf: facts(tf, sigmoid(tf)),
    "sigmoid_cross_entropy_takes_a_name": lambda tf: static(sigmoid(tf, name="loss")),
    "sigmoid_cross_entropy_has_a_gradient": slopes(sigmoid, LABELS),
    "sigmoid_cross_entropy_has_a_gradient_for_labels": slope_of_labels(sigmoid),
    "sigmoid_cross_entropy_of_a_fed_batch": of_a_fed_batch(sigmoid, [None, 3]),
    "sigmoid_cross_entropy_refuses_two_dtypes": lambda tf: sigmoid(
        tf, labels=tf.constant(LABELS, tf.float64), logits=tf.constant(LOGITS)
    ),
}
