"""Session.run: what may be fed, how it is converted, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def conversion(dtype: str, shape: Any, value: Any) -> Callable[[Any], Any]:
    """Return a case that feeds a placeholder and fetches what it feeds on."""

    def case(tf: Any) -> Any:
        fed = tf.placeholder(getattr(tf, dtype), shape)
        with tf.Session() as session:
            return session.run(tf.identity(fed), {fed: value})

    return case


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
    "an_array_in_fortran_order_is_fed": (
        *("float32", [2, 2]),
        np.asfortranarray(np.array([[1.0, 2.0], [3.0, 4.0]])),
    ),
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

CASES = {name: conversion(*given) for name, given in CONVERSIONS.items()}


def key(make: Callable[[Any, Any], Any], value: Any = 5) -> Callable[[Any], Any]:
    """Return a case that feeds under the key made of the placeholder `x:0`."""

    def case(tf: Any) -> Any:
        fed = tf.placeholder(tf.int32, [], name="x")
        with tf.Session() as session:
            return session.run(fed + 1, {make(tf, fed): value})

    return case


def stranger(tf: Any) -> Any:
    with tf.Graph().as_default():
        return tf.placeholder(tf.int32, [], name="x")


KEYS: dict[str, Callable[[Any, Any], Any]] = {
    "a_tensor": lambda tf, fed: fed,
    "the_name_of_a_tensor": lambda tf, fed: "x:0",
    "the_name_of_an_operation": lambda tf, fed: "x",
    "an_operation": lambda tf, fed: fed.op,
    "an_unknown_name": lambda tf, fed: "moon:0",
    "an_output_that_does_not_exist": lambda tf, fed: "x:1",
    "an_int": lambda tf, fed: 3,
    "none": lambda tf, fed: None,
    "a_tensor_of_another_graph": lambda tf, fed: stranger(tf),
}
CASES.update({f"feed_under_{name}": key(make) for name, make in KEYS.items()})


def case_a_missing_feed_is_refused(tf: Any) -> Any:
    fed = tf.placeholder(tf.float32)
    with tf.Session() as session:
        return session.run(fed + 1.0)


def case_a_placeholder_that_nothing_needs_may_stay_empty(tf: Any) -> Any:
    tf.placeholder(tf.float32)
    with tf.Session() as session:
        return session.run(tf.constant(7))


def case_a_feed_that_nothing_needs_is_taken(tf: Any) -> Any:
    fed = tf.placeholder(tf.float32, [])
    with tf.Session() as session:
        return session.run(tf.constant(7), {fed: 1.0})


def case_a_constant_may_be_overridden(tf: Any) -> Any:
    two = tf.constant(2)
    with tf.Session() as session:
        return session.run(two * 10, {two: 3}), session.run(two * 10)


def case_a_constant_cannot_take_another_shape(tf: Any) -> Any:
    two = tf.constant([2, 2])
    with tf.Session() as session:
        return session.run(two * 10, {two: [1, 2, 3]})


def case_what_only_an_overridden_tensor_needs_does_not_run(tf: Any) -> Any:
    count = tf.Variable(0)
    more = count.assign_add(1)
    total = tf.identity(more) + 100
    empty = tf.placeholder(tf.int32, []) + 1
    with tf.Session() as session:
        session.run(count.initializer)
        found = session.run(total, {more: 7}), session.run(empty * 2, {empty: 4})
        return found, session.run(count)


def case_a_fed_fetch_comes_back_as_an_array(tf: Any) -> Any:
    fed = tf.placeholder(tf.float32, [])
    with tf.Session() as session:
        found = session.run(fed, {fed: 3})
        return type(found).__name__, found.shape, found


def case_fetch_and_feed_of_one_constant(tf: Any) -> Any:
    two = tf.constant(2)
    with tf.Session() as session:
        return session.run([two, two + 1], {two: 5})


def case_a_variable_is_fed_for_one_run(tf: Any) -> Any:
    variable = tf.Variable(1.0)
    double = variable * 2.0
    with tf.Session() as session:
        session.run(variable.initializer)
        found = session.run(double, {variable: 10.0})
        return found, session.run([double, variable])


def case_a_variable_that_is_fed_need_not_be_initialised(tf: Any) -> Any:
    variable = tf.Variable(1.0)
    with tf.Session() as session:
        return session.run(variable + 1.0, {variable: 10.0})


def case_two_keys_of_one_tensor_the_last_counts(tf: Any) -> Any:
    fed = tf.placeholder(tf.int32, [], name="x")
    with tf.Session() as session:
        return session.run(fed + 0, {fed: 1, "x:0": 2})


def case_a_tuple_of_tensors_takes_a_tuple_of_values(tf: Any) -> Any:
    a, b, c = (tf.placeholder(tf.int32, []) for _ in range(3))
    with tf.Session() as session:
        return session.run(a * 100 + b * 10 + c, {(a, (b, c)): (1, (2, 3))})


def case_a_tuple_of_values_of_another_structure_is_refused(tf: Any) -> Any:
    a, b = (tf.placeholder(tf.int32, []) for _ in range(2))
    with tf.Session() as session:
        return session.run(a + b, {(a, b): (1, (2, 3))})


def case_a_list_for_the_feeds_is_refused(tf: Any) -> Any:
    fed = tf.placeholder(tf.int32, [])
    with tf.Session() as session:
        return session.run(fed, [(fed, 1)])


def case_an_empty_dict_of_feeds_is_none(tf: Any) -> Any:
    with tf.Session() as session:
        return session.run(tf.constant(7), {}), session.run("Const:0", None)


def case_a_tensor_as_a_value_is_refused(tf: Any) -> Any:
    fed = tf.placeholder(tf.int32, [])
    with tf.Session() as session:
        return session.run(fed + 1, {fed: tf.constant(3)})


def case_a_tensor_inside_a_list_of_values_is_refused(tf: Any) -> Any:
    fed = tf.placeholder(tf.int32, [1])
    with tf.Session() as session:
        return session.run(fed + 1, {fed: [tf.constant(3)]})


def case_a_tensor_that_is_marked_cannot_be_fed(tf: Any) -> Any:
    two = tf.constant(2)
    graph = tf.get_default_graph()
    before = graph.is_feedable(two)
    graph.prevent_feeding(two)
    after = graph.is_feedable(two)
    with tf.Session() as session:
        try:
            session.run(two + 1, {two: 3})
        except ValueError as error:
            return before, after, type(error).__name__


def case_a_sparse_placeholder_is_fed(tf: Any) -> Any:
    fed = tf.sparse_placeholder(tf.float32)
    value = tf.SparseTensorValue([[0, 1], [2, 0]], [5.0, 6.0], [3, 2])
    with tf.Session() as session:
        return session.run(fed, {fed: value})


def case_feeds_reach_a_server(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    fed = tf.placeholder(tf.float32, [None], name="x")
    two = tf.constant(2.0)
    with tf.Session(server.target) as session:
        product = fed * two
        first = session.run(product, {"x:0": [1, 2]})
        return first, session.run([product, fed], {fed: [3], two: 10.0})


def case_a_missing_feed_is_refused_by_a_server(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    fed = tf.placeholder(tf.float32, [])
    with tf.Session(server.target) as session:
        return session.run(fed + 1.0)


def case_a_large_array_passes_through_a_server(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    fed = tf.placeholder(tf.float32, [None, 256])
    value = np.arange(256 * 1024, dtype=np.float32).reshape(-1, 256)
    with tf.Session(server.target) as session:
        found = session.run(tf.transpose(fed), {fed: value})
    return found.shape, bool((found == value.T).all())
