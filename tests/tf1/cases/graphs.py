"""Graph: names, scopes, collections, dependencies; tools for those who build one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import Case, makes_case, names_of, run, tf


def named(name: Any) -> Case:
    return lambda: tf.constant(1, name=name).name


NAMES = {
    "a_word": "a",
    "a_path": "a/b",
    "digits_first": "1a",
    "a_dot_first": ".a",
    "dots_dashes_and_slashes": "a.b-c\\d/e_f",
    "an_underscore_first": "_a",
    "a_dash_first": "-a",
    "a_slash_first": "/a",
    "a_slash_last": "a/",
    "a_space": "a b",
    "a_colon": "a:0",
    "an_empty_word": "",
    "none": None,
    "an_umlaut": "ä",
    "a_star": "a*",
    "a_greater_sign": "a>b",
}


def case_a_collection_is_copied() -> Any:
    tf.add_to_collection("mine", 1)
    tf.get_collection("mine").append(2)
    return tf.get_collection("mine")


def case_a_collection_by_reference_is_the_collection() -> Any:
    tf.get_collection_ref("mine").append(2)
    return tf.get_collection("mine")


def case_a_collection_is_cleared() -> Any:
    tf.add_to_collection("mine", 1)
    tf.get_default_graph().clear_collection("mine")
    return tf.get_collection("mine")


def case_each_graph_has_its_own_collections() -> Any:
    tf.add_to_collection("mine", 1)
    with tf.Graph().as_default():
        return tf.get_collection("mine")


def case_an_operation_tells_of_itself() -> Any:
    a, b = tf.constant(1.0, name="a"), tf.constant(2.0, name="b")
    with tf.control_dependencies([b]):
        total = tf.add(a, a, name="total")
    op = total.op
    return {
        "name": op.name,
        "type": op.type,
        "inputs": names_of(op.inputs),
        "outputs": names_of(op.outputs),
        "control_inputs": names_of(op.control_inputs),
        "device": op.device,
        "is_own": op.graph is tf.get_default_graph(),
        "consumers": names_of(a.consumers()),
    }


def case_a_tensor_tells_of_itself() -> Any:
    tensor = tf.placeholder(tf.float32, [None, 3], name="x")
    return {
        "name": tensor.name,
        "dtype": tensor.dtype.name,
        "shape": tensor.shape.as_list(),
        "ndims": tensor.shape.ndims,
        "value_index": tensor.value_index,
        "op": tensor.op.name,
        "device": tensor.device,
        "str": str(tensor),
    }


def case_a_tensor_of_unknown_shape_prints() -> Any:
    return str(tf.placeholder(tf.int64, name="x")), str(tf.constant("a", name="y"))


def case_a_finalized_graph_takes_nothing_new() -> Any:
    tf.get_default_graph().finalize()
    return tf.constant(1)


def case_the_inner_default_graph_counts() -> Any:
    outer, inner = tf.get_default_graph(), tf.Graph()
    with inner.as_default():
        a = tf.constant(1)
    return a.graph is inner, tf.constant(1).graph is outer


def case_tensors_of_two_graphs_cannot_meet() -> Any:
    a = tf.constant(1)
    with tf.Graph().as_default():
        return a + tf.constant(2)


def case_a_dependency_that_is_an_input_is_not_doubled() -> Any:
    a = tf.constant(1, name="a")
    with tf.control_dependencies([a]):
        return names_of(tf.identity(a).op.control_inputs)


def case_a_dependency_of_another_graph_is_refused() -> Any:
    with tf.Graph().as_default():
        stranger = tf.constant(1)
    with tf.control_dependencies([stranger]):
        return tf.no_op().name


def case_a_group_of_nothing_is_an_operation(session: Any) -> Any:
    return tf.group().name, session.run(tf.group())


@makes_case
def scoped(name: Any) -> Any:
    with tf.name_scope(name) as scope:
        return scope, tf.constant(1, name="c").name


def case_a_name_that_is_taken_gets_a_number() -> Any:
    return [tf.constant(1, name="a").name for _ in range(3)]


def case_a_number_that_is_taken_is_left_out() -> Any:
    return [tf.constant(1, name=name).name for name in ("a", "a_1", "a", "a_1")]


def case_a_scope_and_an_operation_share_their_names() -> Any:
    tensor = tf.constant(1, name="x")
    with tf.name_scope("x") as scope:
        return tensor.name, scope, tf.constant(1, name="x").name


def case_a_scope_is_entered_again_by_its_path() -> Any:
    with tf.name_scope("x") as scope:
        tf.constant(1, name="c")
    with tf.name_scope(scope) as again:
        return again, tf.constant(1, name="c").name, tf.constant(1, name="d").name


def case_unique_name_reserves() -> Any:
    graph = tf.get_default_graph()
    first = graph.unique_name("a", mark_as_used=False)
    return first, graph.unique_name("a"), graph.unique_name("a"), tf.no_op("a").name


LOOKUPS: dict[str, Callable[[Any, Any], Any]] = {
    "a_tensor": lambda graph, a: graph.get_tensor_by_name("x/a:0") is a,
    "an_operation": lambda graph, a: graph.get_operation_by_name("x/a") is a.op,
    "an_element_that_is_a_tensor": lambda graph, a: (
        graph.as_graph_element("x/a:0") is a
    ),
    "an_element_that_is_an_operation": lambda graph, a: (
        graph.as_graph_element("x/a") is a.op
    ),
    "an_element_that_is_itself": lambda graph, a: graph.as_graph_element(a) is a,
    "an_unknown_tensor": lambda graph, a: graph.get_tensor_by_name("moon:0"),
    "an_unknown_operation": lambda graph, a: graph.get_operation_by_name("moon"),
    "a_tensor_by_the_name_of_an_operation": lambda graph, a: graph.get_tensor_by_name(
        "x/a"
    ),
    "an_operation_by_the_name_of_a_tensor": lambda graph, a: (
        graph.get_operation_by_name("x/a:0")
    ),
    "an_output_that_does_not_exist": lambda graph, a: graph.get_tensor_by_name("x/a:1"),
    "a_name_in_another_case": lambda graph, a: graph.get_tensor_by_name("x/A:0"),
    "an_int_as_a_tensor": lambda graph, a: graph.get_tensor_by_name(3),
    "an_int_as_an_operation": lambda graph, a: graph.get_operation_by_name(3),
    "an_int_as_an_element": lambda graph, a: graph.as_graph_element(3),
}


@makes_case
def looked_up(look: Callable[[Any, Any], Any]) -> Any:
    with tf.name_scope("x"):
        a = tf.constant(1, name="a")
    return look(tf.get_default_graph(), a)


@makes_case
def message(values: Any, **how: Any) -> Any:
    made = tf.make_tensor_proto(values, **how)
    again = tf.make_ndarray(made)
    sizes = [array.size for array in made.tensor_shape.dim]
    parts = [again.real, again.imag] if again.dtype.kind == "c" else again
    return [made.dtype, sizes, made.tensor_content, parts]


@makes_case
def static_value(make: Case, **how: Any) -> Any:
    value = tf.get_static_value(make(), **how)
    return None if value is None else np.asarray(value)


def fed() -> Any:
    return tf.placeholder(tf.float32, [2])


def case_a_stack_is_known_in_part() -> Any:
    parts = tf.get_static_value(tf.stack([[1.0, 2.0], fed()]), partial=True)
    return [parts[0], parts[1]]


def case_what_is_a_tensor() -> Any:
    tensor = [tf.constant(1), tf.Variable(1), np.ones(2), 1, [tf.constant(1)]]
    return [tf.is_tensor(item) for item in tensor]


def case_initial_values_wait_for_nothing() -> Any:
    with tf.control_dependencies([tf.no_op(name="before")]), tf.name_scope("inner"):
        with tf.init_scope():
            lifted = tf.constant(1.0)
        waiting = tf.constant(1.0)
    waits = [names_of(x.op.control_inputs) for x in (lifted, waiting)]
    return [lifted.name, waiting.name, waits]


def case_references_are_keys() -> Any:
    x, y, v = tf.constant(1.0), tf.constant(1.0), tf.Variable(1.0)
    names = {x.experimental_ref(): "x", v.experimental_ref(): "v"}
    return [
        names[x.experimental_ref()],
        names[v.experimental_ref()],
        y.experimental_ref() in names,
        x.experimental_ref().deref() is x,
    ]


def case_an_operation_by_its_type() -> Any:
    graph = tf.get_default_graph()
    op = graph.create_op("Add", [tf.constant(1.0), tf.constant(2.0)], [tf.float32])
    return [op.name, run(op.outputs[0])]


def case_threads_have_scopes_of_their_own() -> Any:
    return tf.get_default_graph().switch_to_thread_local()


def case_rows_can_be_negated() -> Any:
    rows = -tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]), tf.constant([2]))
    return run([rows.values, rows.indices, rows.dense_shape])


def case_sizes_are_texts_too() -> Any:
    size = tf.Dimension("12")
    return [size.value, size == "12", tf.TensorShape(["3", None]).as_list()]


def case_a_type_by_its_number() -> Any:
    return [tf.DType(number).name for number in (1, 3, 7, 101)]


CASES: dict[str, Case] = {
    **{f"an_operation_called_{key}": named(name) for key, name in NAMES.items()},
    **{f"a_scope_called_{key}": scoped(name) for key, name in NAMES.items()},
    **{f"look_up_{name}": looked_up(look) for name, look in LOOKUPS.items()},
    "an_unknown_collection_is_empty": lambda: tf.get_collection("moon"),
    "message_of_a_number": message(10.0),
    "message_of_some_numbers": message([10.0, 20.0]),
    "message_of_numbers_in_another_type": message([10, 20], dtype="float64"),
    "message_of_an_array": message(np.array([[1, 2]], np.int16)),
    "message_of_halves": message(np.array([1.5, 2.5], np.float16)),
    "message_of_complex_numbers": message(np.array([1 + 2j, 3 - 1j])),
    "message_of_truths": message([True, False, True]),
    "message_of_texts": message(["a", b"b"]),
    "message_in_a_shape": message([1, 2, 3, 4], shape=[2, 2]),
    "message_of_too_few": message([1, 2], shape=[2, 2]),
    "message_of_too_many": message([1, 2, 3], shape=[2]),
    "message_of_another_shape": message([1, 2], shape=[1, 2], verify_shape=True),
    "message_of_nothing": message(None),
    "message_of_unequal_rows": message([[1, 2], [3]]),
    "known_constant": static_value(lambda: tf.constant([1.0, 2.0])),
    "known_large_cast": static_value(lambda: tf.cast(np.ones((30, 30), "f"), tf.int32)),
    "known_shape": static_value(lambda: tf.shape(fed())),
    "known_fill": static_value(lambda: tf.fill([3], 2.0)),
    "unknown_value": static_value(fed),
    "unknown_variable": static_value(lambda: tf.Variable(1.0)),
    "known_number": static_value(lambda: 3),
}
