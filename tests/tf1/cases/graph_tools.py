"""Tools for those who build graphs: messages of constants, static values, scopes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.look import Case, makes_case, names_of, run, tf


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
