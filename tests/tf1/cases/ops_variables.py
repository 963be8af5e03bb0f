"""Variables and scopes as operations show them: assign, scatter, collections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import Case, inner, makes_case, names_of, run, started, static, tf

# One change of a variable that starts as [1, 2, 3]; the value after it is told too.
CHANGES: dict[str, Callable[[Any], Any]] = {
    "assign": lambda v: tf.assign(v, [7.0, 8.0, 9.0]),
    "assign_add": lambda v: tf.assign_add(v, [1.0, 1.0, 1.0]),
    "assign_sub": lambda v: tf.assign_sub(v, [1.0, 0.5, 0.0]),
    "assign_by_method": lambda v: v.assign([7.0, 8.0, 9.0]),
    "assign_add_by_method": lambda v: v.assign_add([1.0, 1.0, 1.0]),
    "assign_sub_by_method": lambda v: v.assign_sub([1.0, 0.5, 0.0]),
    "assign_of_a_number": lambda v: tf.assign(v, 1.0),
    "assign_add_of_a_number": lambda v: tf.assign_add(v, 1.0),
    "assign_of_another_shape": lambda v: tf.assign(v, [1.0]),
    "assign_of_another_shape_unchecked": lambda v: tf.assign(
        v, [1.0], validate_shape=False
    ),
    "assign_of_another_dtype": lambda v: tf.assign(v, tf.constant([1, 2, 3])),
    "assign_of_ints": lambda v: tf.assign(v, [4, 5, 6]),
    "assign_of_words": lambda v: tf.assign(v, ["a", "b", "c"]),
    "assign_of_none": lambda v: tf.assign(v, None),
    "scatter_add": lambda v: tf.scatter_add(v, [0, 2, 0], [1.0, 10.0, 100.0]),
    "scatter_add_at_one_place": lambda v: tf.scatter_add(v, 1, 5.0),
    "scatter_update": lambda v: tf.scatter_update(v, [2, 0], [30.0, 10.0]),
    "assign_add_to_an_assign": lambda v: tf.assign_add(
        tf.assign(v, [7.0, 8.0, 9.0]), [1.0, 1.0, 1.0]
    ),
    "scatter_add_to_an_assign_sub": lambda v: tf.scatter_add(
        tf.assign_sub(v, [1.0, 0.5, 0.0]), [0, 2], [1.0, 10.0]
    ),
    "scatter_add_out_of_range": lambda v: tf.scatter_add(v, [3], [1.0]),
    "scatter_update_out_of_range": lambda v: tf.scatter_update(v, [-1], [1.0]),
    "scatter_add_of_other_sizes": lambda v: tf.scatter_add(v, [0, 1], [1.0] * 3),
    "scatter_add_at_fractions": lambda v: tf.scatter_add(v, [0.0], [1.0]),
    "scatter_update_of_another_dtype": lambda v: tf.scatter_update(
        v, [0], tf.constant([1])
    ),
    "scatter_update_of_nothing": lambda v: tf.scatter_update(
        v, np.zeros([0], np.int32), np.zeros([0], np.float32)
    ),
}

# Uses that need a value; each is tried on a variable that has none.
USES: dict[str, Callable[[Any], Any]] = {
    "read": lambda v: v,
    "read_by_method": lambda v: v.read_value(),
    "arithmetic": lambda v: v + 1.0,
    "assign": lambda v: v.assign([4.0, 5.0, 6.0]),
    "assign_add": lambda v: tf.assign_add(v, [1.0, 1.0, 1.0]),
    "assign_sub": lambda v: tf.assign_sub(v, [1.0, 1.0, 1.0]),
    "scatter_add": lambda v: tf.scatter_add(v, [0], [1.0]),
    "is_variable_initialized": lambda v: tf.is_variable_initialized(v),
    "assign_add_to_an_assign": lambda v: tf.assign_add(
        tf.assign(v, [4.0, 5.0, 6.0]), [1.0, 1.0, 1.0]
    ),
    "is_variable_initialized_of_an_assign": lambda v: tf.is_variable_initialized(
        tf.assign(v, [4.0, 5.0, 6.0])
    ),
    "report_uninitialized_variables": lambda v: tf.report_uninitialized_variables(),
}

INITIALIZERS: dict[str, Case] = {
    "zeros": lambda: tf.zeros_initializer(),
    "ones": lambda: tf.ones_initializer(),
    "a_constant": lambda: tf.constant_initializer(2.5),
    "constants": lambda: tf.constant_initializer([1.0, 2.0, 3.0, 4.0]),
    "too_few_constants": lambda: tf.constant_initializer([1.0, 2.0]),
    "too_many_constants": lambda: tf.constant_initializer([1.0] * 9),
    "no_initializer_but_a_function": lambda: (
        lambda shape, dtype=None, partition_info=None: tf.ones(shape) * 3.0
    ),
}


@makes_case
def changed(session: Any, change: Callable[[Any], Any]) -> Any:
    variable = tf.Variable([1.0, 2.0, 3.0], name="v")
    result = change(variable)
    session.run(variable.initializer)
    return [static(result), session.run(result), session.run(variable)]


def used_too_early(use: Callable[[Any], Any]) -> Case:
    return lambda: run(use(tf.Variable([1.0, 2.0, 3.0], name="v")))


@makes_case
def initialised(make: Case, dtype: str) -> Any:
    options = {"initializer": make(), "dtype": getattr(tf, dtype)}
    variable = tf.get_variable("v", [2, 2], **options)
    return [static(variable), started(variable)]


def case_report_uninitialized_variables_names_them(session: Any) -> Any:
    tensor = tf.Variable(1.0, name="one")
    tf.Variable(1.0, name="two")
    tf.Variable(1.0, name="near", collections=[tf.GraphKeys.LOCAL_VARIABLES])
    report = tf.report_uninitialized_variables()
    seen = [session.run(report)]
    for step in (
        tensor.initializer,
        tf.variables_initializer([tensor]),
        tf.global_variables_initializer(),
        tf.local_variables_initializer(),
    ):
        session.run(step)
        seen.append(session.run(report))
    return seen


def case_variables_are_in_their_collections() -> Any:
    tf.Variable(1.0, name="a")
    tf.Variable(1.0, name="b", trainable=False)
    tf.Variable(1, name="c")
    tf.get_variable("d", [], trainable=False)
    tf.get_variable("e", [], collections=[tf.GraphKeys.LOCAL_VARIABLES])
    lists = [tf.global_variables(), tf.trainable_variables(), tf.local_variables()]
    return [names_of(variables) for variables in lists]


def case_initialized_value_makes_an_order() -> Any:
    first = tf.Variable([1.0, 2.0], name="one")
    other = tf.Variable(first.initialized_value() * 2.0, name="other")
    return started([first, other])


def case_load_puts_a_value(session: Any) -> Any:
    variable = tf.Variable([1.0, 2.0])
    variable.load([5.0, 6.0], session)
    return [session.run(variable), variable.eval(session)]


def case_feeding_a_variable_leaves_its_value(session: Any) -> Any:
    variable = tf.Variable([1.0, 2.0])
    double = variable * 2.0
    session.run(variable.initializer)
    return session.run(double, {variable: [5.0, 6.0]}), session.run(double)


def case_assign_add_counts(session: Any) -> Any:
    count = tf.Variable(0, name="count")
    step = tf.assign_add(count, 1, use_locking=True, name="next")
    session.run(count.initializer)
    return [session.run(step) for _ in range(3)] + [step.name]


def case_variable_tells_its_parts() -> Any:
    variable = tf.Variable([[1.0, 2.0]], name="weights")
    parts = [variable.initializer, variable.initial_value, variable.value()]
    return [
        static(variable),
        variable.op.name,
        names_of(parts),
        variable.shape.as_list(),
        variable.trainable,
    ]


@makes_case
def temporary(use: Callable[[Any], Any]) -> Any:
    """Return a case of the module that makes variables of one run."""
    return use(inner("python.ops.gen_state_ops"))


def temporary_in_two_runs(ops: Any) -> Any:
    first = ops.temporary_variable([1, 2], tf.float32, var_name="t")
    made = tf.assign_add(tf.assign(first, [[4.0, 5.0]]), [[6.0, 7.0]])
    last = ops.destroy_temporary_variable(made, var_name="t")
    parts = [first.op.type, first.dtype.name, static(first), static(last)]
    with tf.Session() as session:
        return [*parts, session.run(last), session.run(last)]


def temporary_twice(ops: Any) -> Any:
    made = [ops.temporary_variable([2], tf.float32, var_name="t") for _ in range(2)]
    return run(tf.add(*[tf.assign(item, [1.0, 2.0]) for item in made]))


def temporary_destroyed_twice(ops: Any) -> Any:
    made = ops.temporary_variable([2], tf.float32, var_name="t")
    first, second = (ops.destroy_temporary_variable(made, "t") for _ in range(2))
    return run(first + second)


def temporary_named_by_its_operation(ops: Any) -> Any:
    made = tf.assign(ops.temporary_variable([2], tf.int32, name="t"), [1, 2])
    return run(ops.destroy_temporary_variable(made, "t", name="last"))


def temporary_of_another_name(ops: Any) -> Any:
    made = ops.temporary_variable([2], tf.float32, var_name="t")
    return run(ops.destroy_temporary_variable(made, "u"))


def temporary_that_stays(ops: Any) -> Any:
    both = [ops.temporary_variable([1, 2], tf.float32, name) for name in "tu"]
    with tf.Session() as session:
        return [session.run(tf.add(*both)).shape for _ in range(2)]


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


CASES: dict[str, Case] = {
    **{
        f"{name}_changes_a_variable": changed(change)
        for name, change in CHANGES.items()
    },
    **{
        f"{name}_before_initialisation": used_too_early(use)
        for name, use in USES.items()
    },
    **{
        f"initializer_of_{name}_as_{dtype}": initialised(make, dtype)
        for name, make in INITIALIZERS.items()
        for dtype in ("float32", "float64")
    },
    "variable_of_no_value": lambda: tf.Variable(),
    "variable_of_none": lambda: tf.Variable(None),
    "initializers_have_names": lambda: [
        (tf.Variable(1.0), tf.global_variables_initializer())[1].name,
        tf.local_variables_initializer().name,
        tf.variables_initializer(tf.global_variables(), name="start").name,
    ],
    "assign_refuses_a_tensor": lambda: tf.assign(tf.constant(1.0), 2.0),
    "a_temporary_variable_lasts_for_a_run": temporary(temporary_in_two_runs),
    "two_temporary_variables_of_one_name": temporary(temporary_twice),
    "a_temporary_variable_ends_once": temporary(temporary_destroyed_twice),
    "a_temporary_variable_is_named_by_its_operation": temporary(
        temporary_named_by_its_operation
    ),
    "a_temporary_variable_of_another_name": temporary(temporary_of_another_name),
    "temporary_variables_may_stay": temporary(temporary_that_stays),
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
