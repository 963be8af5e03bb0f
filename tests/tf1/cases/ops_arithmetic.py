"""Functions of one or two numbers, by element: values, dtypes, names, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import Case, facts, run, tf

# Functions of one number, with an input that each is defined for.
UNARY: dict[str, list[float]] = {
    "abs": [-1.5, 0.0, 2.0],
    "sign": [-1.5, 0.0, 2.0],
    "square": [-1.5, 0.0, 2.0],
    "sqrt": [0.0, 0.25, 9.0],
    "rsqrt": [0.25, 1.0, 9.0],
    "exp": [-1.0, 0.0, 2.0],
    "log": [0.5, 1.0, 10.0],
    "log1p": [-0.5, 0.0, 10.0],
    "sin": [-1.0, 0.0, 2.0],
    "cos": [-1.0, 0.0, 2.0],
    "tanh": [-1.0, 0.0, 2.0],
    "sigmoid": [-20.0, 0.0, 3.0],
    "reciprocal": [-2.0, 0.5, 4.0],
    "negative": [-2.0, 0.0, 4.0],
    "identity": [-2.0, 0.0, 4.0],
    "stop_gradient": [-2.0, 0.0, 4.0],
    "zeros_like": [1.0, 2.0, 3.0],
    "ones_like": [1.0, 2.0, 3.0],
}

INPUTS: dict[str, Callable[[list[float]], Any]] = {
    "a_list": lambda values: values,
    "a_float64_matrix": lambda values: tf.constant([values], tf.float64),
    "a_scalar": lambda values: values[-1],
    "integers": lambda values: tf.constant([1, 4]),
    "bools": lambda values: tf.constant([True, False]),
    "strings": lambda values: tf.constant(["a"]),
    "none": lambda values: None,
}

PAIRS: dict[str, tuple[Any, Any]] = {
    "add": ([1.0, 5.0], [4.0, 2.0]),
    "subtract": ([1.0, 5.0], [4.0, 2.0]),
    "multiply": ([1.0, 5.0], [4.0, 2.0]),
    "divide": ([1.0, 5.0], [4.0, 2.0]),
    "maximum": ([1.0, 5.0], [4.0, 2.0]),
    "minimum": ([1.0, 5.0], [4.0, 2.0]),
    "squared_difference": ([1.0, 5.0], [4.0, 2.0]),
    "equal": ([1.0, 5.0], [4.0, 5.0]),
    "logical_and": ([True, True], [True, False]),
    "logical_or": ([True, False], [False, False]),
}

# How the two values of PAIRS are handed over.
MEETINGS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "lists": lambda left, right: (left, right),
    "a_tensor_and_a_number": lambda left, right: (tf.constant(left), right[0]),
    "a_row_and_a_column": lambda left, right: (
        tf.constant([left]),
        tf.constant([[right[0]], [right[1]]]),
    ),
    "integers": lambda left, right: (tf.constant([7, -7]), tf.constant([2, 2])),
    "shapes_that_clash": lambda left, right: (left, [right[0]] * 3),
    "two_dtypes": lambda left, right: (
        tf.constant(left),
        tf.constant([1, 2], tf.int64),
    ),
    "a_size_that_is_fed": lambda left, right: (
        tf.placeholder_with_default(left, [None]),
        tf.constant([[right[0]], [right[1]]]),
    ),
}


def of_one(name: str, kind: str) -> Case:
    return lambda: facts(getattr(tf, name)(INPUTS[kind](UNARY[name])))


def of_two(name: str, kind: str) -> Case:
    return lambda: facts(getattr(tf, name)(*MEETINGS[kind](*PAIRS[name])))


def case_functions_take_a_name() -> Any:
    result = {name: getattr(tf, name)(UNARY[name], name="chosen") for name in UNARY}
    result.update({name: getattr(tf, name)(*PAIRS[name], name="two") for name in PAIRS})
    return {name: result[name].name for name in sorted(result)}


def case_add_n_sums() -> Any:
    tensor = tf.constant([1.0, 2.0])
    return facts(tf.add_n([tensor, tensor, tf.constant([10.0, 20.0])]))


CASES: dict[str, Case] = {
    **{f"{name}_of_{kind}": of_one(name, kind) for name in UNARY for kind in INPUTS},
    **{f"{name}_of_{kind}": of_two(name, kind) for name in PAIRS for kind in MEETINGS},
    "logical_not_refuses_numbers": lambda: tf.logical_not([1]),
    "add_n_of_nothing_is_refused": lambda: tf.add_n([]),
    "add_n_refuses_other_shapes": lambda: tf.add_n([[1.0], [1.0, 2.0]]),
    "add_n_refuses_other_dtypes": lambda: tf.add_n(
        [tf.constant([1.0]), tf.constant([1])]
    ),
    "equal_of_a_number_and_none": lambda: tf.equal([1.0], None),
    "sqrt_of_a_negative_is_nan": lambda: bool(np.isnan(run(tf.sqrt(-1.0)))),
    "maximum_with_nan": lambda: bool(np.isnan(run(tf.maximum(float("nan"), 1.0)))),
}

FACTS = {
    "logical_not_of_bools": lambda: tf.logical_not([True, False]),
    "add_n_of_one_is_that_tensor": lambda: tf.add_n([[1.0, 2.0]]),
    "equal_of_strings": lambda: tf.equal(["a", "b"], ["a", "c"]),
    "squared_difference_of_rows": lambda: tf.squared_difference(
        [[1.0, 2.0]], [[3.0], [5.0]]
    ),
    "log_of_zero_is_minus_infinity": lambda: tf.log([0.0]),
    "exp_of_a_big_number_is_infinite": lambda: tf.exp([1000.0]),
    "sigmoid_of_float64_keeps_precision": lambda: tf.sigmoid(
        tf.constant([-40.0, 40.0], tf.float64)
    ),
    "zeros_like_with_another_dtype": lambda: tf.zeros_like([1.5, 2.5], dtype=tf.int32),
}

RUNS = {
    "add_n_refuses_what_is_no_list": lambda: tf.add_n(3.0),
    "divide_of_numbers": lambda: tf.divide(7, tf.constant(2)),
}
