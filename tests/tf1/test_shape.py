"""Sizes of a shape that programs of Python 2 have computed with a division."""

from __future__ import annotations

import numpy as np
import pytest

from kit import tf1 as tf
from tests.cases import for_each


@for_each("half", [8 / 2, np.float32(4), np.float64(4)])
def test_size_may_be_a_float_that_is_whole(half: float) -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, half])
        w = tf.get_variable("w", shape=[half, 3], initializer=tf.zeros_initializer())
        y = tf.matmul(x, w)

    assert w.shape.as_list() == [4, 3]
    assert y.shape.as_list() == [None, 3]
    assert isinstance(x.shape.as_list()[1], int)


@for_each("value", [2.5, np.float32(0.5), float("nan"), float("inf")])
def test_size_that_is_no_whole_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=f"Ambiguous dimension: {value}"):
        tf.TensorShape([None, value])


@for_each("value", [[4], b"4"])
def test_size_that_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="must be a whole number or None"):
        tf.Dimension(value)
