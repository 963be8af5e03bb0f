"""`tf.layers`: values by numpy, names of variables as in the original."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kit import tf1 as tf
from tests.tf1.look import finite_difference, names_of, op_names_of

ROWS = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]], np.float32)


def names() -> list[str]:
    return names_of(tf.global_variables())


def images(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_a_dense_layer_multiplies_adds_and_activates(session: Any) -> None:
    kernel = np.arange(6, dtype=np.float32).reshape(3, 2) - 2
    y = tf.layers.dense(
        ROWS,
        2,
        tf.nn.relu,
        kernel_initializer=tf.constant_initializer(kernel),
        bias_initializer=tf.constant_initializer(0.5),
    )
    session.run(tf.global_variables_initializer())

    np.testing.assert_allclose(session.run(y), np.maximum(ROWS @ kernel + 0.5, 0))
    assert y.name == "dense/Relu:0"


def test_a_dense_layer_keeps_further_axes(session: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 4, 3])
    y = tf.layers.dense(x, 2, use_bias=False)
    session.run(tf.global_variables_initializer())
    fed = images(5, 4, 3)

    result, kernel = session.run([y, tf.global_variables()[0]], {x: fed})

    assert y.shape.as_list() == [None, 4, 2]
    np.testing.assert_allclose(result, fed @ kernel, rtol=1e-5)


def test_layers_are_numbered_and_those_of_a_name_are_shared_if_asked() -> None:
    with tf.variable_scope("model"):
        tf.layers.dense(ROWS, 4)
        tf.layers.dense(ROWS, 4)
        tf.layers.dense(ROWS, 4, name="out", use_bias=False)
        tf.layers.dense(ROWS, 4, name="out", use_bias=False, reuse=True)
    with tf.variable_scope("model", reuse=True):
        tf.layers.dense(ROWS, 4)

    assert names() == [
        *("model/dense/kernel:0", "model/dense/bias:0"),
        *("model/dense_1/kernel:0", "model/dense_1/bias:0", "model/out/kernel:0"),
    ]
    tf.layers.dense(ROWS, 4, name="rest")
    with pytest.raises(ValueError, match="already exists"):
        tf.layers.dense(ROWS, 4, name="rest")


def test_a_layer_that_is_an_object_uses_its_variables_again(session: Any) -> None:
    layer = tf.layers.Dense(2)
    first, second = layer(ROWS), layer.apply(ROWS)
    session.run(tf.global_variables_initializer())

    assert names() == ["dense/kernel:0", "dense/bias:0"]
    assert layer.trainable_variables == [layer.kernel, layer.bias]
    assert np.array_equal(*session.run([first, second]))


def test_kernels_begin_uniform_within_glorots_limit_and_biases_at_zero(
    session: Any,
) -> None:
    tf.layers.dense(np.zeros([1, 300], np.float32), 100)
    session.run(tf.global_variables_initializer())
    kernel, bias = session.run(tf.global_variables())
    limit = np.sqrt(6 / 400)

    assert np.abs(kernel).max() <= limit
    assert kernel.std() == pytest.approx(limit / np.sqrt(3), rel=0.02)
    assert not bias.any()


def test_regularizers_are_collected_once_for_each_variable(session: Any) -> None:
    for reuse in (None, True):
        tf.layers.dense(
            ROWS,
            2,
            kernel_initializer=tf.ones_initializer(),
            kernel_regularizer=lambda w: 0.1 * tf.nn.l2_loss(w),
            name="layer",
            reuse=reuse,
        )
    tf.layers.dense(ROWS, 1, activity_regularizer=tf.nn.l2_loss)
    session.run(tf.global_variables_initializer())

    (loss, _) = tf.losses.get_regularization_losses()
    assert session.run(loss) == pytest.approx(0.1 * 6 / 2)


def test_a_convolution_is_the_sum_over_its_window(session: Any) -> None:
    fed = images(2, 5, 6, 3)
    y = tf.layers.conv2d(fed, 4, [2, 3], strides=(2, 1), name="conv")
    same = tf.layers.conv2d(fed, 4, 3, padding="same", activation=tf.nn.relu)
    session.run(tf.global_variables_initializer())
    kernel, result = session.run([tf.global_variables()[0], y])

    assert names() == [
        *("conv/kernel:0", "conv/bias:0", "conv2d/kernel:0", "conv2d/bias:0")
    ]
    assert kernel.shape == (2, 3, 3, 4)
    for row, column in np.ndindex(2, 4):
        window = fed[:, 2 * row : 2 * row + 2, column : column + 3]
        expected = np.tensordot(window, kernel, 3)
        np.testing.assert_allclose(result[:, row, column], expected, rtol=1e-4)
    assert same.shape.as_list() == [2, 5, 6, 4]


def test_pools_take_the_greatest_or_the_mean_and_flatten_makes_rows(
    session: Any,
) -> None:
    x = tf.placeholder(tf.float32, [None, 4, 4, 2])
    fed = images(3, 4, 4, 2)
    blocks = fed.reshape(3, 2, 2, 2, 2, 2)
    greatest = tf.layers.max_pooling2d(x, 2, 2)
    mean = tf.layers.average_pooling2d(x, pool_size=[2, 2], strides=2)
    rows = tf.layers.flatten(greatest)

    result = session.run([greatest, mean, rows], {x: fed})

    np.testing.assert_array_equal(result[0], blocks.max(axis=(2, 4)))
    np.testing.assert_allclose(result[1], blocks.mean(axis=(2, 4)), rtol=1e-4)
    assert rows.shape.as_list() == [None, 8]
    np.testing.assert_array_equal(result[2], result[0].reshape(3, 8))


def test_dropout_works_only_while_training(session: Any) -> None:
    training = tf.placeholder("bool")
    ones = np.ones([100, 100], np.float32)
    never = tf.layers.dropout(ones, 0.4)
    by_tensor = tf.layers.dropout(ones, 0.4, seed=1, training=training)
    always = tf.layers.dropout(ones, 0.4, seed=1, training=True)

    assert np.array_equal(session.run(never), ones)
    assert np.array_equal(session.run(by_tensor, {training: False}), ones)
    for result in session.run([by_tensor, always], {training: True}):
        assert set(np.unique(result)) == {0.0, np.float32(1 / 0.6)}
        assert (result == 0).mean() == pytest.approx(0.4, abs=0.02)


def test_batch_normalization_trains_with_the_batch_and_then_uses_averages(
    session: Any,
) -> None:
    training = tf.placeholder("bool")  # programs often leave the shape out
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.layers.batch_normalization(x, momentum=0.9, training=training)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    session.run(tf.global_variables_initializer())
    fed = images(50, 3) * 2 + 1
    mean, variance = fed.mean(0), fed.var(0)

    result, _ = session.run([y, updates], {x: fed, training: True})
    later, _ = session.run([y, updates], {x: fed, training: False})

    layer = "batch_normalization"
    variables = ["gamma", "beta", "moving_mean", "moving_variance"]
    assert names() == [f"{layer}/{name}:0" for name in variables]
    assert op_names_of(tf.trainable_variables()) == [
        f"{layer}/gamma",
        f"{layer}/beta",
    ]
    np.testing.assert_allclose(
        result, (fed - mean) / np.sqrt(variance + 1e-3), atol=1e-5
    )
    moving = session.run(tf.global_variables()[2:])
    np.testing.assert_allclose(moving[0], 0.1 * mean, rtol=1e-5)
    np.testing.assert_allclose(moving[1], 0.9 + 0.1 * variance, rtol=1e-5)
    expected = (fed - moving[0]) / np.sqrt(moving[1] + 1e-3)
    np.testing.assert_allclose(later, expected, atol=1e-5)


def test_batch_normalization_of_images_averages_the_estimate_of_the_variance(
    session: Any,
) -> None:
    fed = images(2, 3, 3, 2)
    tf.layers.batch_normalization(fed, training=True)
    tf.layers.batch_normalization(fed, training=False)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    session.run(tf.global_variables_initializer())
    session.run(updates)

    assert len(updates) == 2
    moving = session.run(tf.global_variables()[3])
    expected = 0.99 + 0.01 * fed.reshape(-1, 2).var(0, ddof=1)
    np.testing.assert_allclose(moving, expected, rtol=1e-5)


def test_the_gradient_through_batch_normalization_is_its_finite_difference(
    session: Any,
) -> None:
    x = tf.placeholder(tf.float64, [5, 2])
    y = tf.layers.batch_normalization(x, training=True)
    weights = images(5, 2).astype(np.float64)
    loss = tf.reduce_sum(y * weights)
    (slope,) = tf.gradients(loss, x)
    session.run(tf.global_variables_initializer())
    fed = images(5, 2).astype(np.float64)[::-1] * 3

    exact = session.run(slope, {x: fed})

    for at in np.ndindex(5, 2):
        expected = finite_difference(lambda v: session.run(loss, {x: v}), fed, at)
        assert exact[at] == pytest.approx(expected, abs=1e-6)


def test_a_layer_says_which_size_it_has_to_know() -> None:
    x = tf.placeholder(tf.float32, [2, None])

    with pytest.raises(ValueError, match=r"dimension -1 .* should be defined"):
        tf.layers.dense(x, 2)
    with pytest.raises(ValueError, match="`kernel_size` argument must be a tuple"):
        tf.layers.conv2d(images(1, 4, 4, 1), 2, [3, 3, 3])


def test_filters_of_fewer_channels_are_of_groups_of_channels(session: Any) -> None:
    x, w = images(2, 5, 5, 4), images(3, 3, 2, 6)

    result = session.run(tf.nn.conv2d(x, w, [1, 2, 1, 1], "SAME"))

    alone = [
        tf.nn.conv2d(x[..., 2 * i : 2 * i + 2], w[..., 3 * i : 3 * i + 3], 1, "SAME")
        for i in range(2)
    ]
    assert result == pytest.approx(session.run(tf.concat(alone, 3))[:, ::2])
    with pytest.raises(ValueError, match="make the two equal"):
        tf.nn.conv2d(x, images(3, 3, 3, 6), 1, "SAME")
