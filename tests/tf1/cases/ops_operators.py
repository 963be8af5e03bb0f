"""Python's operators on tensors: values, dtypes, names of the operations, errors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import Case, facts, static, tf

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "plus": operator.add,
    "minus": operator.sub,
    "times": operator.mul,
    "true_division": operator.truediv,
    "floor_division": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
    "less": operator.lt,
    "less_or_equal": operator.le,
    "greater": operator.gt,
    "greater_or_equal": operator.ge,
}

# What stands on the left and on the right of the operator.
SIDES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "two_float_tensors": lambda: (
        tf.constant([7.0, -7.0, 2.0]),
        tf.constant([2.0, 2.0, 2.0]),
    ),
    "two_int_tensors": lambda: (tf.constant([7, -7, 2]), tf.constant([2, 2, 2])),
    "tensor_and_number": lambda: (tf.constant([7.5, 2.0]), 2),
    "number_and_tensor": lambda: (3, tf.constant([2.0, 4.0])),
    "number_and_int_tensor": lambda: (7, tf.constant([2, 3])),
    "array_and_tensor": lambda: (
        np.array([5.0, 9.0], np.float32),
        tf.constant([2.0, 4.0]),
    ),
    "tensor_and_list": lambda: (tf.constant([5.0, 9.0]), [2.0, 4.0]),
    "list_and_tensor": lambda: ([5.0, 9.0], tf.constant([2.0, 4.0])),
    "column_and_row": lambda: (tf.constant([[6.0], [9.0]]), tf.constant([2.0, 4.0])),
    "shapes_that_clash": lambda: (tf.constant([1.0, 2.0]), tf.constant([1.0] * 3)),
    "float_and_int_tensor": lambda: (tf.constant([1.0]), tf.constant([1])),
    "int_tensor_and_fraction": lambda: (tf.constant([1]), 1.5),
    "tensor_and_none": lambda: (tf.constant([1.0]), None),
    "tensor_and_word": lambda: (tf.constant([1.0]), "word"),
}


# The operators of one kind are alike here, so only the first of each tries all sides.
FIRST = ("plus", "true_division", "floor_division", "power", "less")
FEW = ("two_float_tensors", "two_int_tensors", "number_and_tensor", "array_and_tensor")


def applied(function: Callable[[Any, Any], Any], side: str) -> Case:
    return lambda: facts(function(*SIDES[side]()))


def case_plus_with_unknown_rank_has_unknown_shape() -> Any:
    return static(tf.placeholder(tf.float32) + tf.placeholder(tf.float32, [2, None]))


def case_times_of_half_known_shapes() -> Any:
    left = tf.placeholder(tf.float32, [None, 3])
    return static(left * tf.placeholder(tf.float32, [4, 1]))


def case_equality_is_identity() -> Any:
    left, right = tf.constant(1.0), tf.constant(1.0)
    equal, unequal = left == right, left != right
    return [equal, unequal, left == left, left in {left}, left in [right]]


CASES: dict[str, Case] = {
    **{
        f"{name}_of_{side}": applied(function, side)
        for name, function in BINARY.items()
        for side in (SIDES if name in FIRST else FEW)
    },
    "at_refuses_vectors": lambda: tf.constant([1.0]) @ tf.constant([1.0]),
    "minus_sign_refuses_bool": lambda: -tf.constant([True]),
    "invert_refuses_floats": lambda: ~tf.constant([1.0]),
    "or_refuses_floats": lambda: tf.constant([1.0]) | tf.constant([1.0]),
    "less_refuses_bool": lambda: tf.constant([True]) < tf.constant([False]),
    "truth_of_a_tensor_is_refused": lambda: bool(tf.constant(True)),
    "truth_of_a_comparison_is_refused": lambda: 1 < tf.constant(2) < 3,
    "iteration_is_refused": lambda: list(tf.constant([1, 2])),
    "length_is_refused": lambda: len(tf.constant([1, 2])),
    "float_of_a_tensor_is_refused": lambda: float(tf.constant(1.0)),
    "int_of_a_tensor_is_refused": lambda: int(tf.constant(1)),
}

FACTS = {
    "minus_sign_negates": lambda: -tf.constant([1.0, -2.0]),
    "minus_sign_negates_integers": lambda: -tf.constant([1, -2]),
    "abs_of_floats": lambda: abs(tf.constant([1.0, -2.0])),
    "abs_of_integers": lambda: abs(tf.constant([1, -2])),
    "invert_of_bool": lambda: ~tf.constant([True, False]),
    "plus_of_int_tensor_and_bool": lambda: tf.constant([1, 2]) + True,
}
