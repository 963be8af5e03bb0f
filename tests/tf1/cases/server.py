"""Server: how its task is found out, how it starts and joins, what is refused."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import Case, names_of, run, tf
from tests.tf1.servers import addresses, cluster


def built(make: Case) -> Case:
    """Return a case that builds a server; one that was built has a target."""
    return lambda: make().target.startswith("grpc://")


def definition(**fields: Any) -> Any:
    cluster = tf.train.ClusterSpec({"w": ["localhost:0"]}).as_cluster_def()
    return tf.train.ServerDef(cluster=cluster, **fields)


ONE = {"w": ["localhost:0"]}
TWO = {"w": ["localhost:0", "localhost:0"]}
JOBS = {"ps": ["localhost:0"], "w": ["localhost:0"]}

BUILT: dict[str, Case] = {
    "none": lambda: tf.train.Server(None),
    "text": lambda: tf.train.Server("localhost:0"),
    "a_list": lambda: tf.train.Server(["localhost:0"]),
    "tasks_that_are_text": lambda: tf.train.Server({"w": "localhost:0"}),
    "an_empty_cluster": lambda: tf.train.Server({}),
    "several_jobs_and_no_name": lambda: tf.train.Server(JOBS),
    "several_tasks_and_no_index": lambda: tf.train.Server(TWO),
    "several_tasks_of_the_named_job": lambda: tf.train.Server(TWO, job_name="w"),
    "an_unknown_job_without_an_index": lambda: tf.train.Server(ONE, job_name="x"),
    "an_unknown_job_with_an_index": lambda: tf.train.Server(ONE, "x", 0),
    "an_index_too_large": lambda: tf.train.Server(ONE, "w", 5),
    "a_negative_index": lambda: tf.train.Server(ONE, "w", -1),
    "an_index_that_is_text": lambda: tf.train.Server(ONE, "w", "0"),
    "a_host_without_port": lambda: tf.train.Server({"w": ["localhost"]}),
    "an_empty_address": lambda: tf.train.Server({"w": [""]}),
    "a_port_that_is_a_word": lambda: tf.train.Server({"w": ["localhost:abc"]}),
    "a_port_alone": lambda: tf.train.Server({"w": ["0"]}),
    "a_colon_and_a_port": lambda: tf.train.Server({"w": [":0"]}),
    "an_unknown_protocol": lambda: tf.train.Server(ONE, protocol="smoke"),
    "an_empty_protocol": lambda: tf.train.Server(ONE, protocol=""),
    "a_config_that_is_a_dict": lambda: tf.train.Server(ONE, config={}),
    "a_config_that_is_text": lambda: tf.train.Server(ONE, config="x"),
    "a_dict": lambda: tf.train.Server(ONE),
    "a_cluster_def": lambda: tf.train.Server(
        tf.train.ClusterSpec(ONE).as_cluster_def()
    ),
    "a_spec": lambda: tf.train.Server(tf.train.ClusterSpec(ONE)),
    "a_server_def": lambda: tf.train.Server(definition(job_name="w", protocol="grpc")),
    "a_server_def_without_protocol": lambda: tf.train.Server(definition(job_name="w")),
    "a_server_def_without_protocol_and_a_protocol": lambda: tf.train.Server(
        definition(job_name="w"), protocol="grpc"
    ),
}


def case_a_port_in_use_is_refused() -> Any:
    (address,) = addresses(1)
    first = tf.train.Server({"w": [address]})
    second = tf.train.Server({"w": [address]})
    return first.target, second.target


def fields_of(server: Any) -> Any:
    result = server.server_def
    return result.job_name, result.task_index, result.protocol


def case_arguments_override_a_server_def() -> Any:
    cluster = tf.train.ClusterSpec(TWO).as_cluster_def()
    inputs = tf.train.ServerDef(cluster=cluster, job_name="ps", task_index=0)
    server = tf.train.Server(inputs, job_name="w", task_index=1, protocol="grpc")
    return fields_of(server), (inputs.job_name, inputs.task_index, inputs.protocol)


def case_the_config_is_merged_into_that_of_the_server_def() -> Any:
    inputs = definition(job_name="w", protocol="grpc")
    inputs.default_session_config.allow_soft_placement = True
    config = tf.ConfigProto(log_device_placement=False, operation_timeout_in_ms=7000)
    server = tf.train.Server(inputs, config=config)
    merged = server.server_def.default_session_config
    return (
        merged.allow_soft_placement,
        merged.operation_timeout_in_ms,
        inputs.default_session_config.operation_timeout_in_ms,
    )


def case_the_server_def_holds_the_cluster() -> Any:
    (first, two) = addresses(2)
    spec = {"ps": [first], "w": [two]}
    server = tf.train.Server(spec, "w", 0)
    return tf.train.ClusterSpec(server.server_def.cluster).as_dict() == spec


def names(session: Any) -> list[str]:
    devices = [
        list_device
        for list_device in session.list_devices()
        if list_device.device_type == "CPU"
    ]
    return names_of(devices)


def case_a_local_server_has_one_job_called_local() -> Any:
    result = tf.train.Server.create_local_server().server_def
    jobs = tf.train.ClusterSpec(result.cluster).as_dict()
    return result.job_name, result.task_index, result.protocol, jobs


def case_a_local_server_takes_a_config() -> Any:
    config = tf.ConfigProto(device_count={"CPU": 2})
    server = tf.train.Server.create_local_server(config=config)
    with tf.Session(server.target) as session:
        return len(names(session))


def case_a_local_server_may_start_later() -> Any:
    server = tf.train.Server.create_local_server(start=False)
    server.start()
    return run(tf.constant(7), target=server.target)


def case_join_returns_at_once_on_a_server_that_was_not_started() -> Any:
    return tf.train.Server({"w": ["localhost:0"]}, start=False).join()


def case_a_job_may_have_any_name() -> Any:
    servers = cluster(moon=1, sun=1)
    with tf.device("/job:moon/task:0"):
        variable = tf.Variable(4)
    with tf.Session(servers["sun"][0].target) as session:
        session.run(variable.initializer)
        return session.run(variable.assign_add(1))


CASES = {
    **{f"a_server_from_{name}": built(make) for name, make in BUILT.items()},
    "the_target_is_text": lambda: type(tf.train.Server(ONE).target).__name__,
}
