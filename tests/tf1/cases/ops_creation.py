"""Tensors from values and by chance: constants, ranges, fills, draws, dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.look import Case, facts, initialized, makes_case, run, static, tf

DTYPES = "float16 float32 float64 int8 uint8 int16 int32 int64 bool string complex64"

# Values whose dtype the original finds out.
VALUES: dict[str, Any] = {
    "a_float": 1.5,
    "an_int": 3,
    "a_bool": True,
    "a_string": "word",
    "bytes": b"word",
    "a_list_of_floats": [1.0, 2.5],
    "a_list_of_ints": [[1, 2], [3, 4]],
    "ints_and_floats": [1, 2.5],
    "a_float64_array": np.array([1.0, 2.0]),
    "an_int64_array": np.array([1, 2], np.int64),
    "an_int8_array": np.array([1, 2], np.int8),
    "a_bool_array": np.array([True]),
    "an_empty_list": [],
    "an_empty_array": np.zeros([0, 2], np.float32),
    "a_numpy_scalar": np.float64(2.0),
    "none": None,
    "a_ragged_list": [[1, 2], [3]],
    "numbers_and_words": [1, "word"],
    "an_object": object(),
    "a_big_int": 2**31,
    "a_huge_int": 2**63,
    "a_set": {1.0},
}


def constant_of(value: Any) -> Case:
    return lambda: facts(tf.constant(value))


@makes_case
def dtype_facts(name: str) -> Any:
    dtype = tf.as_dtype(name)
    numbers = [dtype.is_floating, dtype.is_integer, dtype.is_bool, dtype.size]
    same = [dtype == getattr(tf, name), dtype is tf.as_dtype(getattr(tf, name))]
    return [dtype.name, repr(dtype), dtype.as_datatype_enum, numbers, same]


def case_constant_names_are_unique() -> Any:
    names = [tf.constant(1.0).name, tf.constant(1.0, name="Const").name]
    return [*names, tf.constant(1.0, name="const").name, tf.zeros([2]).name]


def case_constant_is_found_in_its_graph() -> Any:
    tensor = tf.constant(1.0, name="one")
    graph = tf.get_default_graph()
    result = graph.get_tensor_by_name("one:0")
    return [
        tensor.graph is graph,
        result is tensor,
        graph.get_operation_by_name("one").type,
    ]


DRAWS: dict[str, Case] = {
    "random_uniform": lambda: tf.random_uniform([200], seed=1),
    "random_normal": lambda: tf.random_normal([200], seed=1),
    "truncated_normal": lambda: tf.truncated_normal([200], seed=1),
    "random_uniform_initializer": lambda: tf.random_uniform_initializer(seed=1)([200]),
    "random_normal_initializer": lambda: tf.random_normal_initializer(seed=1)([200]),
    "truncated_normal_initializer": lambda: tf.truncated_normal_initializer(seed=1)(
        [200]
    ),
}


@makes_case
def drawn_twice_in_a_session(session: Any, draw: Case) -> Any:
    tensor = draw()
    first, second = session.run(tensor), session.run(tensor)
    return bool(np.array_equal(first, second))


@makes_case
def drawn_in_two_sessions(draw: Case) -> Any:
    tensor = draw()
    return bool(np.array_equal(run(tensor), run(tensor)))


@makes_case
def drawn_at_two_nodes(draw: Case) -> Any:
    first, other = run([draw(), draw()])
    return bool(np.array_equal(first, other))


@makes_case
def drawn_facts(draw: Case) -> Any:
    tensor = draw()
    return [static(tensor), len(set(run(tensor).tolist())) > 150]


def bounds(tensor: Any, low: float, high: float) -> Any:
    values = run(tensor)
    return bool((values >= low).all() and (values < high).all())


def case_set_random_seed_makes_graphs_alike_and_nodes_differ() -> Any:
    seen = []
    for _ in range(2):
        with tf.Graph().as_default():
            tf.set_random_seed(7)
            seen.append(run([tf.random_normal([4]), tf.random_normal([4])]))
    same = [np.array_equal(seen[0][k], seen[1][k]) for k in (0, 1)]
    return [*same, np.array_equal(seen[0][0], seen[0][1])]


def case_random_normal_without_a_seed_differs_between_sessions() -> Any:
    tensor = tf.random_normal([8])
    return bool(np.array_equal(run(tensor), run(tensor)))


def case_set_random_seed_changes_what_a_nodes_seed_gives() -> Any:
    seen = []
    for seed in (7, 8):
        with tf.Graph().as_default():
            tf.set_random_seed(seed)
            seen.append(run(tf.random_uniform([8], seed=1)))
    return bool(np.array_equal(seen[0], seen[1]))


def case_random_normal_has_the_moments_asked_for() -> Any:
    values = run(tf.random_normal([20000], mean=3.0, stddev=2.0, seed=4))
    return [abs(values.mean() - 3.0) < 0.1, abs(values.std() - 2.0) < 0.1]


def case_variables_from_one_seeded_initializer_are_alike() -> Any:
    start = tf.random_normal_initializer(seed=3)
    first = tf.get_variable("one", [3], initializer=start)
    other = tf.get_variable("other", [3], initializer=start)
    with initialized() as session:
        left, right = session.run([first, other])
    return bool(np.array_equal(left, right))


CASES: dict[str, Case] = {
    **{f"constant_of_{kind}": constant_of(value) for kind, value in VALUES.items()},
    **{f"as_dtype_of_{name}": dtype_facts(name) for name in DTYPES.split()},
    "as_dtype_of_a_numpy_type": lambda: tf.as_dtype(np.float64).name,
    "as_dtype_of_a_python_type": lambda: tf.as_dtype(float).name,
    "as_dtype_of_a_word": lambda: tf.as_dtype("word"),
    "as_dtype_of_none": lambda: tf.as_dtype(None),
    "dtype_as_numpy": lambda: tf.float32.as_numpy_dtype is np.float32,
    "constant_refuses_a_fraction_as_int": lambda: tf.constant(1.5, tf.int32),
    "constant_refuses_a_word_as_float": lambda: tf.constant("a", tf.float32),
    "constant_refuses_a_tensor": lambda: tf.constant(tf.constant(1.0)),
    "fill_refuses_a_vector": lambda: tf.fill([2], [1.0, 2.0]),
    "convert_to_tensor_refuses_none": lambda: tf.convert_to_tensor(None),
    "placeholder_of_no_dtype": lambda: tf.placeholder(None),
    "placeholder_of_a_bad_shape": lambda: tf.placeholder(tf.float32, ["a"]),
    "no_op_has_a_name": lambda: [tf.no_op().name, tf.no_op("rest").type],
    "group_has_a_name": lambda: tf.group(tf.no_op(), name="all").name,
    "group_refuses_numbers": lambda: tf.group(1.0),
    **{
        f"{name}_{reply}": about(draw)
        for name, draw in DRAWS.items()
        for reply, about in {
            "has_shape_dtype_and_name": drawn_facts,
            "differs_from_run_to_run": drawn_twice_in_a_session,
            "with_a_seed_begins_alike_in_each_session": drawn_in_two_sessions,
            "with_a_seed_is_alike_at_two_nodes": drawn_at_two_nodes,
        }.items()
    },
    "random_uniform_of_integers_lies_below_its_limit": lambda: bounds(
        tf.random_uniform([500], maxval=5, dtype=tf.int32), 0, 5
    ),
    "random_uniform_refuses_bool": lambda: tf.random_uniform([2], dtype=tf.bool),
    "random_uniform_of_float64": lambda: static(
        tf.random_uniform([2, 3], dtype=tf.float64, name="chance")
    ),
    "truncated_normal_stays_within_two_deviations": lambda: bounds(
        tf.truncated_normal([2000], mean=1.0, stddev=0.5), 0.0, 2.0
    ),
    "truncated_normal_initializer_stays_within_two_deviations": lambda: bounds(
        tf.truncated_normal_initializer(stddev=0.5)([2000]), -1.0, 1.0
    ),
    "random_normal_refuses_integers": lambda: tf.random_normal([2], dtype=tf.int32),
}


FACTS = {
    "constant_with_dtype": lambda: tf.constant([1, 2], tf.float64),
    "constant_with_shape": lambda: tf.constant(7.0, shape=[2, 2]),
    "constant_with_dtype_as_text": lambda: tf.constant(1, "float64"),
    "zeros_of_a_shape": lambda: tf.zeros([2, 3]),
    "zeros_of_integers": lambda: tf.zeros([2], tf.int32, name="none"),
    "zeros_of_a_scalar": lambda: tf.zeros([]),
    "zeros_of_strings": lambda: tf.zeros([1], tf.string),
    "ones_of_a_shape": lambda: tf.ones([2, 1]),
    "ones_of_bools": lambda: tf.ones([2], tf.bool),
    "fill_repeats_a_value": lambda: tf.fill([2, 2], 9.0),
    "fill_with_an_int": lambda: tf.fill([3], 9, name="nines"),
    "eye_is_the_unit_matrix": lambda: tf.eye(2),
    "eye_with_columns": lambda: tf.eye(2, 3, dtype=tf.int32),
    "range_to_a_limit": lambda: tf.range(4),
    "range_between": lambda: tf.range(2, 8, 3),
    "range_of_floats": lambda: tf.range(0.0, 1.0, 0.25),
    "range_backwards": lambda: tf.range(3, 0, -1),
    "range_that_is_empty": lambda: tf.range(3, 3),
    "range_takes_a_dtype": lambda: tf.range(3, dtype=tf.float32),
    "linspace_meets_both_ends": lambda: tf.linspace(0.0, 1.0, 5),
    "linspace_of_one": lambda: tf.linspace(2.0, 5.0, 1),
    "cast_to_int_cuts": lambda: tf.cast([1.7, -1.7], tf.int32),
    "cast_to_bool": lambda: tf.cast([0.0, 2.0], tf.bool),
    "cast_to_a_dtype_by_name": lambda: tf.cast([1, 2], "float64"),
    "to_float_of_integers": lambda: tf.to_float([1, 2]),
    "convert_to_tensor_with_dtype": lambda: tf.convert_to_tensor(
        [1, 2], dtype=tf.float32, name="made"
    ),
    "convert_to_tensor_with_preferred_dtype": lambda: tf.convert_to_tensor(
        [1], preferred_dtype=tf.float64
    ),
}


RUNS = {
    "ones_of_a_number": lambda: tf.ones(3),
    "fill_refuses_a_negative_size": lambda: tf.fill([-1], 1.0),
    "range_refuses_a_step_of_zero": lambda: tf.range(0, 3, 0),
    "range_refuses_the_wrong_direction": lambda: tf.range(3, 0, 1),
    "linspace_of_integers": lambda: tf.linspace(0, 4, 5),
    "linspace_of_no_numbers": lambda: tf.linspace(0.0, 1.0, 0),
    "cast_of_a_string_is_refused": lambda: tf.cast(["1"], tf.float32),
    "no_op_gives_none": lambda: tf.no_op(),
    "group_gives_none": lambda: tf.group(tf.no_op(), tf.constant(1.0)),
    "group_of_nothing": lambda: tf.group(),
    "group_takes_a_list": lambda: tf.group([tf.no_op(), tf.no_op()]),
}


STATICS = {
    "cast_takes_a_name": lambda: tf.cast([1], tf.int64, name="longer"),
    "placeholder_of_unknown_rank": lambda: tf.placeholder(tf.int32, name="fed"),
    "placeholder_takes_a_dtype_by_name": lambda: tf.placeholder("float64", shape=()),
}
