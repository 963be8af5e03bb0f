"""What sessions and clients of one cluster share; containers; isolation; reset."""

from __future__ import annotations

import contextlib
from typing import Any

from tests.tf1.look import Case, makes_case, run, tf
from tests.tf1.servers import addresses, cluster


def count(value: Any = 0, task: str = "ps/task:0", name: str = "count") -> Any:
    """Return a variable called `count` on a task, by default the first ps."""
    with tf.device(f"/job:{task}"):
        return tf.Variable(value, name=name)


def initialised(value: Any, target: str, task: str = "ps/task:0") -> None:
    """Give `count` a value from a graph and a session of its own."""
    with tf.Graph().as_default():
        variable = count(value, task)
        with tf.Session(target) as session:
            session.run(variable.initializer)


@makes_case
def read_after(make: Case, value: Any = 5, is_isolated: bool = False) -> Any:
    """Return a case: what another program reads once `count` has a value."""
    target = cluster(ps=2)["ps"][0].target
    initialised(value, target)
    config = tf.ConfigProto(isolate_session_state=is_isolated)
    return run(make(), target=target, config=config)


def case_another_master_sees_the_value() -> Any:
    servers = cluster(ps=1, worker=2)
    left, two = (server.target for server in servers["worker"])
    variable = count(5)
    more = variable.assign_add(1)
    with tf.Session(left) as first, tf.Session(two) as second:
        first.run(variable.initializer)
        second.run(more)
        return first.run(variable), second.run(variable)


def case_initialising_with_another_shape_is_refused() -> Any:
    target = cluster(ps=1)["ps"][0].target
    initialised([1.0, 2.0, 3.0], target)
    variable = count([0.0, 0.0])
    with tf.Session(target) as session:
        session.run(variable.initializer)
        return session.run(variable)


def case_local_sessions_share_nothing(session: Any) -> Any:
    variable = tf.Variable(5)
    session.run(variable.initializer)
    return run(variable)


def case_a_second_initialiser_resets_for_all() -> Any:
    target = cluster(ps=1)["ps"][0].target
    variable = count(5)
    with tf.Session(target) as first, tf.Session(target) as two:
        first.run(variable.initializer)
        first.run(variable.assign_add(1))
        two.run(variable.initializer)
        return first.run(variable)


def case_a_variable_on_a_worker_is_shared_as_well() -> Any:
    servers = cluster(ps=1, worker=1)
    initialised(5, servers["worker"][0].target, task="worker/task:0")
    variable = count(task="worker/task:0")
    return run(variable, target=servers["ps"][0].target)


def case_a_change_on_the_ps_is_seen_by_all_workers() -> Any:
    servers = cluster(ps=1, worker=2)
    a = count(3.0)
    seen = []
    for task in (0, 1):
        with tf.device(f"/job:worker/task:{task}"):
            seen.append(a * 2.0)
    with tf.device("/job:worker/task:1"):
        gain = tf.constant(4.0) + 5.0
    change = a.assign_add(gain)
    targets = [server.target for server in servers["ps"] + servers["worker"]]
    result = []
    with tf.Session(targets[1]) as session:
        session.run(a.initializer)
        session.run(change)
    for target in targets:
        with tf.Session(target) as session:
            result.append(session.run([a, *seen]))
    return result


def case_two_clients_count_together() -> Any:
    target = cluster(ps=1)["ps"][0].target
    initialised(0, target)
    for _ in range(2):
        with tf.Graph().as_default():
            more = count().assign_add(1, use_locking=True)
            with tf.Session(target) as session:
                for _ in range(5):
                    session.run(more)
    variable = count()
    return run(variable, target=target)


def case_an_isolated_session_keeps_its_values_to_itself() -> Any:
    target = cluster(ps=1)["ps"][0].target
    variable = count(5)
    config = tf.ConfigProto(isolate_session_state=True)
    with tf.Session(target, config=config) as session:
        session.run(variable.initializer)
        result = session.run(variable)
    with tf.Session(target) as session:
        return result, session.run(tf.is_variable_initialized(variable))


def case_one_name_in_two_containers_is_two_variables() -> Any:
    target = cluster(ps=1)["ps"][0].target
    with tf.container("mine"):
        first = count(1)
    with tf.Session(target) as session:
        session.run(first.initializer)
    with tf.Graph().as_default():
        two = count(2)
        return run(tf.is_variable_initialized(two), target=target)


def case_a_container_is_left_after_its_block() -> Any:
    with tf.container("mine"), tf.container("inner"):
        a = tf.Variable(1)
    b = tf.Variable(1)
    return [tensor.op.get_attr("container").decode() for tensor in (a, b)]


@makes_case
def after_reset(containers: Any, container: str, is_same: bool) -> Any:
    """Return a case that resets one master and then looks at the variable.

    The look is by the session that was open at the master that was reset, or else by
    one of another master.
    """
    servers = cluster(ps=1, worker=2)
    left, two = (server.target for server in servers["worker"])
    with tf.container(container):
        variable = count(5)
    first, second = tf.Session(left), tf.Session(two)
    try:
        first.run(variable.initializer)
        second.run(variable)
        tf.Session.reset(left, *containers)
        return (first if is_same else second).run(variable)
    finally:
        for session in (first, second):
            with contextlib.suppress(tf.errors.AbortedError):  # it was reset
                session.close()


def case_a_new_session_works_after_a_reset() -> Any:
    target = cluster(ps=1)["ps"][0].target
    variable = count(5)
    with tf.Session(target) as session:
        session.run(variable.initializer)
    tf.Session.reset(target)
    with tf.Session(target) as session:
        before = session.run(tf.is_variable_initialized(variable))
        session.run(variable.initializer)
        return before, session.run(variable)


def case_a_reset_of_nobody_ends_at_its_deadline() -> Any:
    config = tf.ConfigProto(operation_timeout_in_ms=100)
    return tf.Session.reset(f"grpc://{addresses(1)[0]}", config=config)


def case_closing_a_session_that_was_reset() -> Any:
    target = cluster(ps=1)["ps"][0].target
    session = tf.Session(target)
    session.run(tf.constant(7))
    tf.Session.reset(target)
    return session.close()


CASES = {
    "a_reset_closes_the_sessions_of_its_master": after_reset([["mine"]], "mine", True),
    "a_reset_clears_the_container_for_other_masters": after_reset(
        [["mine"]], "mine", False
    ),
    "a_reset_of_the_default_container": after_reset([], "", False),
    "a_reset_of_another_container_clears_nothing": after_reset(
        [["moon"]], "mine", False
    ),
    "a_reset_of_an_unknown_container_closes_the_sessions": after_reset(
        [["moon"]], "mine", True
    ),
    "a_reset_of_the_default_container_spares_the_named": after_reset([], "mine", False),
    "a_reset_of_a_named_container_spares_the_default": after_reset(
        [["mine"]], "", False
    ),
    "a_reset_here_does_nothing": lambda: tf.Session.reset(""),
    "a_reset_of_an_unknown_target_is_refused": lambda: tf.Session.reset("moon"),
    "a_value_outlives_the_session_and_its_graph": read_after(count),
    "one_name_on_two_tasks_is_two_variables": read_after(
        lambda: tf.is_variable_initialized(count(task="ps/task:1"))
    ),
    "another_name_is_another_variable": read_after(lambda: count(name="other")),
    "a_value_of_another_shape_is_read_with_its_own": read_after(
        lambda: count([0.0, 0.0]), [1.0, 2.0, 3.0]
    ),
    "reading_with_another_dtype_is_refused": read_after(count, 5.0),
    "an_isolated_session_does_not_see_shared_values": read_after(
        count, is_isolated=True
    ),
}
