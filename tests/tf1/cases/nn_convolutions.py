"""Convolutions: with holes, with borders of one's own, along one axis, by channel."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.look import Case, makes_case, run, static, tf

X = np.arange(72, dtype=np.float32).reshape(1, 6, 6, 2) / 8.0
W = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2) / 8.0 - 1.0


def with_gradients(y: Any, *xs: Any) -> Any:
    """Tell a result, its static shape, and its gradients, weighted by place."""
    shape = y.get_shape().as_list()
    weight = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    values = run([y, *tf.gradients(y * weight, list(xs))])
    return [static(y)["shape"], values]


@makes_case
def images(**how: Any) -> Any:
    x, w = tf.constant(X), tf.constant(W)
    return with_gradients(tf.nn.conv2d(x, w, **how), x, w)


def forth(**how: Any) -> Case:
    """Without gradients: the original has none on a CPU where there are holes."""
    return lambda: run(tf.nn.conv2d(X, W, **how))


@makes_case
def back(by: str, **how: Any) -> Any:
    x, w = tf.constant(X), tf.constant(W)
    dy = tf.ones_like(tf.nn.conv2d(x, w, **how))
    if by == "images":
        made = tf.nn.conv2d_backprop_input(X.shape, w, dy, **how)
        return with_gradients(made, w, dy)
    made = tf.nn.conv2d_backprop_filter(x, W.shape, dy, **how)
    return with_gradients(made, x, dy)


@makes_case
def along(**how: Any) -> Any:
    x, w = tf.constant(X[0]), tf.constant(W[0])
    return with_gradients(tf.nn.convolution(x, w, **how), x, w)


@makes_case
def of_two(**how: Any) -> Any:
    x, w = tf.constant(X), tf.constant(W)
    return with_gradients(tf.nn.convolution(x, w, **how), x, w)


@makes_case
def by_channel(**how: Any) -> Any:
    x, w = tf.constant(X), tf.constant(W)
    return with_gradients(tf.nn.depthwise_conv2d(x, w, **how), x, w)


def case_filters_that_are_separable() -> Any:
    x, w = tf.constant(X), tf.constant(W)
    point = tf.constant(np.arange(12, dtype=np.float32).reshape(1, 1, 4, 3))
    y = tf.nn.separable_conv2d(x, w, point, [1, 1, 1, 1], "SAME")
    return with_gradients(y, x, w, point)


def case_rows_by_conv1d() -> Any:
    x, w = tf.constant(X[0]), tf.constant(W[0])
    return with_gradients(tf.nn.conv1d(x, w, 2, "SAME"), x, w)


def case_holes_by_rate() -> Any:
    x, w = tf.constant(X), tf.constant(W)
    return with_gradients(tf.nn.atrous_conv2d(x, w, 2, "SAME"), x, w)


def case_holes_by_rate_turned_round() -> Any:
    dy, w = tf.constant(X), tf.constant(W)
    y = tf.nn.atrous_conv2d_transpose(dy, w, [1, 6, 6, 2], 2, "SAME")
    return with_gradients(y, dy, w)


ONE = [1, 1, 1, 1]
EDGES = [[0, 0], [1, 0], [2, 3], [0, 0]]

CASES: dict[str, Case] = {
    "holes_inside": forth(strides=ONE, padding="VALID", dilations=[1, 2, 2, 1]),
    "holes_with_borders": forth(strides=ONE, padding="SAME", dilations=[1, 3, 1, 1]),
    "holes_by_two_numbers": forth(strides=1, padding="VALID", dilations=[1, 2]),
    "borders_of_ones_own": images(strides=[1, 2, 1, 1], padding=EDGES),
    "borders_below_nothing": images(strides=ONE, padding=[[0, 0], [-1, 0], [0, 0]] * 2),
    "borders_of_too_few_axes": images(strides=ONE, padding=EDGES[:3]),
    "borders_of_channels": images(strides=ONE, padding=[*EDGES[::-1][:3], [1, 0]]),
    "holes_of_channels": images(strides=ONE, padding="SAME", dilations=[1, 1, 1, 2]),
    "holes_of_nothing": images(strides=ONE, padding="SAME", dilations=[1, 0, 1, 1]),
    "borders_that_are_unknown": images(strides=ONE, padding="FULL"),
    "by_images": back("images", strides=[1, 2, 2, 1], padding="SAME"),
    "by_images_with_borders": back("images", strides=[1, 2, 1, 1], padding=EDGES),
    "by_filters": back("filters", strides=[1, 2, 2, 1], padding="SAME"),
    "by_filters_with_borders": back("filters", strides=[1, 2, 1, 1], padding=EDGES),
    "along_a_row": along(padding="SAME"),
    "along_a_row_with_strides": along(padding="VALID", strides=[2]),
    "along_a_row_with_holes": along(padding="VALID", dilation_rate=[2]),
    "along_a_row_with_two_strides": along(padding="VALID", strides=[2, 2]),
    "of_two_axes_with_strides": of_two(padding="SAME", strides=[2, 1]),
    "of_two_axes_with_holes": of_two(padding="VALID", dilation_rate=[1, 2]),
    "of_two_axes_with_both": of_two(
        padding="VALID", strides=[2, 1], dilation_rate=[1, 2]
    ),
    "by_channel": by_channel(strides=ONE, padding="SAME"),
    "by_channel_with_strides": by_channel(strides=[1, 2, 2, 1], padding="VALID"),
    "by_channel_with_holes": by_channel(strides=ONE, padding="SAME", rate=[2, 2]),
}
