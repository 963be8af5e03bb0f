"""A session's config may bring the cluster: servers are tasks of its `cluster_def`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def local(tf: Any, n: int) -> list[Any]:
    """Return servers that know of no other task, and so none of the others."""
    return [tf.train.Server.create_local_server() for _ in range(n)]


def places(servers: list[Any]) -> list[str]:
    return [one.target[len("grpc://") :] for one in servers]


def config(tf: Any, jobs: dict[str, Any], **options: Any) -> Any:
    spec = tf.train.ClusterSpec(jobs)
    return tf.ConfigProto(cluster_def=spec.as_cluster_def(), **options)


def on(tf: Any, task: str, call: Callable[[], Any]) -> Any:
    with tf.device(task):
        return call()


def cpus(session: Any) -> list[str]:
    found = [one for one in session.list_devices() if one.device_type == "CPU"]
    return [one.name for one in found]


def case_ops_run_on_the_tasks_that_it_names(tf: Any) -> Any:
    servers = local(tf, 3)
    x = tf.constant(np.arange(20000, dtype=np.float32))  # more than a channel holds
    for number in (1, 2, 0, 2, 1):
        with tf.device(f"/job:worker/task:{number}"):
            x = x * 2.0
    options = config(tf, {"worker": places(servers)})
    with tf.Session(servers[0].target, config=options) as session:
        return session.run(tf.reduce_sum(x)), sorted(cpus(session))


def case_the_target_may_be_any_of_its_tasks(tf: Any) -> Any:
    servers = local(tf, 2)
    three = on(tf, "/job:worker/task:0", lambda: tf.constant(1.0) + 2.0)
    options = config(tf, {"worker": places(servers)})
    with tf.Session(servers[1].target, config=options) as session:
        return session.run(three), cpus(session)[0]


def case_its_tasks_need_not_begin_at_0(tf: Any) -> Any:
    here, there = local(tf, 2)
    jobs = {"ps": {5: places([there])[0]}, "worker": {3: places([here])[0]}}
    seven = on(tf, "/job:ps/task:5", lambda: tf.constant(7))
    with tf.Session(here.target, config=config(tf, jobs)) as session:
        return session.run(seven), sorted(cpus(session))


def case_a_target_that_is_not_in_it_is_refused(tf: Any) -> Any:
    servers = local(tf, 3)
    options = config(tf, {"worker": places(servers[:2])})
    with tf.Session(servers[2].target, config=options) as session:
        return session.run(tf.constant(1))


def case_a_target_that_is_in_it_twice_is_refused(tf: Any) -> Any:
    servers = local(tf, 1)
    options = config(tf, {"worker": places(servers) * 2})
    with tf.Session(servers[0].target, config=options) as session:
        return session.run(tf.constant(1))


def case_filters_leave_tasks_out(tf: Any) -> Any:
    servers = local(tf, 2)
    options = config(
        tf,
        {"worker": [*places(servers[:1]), "localhost:1"]},
        device_filters=["/job:worker/task:0"],
    )
    with tf.Session(servers[0].target, config=options) as session:
        return session.run(tf.constant(1)), cpus(session)


def case_without_a_target_it_says_nothing(tf: Any) -> Any:
    with tf.Session(config=config(tf, {"worker": ["localhost:1"]})) as session:
        return session.run(tf.constant(1)), cpus(session)


def case_an_error_names_the_task(tf: Any) -> Any:
    servers = local(tf, 2)
    zero = tf.placeholder(tf.int32, [])
    quotient = on(tf, "/job:worker/task:1", lambda: 1 // zero)
    options = config(tf, {"worker": places(servers)})
    with tf.Session(servers[0].target, config=options) as session:
        try:
            session.run(quotient, {zero: 0})
        except tf.errors.InvalidArgumentError as error:
            return "/job:worker" in str(error), session.run(quotient, {zero: 1})


def variables(tf: Any, is_shared: bool) -> Any:
    servers = local(tf, 2)
    count = on(tf, "/job:worker/task:1", lambda: tf.Variable(7))
    options = config(tf, {"worker": places(servers)})
    if is_shared:
        options.experimental.share_session_state_in_clusterspec_propagation = True
    with tf.Session(servers[0].target, config=options) as one:
        one.run(count.initializer)
        one.run(count.assign_add(1))
        with tf.Session(servers[0].target, config=options) as two:
            return one.run(count), two.run(tf.is_variable_initialized(count))


def case_a_session_has_variables_of_its_own(tf: Any) -> Any:
    return variables(tf, is_shared=False)


def case_variables_are_shared_on_demand(tf: Any) -> Any:
    return variables(tf, is_shared=True)


def case_shared_variables_are_those_of_the_server(tf: Any) -> Any:
    (server,) = local(tf, 1)
    count = tf.Variable(7)
    options = config(tf, {"worker": places([server])})
    options.experimental.share_session_state_in_clusterspec_propagation = True
    with tf.Session(server.target, config=options) as session:
        session.run(count.initializer)
    with tf.Session(server.target) as session:
        return session.run(count)


def case_two_clusters_of_the_same_servers(tf: Any) -> Any:
    servers = local(tf, 2)
    here, there = places(servers)
    of_one = on(tf, "/job:a/task:1", lambda: tf.constant(1) + 1)
    with tf.Graph().as_default():
        of_two = on(tf, "/job:b/task:0", lambda: tf.constant(2) + 2)
    options = config(tf, {"a": [here, there]}), config(tf, {"b": [there, here]})
    target = servers[0].target
    one = tf.Session(target, config=options[0])
    two = tf.Session(target, of_two.graph, config=options[1])
    with one, two:
        return one.run(of_one), two.run(of_two), one.run(of_one)
