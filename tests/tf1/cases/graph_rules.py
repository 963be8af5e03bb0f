"""Graph: default graphs, finalizing, control dependencies, tensors and operations."""

from __future__ import annotations

import threading
from typing import Any

from tests.tf1.look import initialized, run


def case_operations_stand_in_the_order_of_their_making(tf: Any) -> Any:
    tf.constant(1, name="b")
    tf.constant(1, name="a")
    tf.no_op(name="c")
    return [op.name for op in tf.get_default_graph().get_operations()]


def case_an_operation_tells_of_itself(tf: Any) -> Any:
    a, b = tf.constant(1.0, name="a"), tf.constant(2.0, name="b")
    with tf.control_dependencies([b]):
        total = tf.add(a, a, name="total")
    op = total.op
    return {
        "name": op.name,
        "type": op.type,
        "inputs": [one.name for one in op.inputs],
        "outputs": [one.name for one in op.outputs],
        "control_inputs": [one.name for one in op.control_inputs],
        "device": op.device,
        "is_own": op.graph is tf.get_default_graph(),
        "consumers": [one.name for one in a.consumers()],
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


def case_the_truth_of_a_tensor_is_refused(tf: Any) -> Any:
    return bool(tf.constant(True))


def case_a_tensor_as_a_condition_is_refused(tf: Any) -> Any:
    return "yes" if tf.constant(1) > 0 else "no"


def case_a_tensor_cannot_be_iterated(tf: Any) -> Any:
    return list(tf.constant([1, 2]))


def case_a_tensor_has_no_length(tf: Any) -> Any:
    return len(tf.constant([1, 2]))


def case_tensors_are_compared_by_identity(tf: Any) -> Any:
    a, b = tf.constant(1), tf.constant(1)
    return a == a, a == b, a != b, len({a, b, a}), a in [b]


def case_a_tensor_is_no_index(tf: Any) -> Any:
    return [1, 2, 3][tf.constant(1)]


def case_a_finalized_graph_takes_nothing_new(tf: Any) -> Any:
    tf.get_default_graph().finalize()
    return tf.constant(1)


def case_a_finalized_graph_runs(tf: Any) -> Any:
    graph = tf.get_default_graph()
    seven = tf.constant(7)
    before = graph.finalized
    graph.finalize()
    with tf.Session() as session:
        return before, graph.finalized, session.run(seven)


def case_operators_on_a_finalized_graph_are_refused(tf: Any) -> Any:
    seven = tf.constant(7)
    tf.get_default_graph().finalize()
    return seven + 1


def case_the_inner_default_graph_counts(tf: Any) -> Any:
    outer, inner = tf.get_default_graph(), tf.Graph()
    with inner.as_default():
        a = tf.constant(1)
    return a.graph is inner, tf.constant(1).graph is outer


def case_the_default_graph_returns_after_an_error(tf: Any) -> Any:
    outer = tf.get_default_graph()
    try:
        with tf.Graph().as_default():
            raise KeyError("mine")
    except KeyError:
        return tf.get_default_graph() is outer


def case_a_default_graph_belongs_to_a_thread(tf: Any) -> Any:
    graph, found = tf.get_default_graph(), []
    thread = threading.Thread(
        target=lambda: found.append(tf.get_default_graph() is graph)
    )
    thread.start()
    thread.join()
    return found


def case_tensors_of_two_graphs_cannot_meet(tf: Any) -> Any:
    a = tf.constant(1)
    with tf.Graph().as_default():
        return a + tf.constant(2)


def case_what_an_operation_depends_on_runs_before_it(tf: Any) -> Any:
    count = tf.Variable(1)
    more = count.assign_add(10)
    with tf.control_dependencies([more]):
        seen = tf.identity(count.read_value())
    with tf.Session() as session:
        session.run(count.initializer)
        return session.run(seen), session.run(seen)


def case_an_operation_runs_although_only_depended_on(tf: Any) -> Any:
    count = tf.Variable(1)
    with tf.control_dependencies([count.assign_add(10).op]):
        nothing = tf.no_op()
    with tf.Session() as session:
        session.run(count.initializer)
        session.run(nothing)
        return session.run(count)


def case_dependencies_add_up_and_none_clears_them(tf: Any) -> Any:
    a, b = tf.constant(1, name="a"), tf.constant(2, name="b")
    with tf.control_dependencies([a]):
        with tf.control_dependencies([b.op]):
            both = tf.no_op(name="both")
        with tf.control_dependencies(None):
            neither = tf.no_op(name="neither")
        one = tf.no_op(name="one")
    ops = both, neither, one
    return [sorted(dep.name for dep in op.control_inputs) for op in ops]


def case_a_dependency_that_is_an_input_is_not_doubled(tf: Any) -> Any:
    a = tf.constant(1, name="a")
    with tf.control_dependencies([a]):
        return [one.name for one in tf.identity(a).op.control_inputs]


def case_a_variable_may_be_depended_on(tf: Any) -> Any:
    variable = tf.Variable(1, name="v")
    with tf.control_dependencies([variable]):
        return len(tf.no_op().control_inputs)


def case_a_dependency_that_is_an_int_is_refused(tf: Any) -> Any:
    with tf.control_dependencies([3]):
        return tf.no_op().name


def case_a_dependency_of_another_graph_is_refused(tf: Any) -> Any:
    with tf.Graph().as_default():
        stranger = tf.constant(1)
    with tf.control_dependencies([stranger]):
        return tf.no_op().name


def case_a_group_waits_for_all(tf: Any) -> Any:
    one, two = tf.Variable(0), tf.Variable(0)
    both = tf.group(one.assign_add(1), two.assign_add(2), name="both")
    with initialized(tf) as session:
        found = session.run(both)
        return both.name, found, session.run([one, two])


def case_a_group_of_nothing_is_an_operation(tf: Any) -> Any:
    with tf.Session() as session:
        return tf.group().name, session.run(tf.group())


def case_dependencies_hold_between_tasks(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    count = tf.Variable(1)
    more = count.assign_add(10)
    with tf.control_dependencies([more]):
        seen = tf.identity(count.read_value())
    with tf.Session(server.target) as session:
        session.run(count.initializer)
        return session.run(seen), session.run(seen)


def case_one_node_that_cannot_be_placed_breaks_all_runs(tf: Any) -> Any:
    seven = tf.constant(7)
    with tf.device("/job:moon/task:0"):
        tf.constant(8)
    return run(tf, seven)


def case_an_interactive_session_does_not_mind_what_it_does_not_run(tf: Any) -> Any:
    seven = tf.constant(7)
    with tf.device("/job:moon/task:0"):
        tf.constant(8)
    session = tf.InteractiveSession()
    try:
        return session.run(seven)
    finally:
        session.close()
