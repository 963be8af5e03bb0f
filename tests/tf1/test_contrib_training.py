"""Steps of training that `tf.contrib` puts together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kit import tf1 as tf
from tests.cases import for_each


def model() -> tuple[Any, Any]:
    """Return a loss of two variables, and the one that it does not depend on."""
    w = tf.Variable([3.0, 4.0], name="w")
    other = tf.Variable(1.0, name="other")
    return tf.reduce_sum(w * w) / 2.0, other


def test_a_step_gives_the_loss_before_it_and_runs_the_updates_first(
    session: Any,
) -> None:
    loss, other = model()
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, other.assign_add(1.0))
    train = tf.contrib.training.create_train_op(
        loss, tf.train.GradientDescentOptimizer(0.5), summarize_gradients=True
    )
    session.run(tf.global_variables_initializer())

    losses = [session.run(train) for _ in range(2)]
    written = tf.Summary.FromString(session.run(tf.summary.merge_all()))

    assert losses == [12.5, 3.125]
    assert session.run([other, tf.train.get_global_step()]) == [3.0, 2]
    assert tf.get_collection(tf.GraphKeys.TRAIN_OP)[1:] == [train]
    assert [item.tag for item in written.value] == [
        *("summarize_grads/w_gradient", "summarize_grads/w_gradient_norm")
    ]


@for_each(
    ("named", "expected"),
    [
        ({"clip_gradient_norm": 1.0}, [2.4, 3.2]),
        ({"gradient_multipliers": {"w": 2.0}}, [-3.0, -4.0]),
        ({"gradient_multipliers": {"w": 2.0}, "clip_gradient_norm": 1}, [2.4, 3.2]),
        ({}, [0.0, 0.0]),
    ],
)
def test_gradients_are_multiplied_then_shortened(
    named: dict[str, Any], expected: list[float]
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        loss, _ = model()
        train = tf.contrib.slim.learning.create_train_op(
            loss, tf.train.GradientDescentOptimizer(1.0), global_step=None, **named
        )
        session.run(tf.global_variables_initializer())
        session.run(train)

        result = session.run("w:0")
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_rows_of_a_gradient_are_multiplied_and_shortened_as_rows(session: Any) -> None:
    table = tf.Variable([[3.0, 4.0], [0.0, 0.0]], name="table")
    row = tf.nn.embedding_lookup(table, [0])
    train = tf.contrib.slim.learning.create_train_op(
        tf.reduce_sum(row * row) / 2.0,
        tf.train.GradientDescentOptimizer(1.0),
        clip_gradient_norm=2.5,
        gradient_multipliers={table: 2.0},
        summarize_gradients=True,
    )
    session.run(tf.global_variables_initializer())
    session.run(train)

    assert session.run(table).tolist() == [[1.5, 2.0], [0.0, 0.0]]


def test_what_cannot_be_trained_is_said() -> None:
    loss, other = model()
    step = tf.Variable(0, trainable=False, name="step")
    descent = tf.train.GradientDescentOptimizer(1.0)
    create = tf.contrib.slim.learning.create_train_op

    with pytest.raises(ValueError, match=r"\['step'\] are not among"):
        create(loss, descent, variables_to_train=[step])
    with pytest.raises(ValueError, match="multiple of `None`"):
        create(loss, descent, gradient_multipliers={other: 2.0})
    with pytest.raises(ValueError, match="is empty"):
        tf.contrib.training.multiply_gradients([], {})


def test_a_loss_that_is_no_number_stops_the_step(session: Any) -> None:
    w = tf.Variable(0.0)
    train = tf.contrib.training.create_train_op(
        tf.log(w) * 0.0, tf.train.GradientDescentOptimizer(1.0)
    )
    session.run(tf.global_variables_initializer())
    with pytest.raises(tf.errors.InvalidArgumentError, match="LossTensor"):
        session.run(train)


def test_counts_of_contrib_take_the_predictions_first(session: Any) -> None:
    metrics = tf.contrib.metrics
    right = metrics.accuracy([1, 2, 3], [1, 2, 4])
    weighted = metrics.accuracy([1, 2, 3], [1, 2, 4], weights=[0.0, 1.0, 1.0])
    _, so_far = metrics.streaming_accuracy([1, 2, 3, 3], [1, 2, 4, 3])
    _, area = metrics.streaming_auc([0.9, 0.1, 0.2], [True, False, True])
    session.run(tf.local_variables_initializer())

    result = session.run([right, weighted, so_far, area])
    np.testing.assert_allclose(result, [2 / 3, 0.5, 0.75, 1.0], atol=1e-4)


def test_classes_are_drawn_as_often_as_they_are_likely_and_a_seed_repeats_them() -> (
    None
):
    with tf.Graph().as_default(), tf.Session() as session:
        drawn = tf.multinomial(tf.log([[0.1, 0.2, 0.7]]), 2000, seed=3)
        first = session.run(drawn)[0]
    with tf.Graph().as_default(), tf.Session() as session:
        again = session.run(
            tf.random.multinomial(tf.log([[0.1, 0.2, 0.7]]), 2000, seed=3)
        )[0]

    shares = np.bincount(first, minlength=3) / 2000
    np.testing.assert_allclose(shares, [0.1, 0.2, 0.7], atol=0.04)
    assert (first == again).all()


def test_values_keep_the_scale_of_what_is_multiplied_with_them(session: Any) -> None:
    make = tf.uniform_unit_scaling_initializer(factor=2.0, seed=1)
    result = session.run(make([4, 3, 100]))

    limit = 2.0 * (3.0 / 12) ** 0.5
    assert result.dtype == np.float32
    assert 0.95 * limit < np.abs(result).max() <= limit


def test_a_machine_without_gpu_says_so() -> None:
    with_gpu = "/device:GPU:0" in tf.test.gpu_device_name()
    assert tf.test.is_gpu_available() == tf.test.is_built_with_cuda() == with_gpu
