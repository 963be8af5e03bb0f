"""Session.run: what may be fed, how it is converted, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import makes_case, run, tf


@makes_case
def conversion(dtype: str, shape: Any, value: Any) -> Any:
    """Return a case that feeds a placeholder and fetches what it feeds on."""
    fed = tf.placeholder(getattr(tf, dtype), shape)
    return run(tf.identity(fed), {fed: value})


CONVERSIONS = {
    "an_int_becomes_a_float": ("float32", [], 3),
    "a_float_becomes_an_int": ("int32", [], 1.7),
    "an_array_of_floats_becomes_ints": ("int32", [2], np.array([1.7, -1.7])),
    "doubles_become_floats": ("float32", [2], np.array([0.1, 0.2])),
    "a_list_becomes_an_array": ("float32", [2], [1, 2.5]),
    "a_nested_list_becomes_a_matrix": ("int32", [2, 2], [[1, 2], [3, 4]]),
    "a_tuple_becomes_an_array": ("int32", [2], (1, 2)),
    "a_bool_becomes_a_float": ("float32", [], True),
    "an_int_for_a_bool_is_refused": ("bool", [], 2),
    "a_numpy_scalar_is_fed": ("float32", [], np.float64(2.5)),
    "text_is_fed": ("string", [], "abc"),
    "bytes_are_fed": ("string", [], b"abc"),
    "texts_are_fed": ("string", [2], ["a", "é"]),
    "an_array_of_text_is_fed": ("string", [2], np.array(["a", "bc"])),
    "any_shape_fits_no_shape": ("float32", None, [[1.0], [2.0]]),
    "any_batch_fits_an_unknown_size": ("float32", [None, 1], [[1.0], [2.0]]),
    "an_empty_batch_fits": ("float32", [None, 2], np.zeros((0, 2))),
    "a_slice_with_gaps_is_fed": ("int32", [3], np.arange(6)[::2]),
    "a_wrong_size_is_refused": ("float32", [2], [1.0, 2.0, 3.0]),
    "a_wrong_rank_is_refused": ("float32", [2], 1.0),
    "a_scalar_for_a_vector_of_one_is_refused": ("float32", [1], 1.0),
    "a_vector_of_one_for_a_scalar_is_refused": ("float32", [], [1.0]),
    "a_wrong_size_of_a_batch_is_refused": ("float32", [None, 3], [[1.0, 2.0]]),
    "text_for_a_float_is_refused": ("float32", [], "x"),
    "digits_become_an_int": ("int32", [], "12"),
    "a_ragged_list_is_refused": ("float32", None, [[1.0], [2.0, 3.0]]),
    "none_for_an_int_is_refused": ("int32", [], None),
    "none_becomes_nan": ("float32", [], None),
    "an_int_that_does_not_fit_is_refused": ("int32", [], 2**40),
    "a_negative_int_for_an_unsigned_is_refused": ("uint8", [], -1),
    "a_list_with_none_is_refused": ("int32", [2], [1, None]),
    "a_dict_is_refused": ("float32", None, {"x": 1.0}),
    "an_object_is_refused": ("float32", None, object()),
}


@makes_case
def key(make: Callable[[Any], Any], value: Any = 5) -> Any:
    """Return a case that feeds under the key made of the placeholder `x:0`."""
    fed = tf.placeholder(tf.int32, [], name="x")
    return run(fed + 1, {make(fed): value})


def stranger() -> Any:
    with tf.Graph().as_default():
        return tf.placeholder(tf.int32, [], name="x")


KEYS: dict[str, Callable[[Any], Any]] = {
    "a_tensor": lambda fed: fed,
    "the_name_of_a_tensor": lambda fed: "x:0",
    "the_name_of_an_operation": lambda fed: "x",
    "an_operation": lambda fed: fed.op,
    "an_unknown_name": lambda fed: "moon:0",
    "an_output_that_does_not_exist": lambda fed: "x:1",
    "an_int": lambda fed: 3,
    "none": lambda fed: None,
    "a_tensor_of_another_graph": lambda fed: stranger(),
}


def case_a_tuple_of_tensors_takes_a_tuple_of_values() -> Any:
    a, b, c = (tf.placeholder(tf.int32, []) for _ in range(3))
    return run(a * 100 + b * 10 + c, {(a, (b, c)): (1, (2, 3))})


def case_a_list_for_the_feeds_is_refused() -> Any:
    fed = tf.placeholder(tf.int32, [])
    return run(fed, [(fed, 1)])


def case_a_tensor_inside_a_list_of_values_is_refused() -> Any:
    fed = tf.placeholder(tf.int32, [1])
    return run(fed + 1, {fed: [tf.constant(3)]})


def case_a_sparse_placeholder_is_fed() -> Any:
    fed = tf.sparse_placeholder(tf.float32)
    value = tf.SparseTensorValue([[0, 1], [2, 0]], [5.0, 6.0], [3, 2])
    return run(fed, {fed: value})


CASES = {
    **{name: conversion(*options) for name, options in CONVERSIONS.items()},
    **{f"feed_under_{name}": key(make) for name, make in KEYS.items()},
}
