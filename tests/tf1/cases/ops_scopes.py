"""Variable scopes, name scopes, collections and defaults, as an operation sees them."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import makes_case, names_of, run, tf


@makes_case
def reused_with_another(shape: list[int], dtype: str) -> Any:
    tf.get_variable("w", [2])
    with tf.variable_scope("", reuse=True):
        return tf.get_variable("w", shape, dtype=getattr(tf, dtype)).name


def case_variable_scope_without_a_name_counts() -> Any:
    names = []
    for _ in range(2):
        with tf.variable_scope(None, default_name="layer"):
            names.append(tf.get_variable("w", [1]).name)
    return names


def case_name_scope_nests_and_counts() -> Any:
    names = []
    with tf.name_scope("a") as outer, tf.name_scope("b"):
        names += [outer, tf.zeros([1], name="z").name, tf.Variable(1.0).name]
    with tf.name_scope("a") as again:
        names += [again, tf.zeros([1], name="z").name]
    with tf.name_scope(outer):
        names += [tf.zeros([1], name="y").name]
    with tf.name_scope(None), tf.name_scope("c", "default", [1.0]) as last:
        return [*names, last]


def collections() -> Any:
    tf.add_to_collection("things", 1)
    tf.add_to_collection("things", "two")
    tf.add_to_collection("things", 1)
    graph = tf.get_default_graph()
    result = tf.get_collection("things")
    result.append("mine")
    return [tf.get_collection("things"), tf.get_collection("no"), graph.collections]


def case_collections_are_read_by_scope() -> Any:
    with tf.variable_scope("a"):
        tf.get_variable("w", [1])
    tf.get_variable("ab", [1])
    key = tf.GraphKeys.GLOBAL_VARIABLES
    scopes = [None, "a", "a/", "b"]
    return [names_of(tf.get_collection(key, scope=scope)) for scope in scopes]


def case_control_dependencies_are_undone_by_none() -> Any:
    first = tf.no_op("first")
    with tf.control_dependencies([first]):
        inside = tf.constant(1.0).op.control_inputs
        with tf.control_dependencies(None):
            outside = tf.constant(1.0).op.control_inputs
        with tf.control_dependencies([tf.no_op("second")]):
            both = tf.constant(1.0).op.control_inputs
    return [names_of(ops) for ops in (inside, outside, both)]


def case_defaults_are_restored() -> Any:
    graph = tf.Graph()
    with graph.as_default():
        inside = [tf.get_default_graph() is graph, tf.constant(1.0).graph is graph]
    session = tf.Session()
    with session:
        inside.append(tf.get_default_session() is session)
    return [*inside, tf.get_default_graph() is graph, tf.get_default_session()]


def case_interactive_session_is_the_default() -> Any:
    session = tf.InteractiveSession()
    try:
        seen = [tf.constant(4.0).eval(), tf.get_default_session() is session]
    finally:
        session.close()
    return [*seen, tf.get_default_session()]


CASES = {
    "get_variable_reused_with_another_shape": reused_with_another([3], "float32"),
    "get_variable_reused_with_another_dtype": reused_with_another([2], "float64"),
    "get_variable_that_is_not_there_to_reuse": lambda: [
        tf.get_variable("w", [1]) for _ in [tf.get_variable_scope().reuse_variables()]
    ],
    "get_variable_without_a_shape": lambda: tf.get_variable("w"),
    "get_variable_with_an_unknown_size": lambda: tf.get_variable("w", [None, 2]),
    "get_variable_from_a_tensor_and_a_shape": lambda: tf.get_variable(
        "w", [2], initializer=tf.constant([1.0, 2.0])
    ),
    "variable_scope_of_none_is_refused": lambda: tf.variable_scope(None).__enter__(),
    "variable_scope_of_a_number_is_refused": lambda: tf.variable_scope(3).__enter__(),
    "name_scope_of_a_bad_name_is_refused": lambda: tf.name_scope("a b").__enter__(),
    "collections_keep_what_is_added": lambda: [
        collection if isinstance(collection, list) else sorted(collection)
        for collection in collections()
    ],
    "control_dependencies_refuse_numbers": lambda: [
        tf.no_op() for _ in [tf.control_dependencies([1.0]).__enter__()]
    ],
    "eval_without_a_session_is_refused": lambda: tf.constant(1.0).eval(),
    "names_are_compared_without_case": lambda: [
        tf.no_op(name).name for name in ("Rest", "rest", "REST", "Rest_1")
    ],
    "a_name_that_is_no_name_is_refused": lambda: tf.constant(1.0, name="a b"),
    "a_name_may_end_in_a_slash": lambda: tf.no_op("rest/").name,
    "a_session_takes_the_graph_it_is_given": lambda: run(
        tf.get_default_graph().get_tensor_by_name(tf.constant(3.0).name)
    ),
}
