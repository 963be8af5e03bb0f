"""What sessions and clients of one cluster share; containers; isolation; reset."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from tests.tf1.servers import addresses, cluster


def count(tf: Any, value: Any = 0, task: str = "ps/task:0", **options: Any) -> Any:
    """Return a variable called `count` on a task, by default the first ps."""
    with tf.device(f"/job:{task}"):
        return tf.Variable(value, name="count", **options)


def initialised(tf: Any, value: Any, target: str, **options: Any) -> None:
    """Give `count` a value from a graph and a session of its own."""
    with tf.Graph().as_default():
        variable = count(tf, value, **options)
        with tf.Session(target) as session:
            session.run(variable.initializer)


def case_initialising_with_another_shape_is_refused(tf: Any) -> Any:
    target = cluster(tf, ps=1)["ps"][0].target
    initialised(tf, [1.0, 2.0, 3.0], target)
    variable = count(tf, [0.0, 0.0])
    with tf.Session(target) as session:
        session.run(variable.initializer)
        return session.run(variable)


def case_reading_with_another_dtype_is_refused(tf: Any) -> Any:
    target = cluster(tf, ps=1)["ps"][0].target
    initialised(tf, 5.0, target)
    variable = count(tf, 0)
    with tf.Session(target) as session:
        return session.run(variable)


def case_a_variable_on_a_worker_is_shared_as_well(tf: Any) -> Any:
    servers = cluster(tf, ps=1, worker=1)
    initialised(tf, 5, servers["worker"][0].target, task="worker/task:0")
    variable = count(tf, task="worker/task:0")
    with tf.Session(servers["ps"][0].target) as session:
        return session.run(variable)


def case_an_isolated_session_does_not_see_shared_values(tf: Any) -> Any:
    target = cluster(tf, ps=1)["ps"][0].target
    initialised(tf, 5, target)
    variable = count(tf)
    config = tf.ConfigProto(isolate_session_state=True)
    with tf.Session(target, config=config) as session:
        return session.run(variable)


def after_reset(containers: Any, container: str, is_same: bool) -> Callable[[Any], Any]:
    """Return a case that resets one master and then looks at the variable.

    The look is by the session that was open at the master that was reset, or else by
    one of another master.
    """

    def case(tf: Any) -> Any:
        servers = cluster(tf, ps=1, worker=2)
        left, two = (server.target for server in servers["worker"])
        with tf.container(container):
            variable = count(tf, 5)
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

    return case


CASES = {
    "a_reset_closes_the_sessions_of_its_master": after_reset([["mine"]], "mine", True),
    "a_reset_of_the_default_container": after_reset([], "", False),
    "a_reset_of_the_default_container_spares_the_named": after_reset([], "mine", False),
}


def case_a_reset_here_does_nothing(tf: Any) -> Any:
    return tf.Session.reset("")


def case_a_reset_of_an_unknown_target_is_refused(tf: Any) -> Any:
    return tf.Session.reset("moon")


def case_a_reset_of_nobody_ends_at_its_deadline(tf: Any) -> Any:
    config = tf.ConfigProto(operation_timeout_in_ms=100)
    return tf.Session.reset(f"grpc://{addresses(1)[0]}", config=config)
