"""Graph: default graphs, finalizing, control dependencies, tensors and operations."""

from __future__ import annotations

from typing import Any


def case_an_operation_tells_of_itself(tf: Any) -> Any:
    a, b = tf.constant(1.0, name="a"), tf.constant(2.0, name="b")
    with tf.control_dependencies([b]):
        total = tf.add(a, a, name="total")
    op = total.op
    return {
        "name": op.name,
        "type": op.type,
        "inputs": [item.name for item in op.inputs],
        "outputs": [output.name for output in op.outputs],
        "control_inputs": [control_input.name for control_input in op.control_inputs],
        "device": op.device,
        "is_own": op.graph is tf.get_default_graph(),
        "consumers": [consumer.name for consumer in a.consumers()],
    }


def case_a_tensor_tells_of_itself(tf: Any) -> Any:
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


def case_a_tensor_of_unknown_shape_prints(tf: Any) -> Any:
    return str(tf.placeholder(tf.int64, name="x")), str(tf.constant("a", name="y"))


def case_a_finalized_graph_takes_nothing_new(tf: Any) -> Any:
    tf.get_default_graph().finalize()
    return tf.constant(1)


def case_the_inner_default_graph_counts(tf: Any) -> Any:
    outer, inner = tf.get_default_graph(), tf.Graph()
    with inner.as_default():
        a = tf.constant(1)
    return a.graph is inner, tf.constant(1).graph is outer


def case_tensors_of_two_graphs_cannot_meet(tf: Any) -> Any:
    a = tf.constant(1)
    with tf.Graph().as_default():
        return a + tf.constant(2)


def case_a_dependency_that_is_an_input_is_not_doubled(tf: Any) -> Any:
    a = tf.constant(1, name="a")
    with tf.control_dependencies([a]):
        return [
            control_input.name for control_input in tf.identity(a).op.control_inputs
        ]


def case_a_dependency_of_another_graph_is_refused(tf: Any) -> Any:
    with tf.Graph().as_default():
        stranger = tf.constant(1)
    with tf.control_dependencies([stranger]):
        return tf.no_op().name


def case_a_group_of_nothing_is_an_operation(tf: Any) -> Any:
    with tf.Session() as session:
        return tf.group().name, session.run(tf.group())
