"""A session's config may bring the cluster: servers are tasks of its `cluster_def`."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import Case, names_of, run, tf


def local(n: int) -> list[Any]:
    """Return servers that know of no other task, and so none of the others."""
    return [tf.train.Server.create_local_server() for _ in range(n)]


def places(servers: list[Any]) -> list[str]:
    return [server.target[len("grpc://") :] for server in servers]


def config(jobs: dict[str, Any], **options: Any) -> Any:
    spec = tf.train.ClusterSpec(jobs)
    return tf.ConfigProto(cluster_def=spec.as_cluster_def(), **options)


def on(task: str, call: Case) -> Any:
    with tf.device(task):
        return call()


def cpus(session: Any) -> list[str]:
    result = [
        list_device
        for list_device in session.list_devices()
        if list_device.device_type == "CPU"
    ]
    return names_of(result)


def case_a_target_that_is_in_it_twice_is_refused() -> Any:
    servers = local(1)
    options = config({"worker": places(servers) * 2})
    return run(tf.constant(1), target=servers[0].target, config=options)


def case_filters_leave_tasks_out() -> Any:
    servers = local(2)
    options = config(
        {"worker": [*places(servers[:1]), "localhost:1"]},
        device_filters=["/job:worker/task:0"],
    )
    with tf.Session(servers[0].target, config=options) as session:
        return session.run(tf.constant(1)), cpus(session)


def case_an_error_names_the_task() -> Any:
    servers = local(2)
    zero = tf.placeholder(tf.int32, [])
    quotient = on("/job:worker/task:1", lambda: 1 // zero)
    options = config({"worker": places(servers)})
    with tf.Session(servers[0].target, config=options) as session:
        try:
            session.run(quotient, {zero: 0})
        except tf.errors.InvalidArgumentError as error:
            return "/job:worker" in str(error), session.run(quotient, {zero: 1})


def variables(is_shared: bool) -> Any:
    servers = local(2)
    count = on("/job:worker/task:1", lambda: tf.Variable(7))
    options = config({"worker": places(servers)})
    if is_shared:
        options.experimental.share_session_state_in_clusterspec_propagation = True
    with tf.Session(servers[0].target, config=options) as item:
        item.run(count.initializer)
        item.run(count.assign_add(1))
        with tf.Session(servers[0].target, config=options) as two:
            return item.run(count), two.run(tf.is_variable_initialized(count))


CASES = {
    "a_session_has_variables_of_its_own": lambda: variables(is_shared=False),
}
