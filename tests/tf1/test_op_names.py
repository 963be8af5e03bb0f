"""Names of what functions write, and shapes, where the recorded cases do not look."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kit import tf1 as tf
from tests.cases import for_each
from tests.tf1.look import names_of


def names(graph: Any) -> list[str]:
    return names_of(graph.get_operations())


def test_constants_are_named_like_the_arguments_they_are(graph: Any) -> None:
    tf.add([1.0], 2.0)
    tf.reshape([1.0, 2.0], [2, 1])

    assert names(graph) == [
        *("Add/x", "Add/y", "Add"),
        *("Reshape/tensor", "Reshape/shape", "Reshape"),
    ]


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("gen", ["gen/a:0"]),
        ("gen|crit", ["gen/a:0", "critic/b:0"]),
        (".*/gen", ["other/gen:0"]),
        ("a", []),
        ("", ["gen/a:0", "critic/b:0", "other/gen:0"]),
    ],
)
def test_scope_of_a_collection_is_a_pattern_for_the_beginning_of_names(
    scope: str, expected: list[str]
) -> None:
    for name in ("gen/a", "critic/b", "other/gen"):
        tf.get_variable(name, [])
    tf.add_to_collection(tf.GraphKeys.TRAINABLE_VARIABLES, 3)  # without a name

    assert names_of(tf.trainable_variables(scope)) == expected


@pytest.mark.parametrize("size", [2**31, 2**33])
def test_shape_of_a_very_long_axis_is_a_tensor_of_int64(size: int) -> None:
    shape = tf.TensorShape([size, 1])

    assert tf.convert_to_tensor(shape).dtype == tf.int64
    assert tf.convert_to_tensor(shape[0]).dtype == tf.int64
    assert tf.truncated_normal(shape).shape.as_list() == [size, 1]
    assert tf.convert_to_tensor(tf.TensorShape([2**31 - 1])).dtype == tf.int32


def test_shape_that_does_not_fit_its_dtype_is_refused_with_one_that_does() -> None:
    x = tf.placeholder(tf.float32, [2**33])

    assert tf.shape(x, out_type=tf.int64).shape.as_list() == [1]
    for ask in (tf.shape, tf.size):
        with pytest.raises(ValueError, match=r"out_type=tf\.int64"):
            ask(x)


def test_a_reduction_uses_up_the_name_of_the_axes_that_it_does_not_write() -> None:
    x = tf.placeholder(tf.float32, [2])
    tf.reduce_sum(x)

    assert tf.constant(1.0).name == "Const_1:0"


def test_a_gradient_is_named_after_the_operation_that_it_leads_through() -> None:
    x = tf.placeholder(tf.float32, [2])
    (gradient,) = tf.gradients(tf.sin(x, name="wave"), x)

    assert gradient.name.startswith("gradients/wave_grad/")


def test_large_tensors_of_zeros_do_not_travel_with_the_graph() -> None:
    assert tf.zeros([999]).op.type == "Const"
    assert tf.zeros([1000]).op.type == "Fill"


def test_a_shape_that_is_known_is_a_constant_of_the_graph() -> None:
    expected, unknown = tf.zeros([2, 3]), tf.placeholder(tf.float32, [None])

    assert [tf.shape(item).op.type for item in (expected, unknown)] == [
        "Const",
        "Shape",
    ]


def test_a_default_may_be_fed_another_size_than_it_has(session: Any) -> None:
    x = tf.placeholder_with_default([1.0, 2.0], [None])
    total = tf.reduce_sum(x)

    assert session.run(total) == 3.0
    assert session.run(total, {x: [1.0, 2.0, 4.0]}) == 7.0


def test_a_function_of_python_may_return_several_tensors(session: Any) -> None:
    low, high = tf.py_func(
        lambda x: (x.min(), x.max()), [tf.constant([3.0, 1.0])], [tf.float32] * 2
    )

    assert session.run([low, high]) == [1.0, 3.0]


def test_a_range_that_no_memory_holds_has_a_shape() -> None:
    assert tf.range(2**40, dtype=tf.int64).shape.as_list() == [2**40]
    assert tf.range(7, -(2**40), -3, tf.int64).shape.as_list() == [366503875928]
    assert tf.range(0.0, 1e12, 2.0, tf.float64).shape.as_list() == [5 * 10**11]
    with pytest.raises(ValueError, match="no end"):
        tf.range(0.0, float("inf"))


def test_the_bounds_of_a_range_of_float64_are_not_rounded_first() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        result = session.run(tf.range(0.0, 0.3, 0.1, tf.float64))

    assert result.tolist() == [0.0, 0.1, 0.2]  # in float32 0.3 / 0.1 is more than 3


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
