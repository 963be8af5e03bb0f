"""Session.run: what may be fed, what is fetched, and the structure of both."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tests.tf1.look import Case, makes_case, run, tf


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


class Pair(NamedTuple):
    first: Any
    second: Any


class Row(list):  # type: ignore[type-arg]
    pass


def nodes() -> tuple[Any, Any]:
    """Return the tensors `a:0` and `b:0`."""
    return tf.constant(3.0, name="a"), tf.constant([1, 2], name="b")


Fetch = Any

GOOD: dict[str, Callable[[Any, Any], Fetch]] = {
    "a_tensor": lambda a, b: a,
    "a_vector": lambda a, b: b,
    "an_operation": lambda a, b: a.op,
    "the_name_of_an_operation": lambda a, b: "a",
    "the_name_of_a_tensor": lambda a, b: "a:0",
    "a_name_in_bytes": lambda a, b: b"a:0",
    "a_list": lambda a, b: [a, b],
    "a_list_of_one": lambda a, b: [a],
    "a_subclass_of_list": lambda a, b: Row([a, b]),
    "a_tuple": lambda a, b: (a, b.op),
    "a_tuple_of_one": lambda a, b: (a,),
    "a_namedtuple": lambda a, b: Pair(a, b),
    "a_dict": lambda a, b: {"x": a, "y": b.op},
    "a_dict_keeps_its_order": lambda a, b: {"y": a, "x": b},
    "a_dict_with_numbers_as_keys": lambda a, b: {1: a, 2: b},
    "an_ordered_dict": lambda a, b: collections.OrderedDict([("y", a), ("x", b)]),
    "a_nested_structure": lambda a, b: {"x": [a, (b, Pair(a, {"z": b}))], "y": ()},
    "an_empty_list": lambda a, b: [],
    "an_empty_tuple": lambda a, b: (),
    "an_empty_dict": lambda a, b: {},
    "empty_things_inside": lambda a, b: [[], (), {}, a],
    "the_same_twice": lambda a, b: [a, a, (a,)],
    "a_list_of_names": lambda a, b: ["a:0", "b:0", "b"],
}

BAD: dict[str, Callable[[Any, Any], Fetch]] = {
    "none": lambda a, b: None,
    "none_inside_a_list": lambda a, b: [a, None],
    "none_inside_a_dict": lambda a, b: {"x": None},
    "an_int": lambda a, b: 3,
    "a_float": lambda a, b: 3.0,
    "an_array": lambda a, b: np.ones(2),
    "a_set": lambda a, b: {"a:0"},
    "a_generator": lambda a, b: (item for item in [a]),
    "an_unknown_operation": lambda a, b: "moon",
    "an_unknown_tensor": lambda a, b: "moon:0",
    "an_output_that_does_not_exist": lambda a, b: "a:1",
    "an_output_that_is_a_word": lambda a, b: "a:b",
    "an_empty_name": lambda a, b: "",
    "a_name_with_two_colons": lambda a, b: "a:0:0",
    "an_object": lambda a, b: object(),
    "a_graph": lambda a, b: a.graph,
    "a_shape": lambda a, b: a.shape,
}


@makes_case
def fetched(fetch: Callable[[Any, Any], Fetch]) -> Any:
    a, b = nodes()
    return run(fetch(a, b))


def case_fetch_a_tensor_of_another_graph() -> Any:
    nodes()
    with tf.Graph().as_default():
        stranger = tf.constant(1)
    return run(stranger)


CASES: dict[str, Case] = {
    **{name: conversion(*options) for name, options in CONVERSIONS.items()},
    **{f"feed_under_{name}": key(make) for name, make in KEYS.items()},
    **{f"fetch_{name}": fetched(fetch) for name, fetch in {**GOOD, **BAD}.items()},
}
