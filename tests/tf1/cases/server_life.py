"""Server: start, join, local servers, what its config decides."""

from __future__ import annotations

from typing import Any

from tests.tf1.servers import cluster


def names(session: Any) -> list[str]:
    devices = [
        list_device
        for list_device in session.list_devices()
        if list_device.device_type == "CPU"
    ]
    return [device.name for device in devices]


def case_a_local_server_has_one_job_called_local(tf: Any) -> Any:
    result = tf.train.Server.create_local_server().server_def
    jobs = tf.train.ClusterSpec(result.cluster).as_dict()
    return result.job_name, result.task_index, result.protocol, jobs


def case_a_local_server_takes_a_config(tf: Any) -> Any:
    config = tf.ConfigProto(device_count={"CPU": 2})
    server = tf.train.Server.create_local_server(config=config)
    with tf.Session(server.target) as session:
        return len(names(session))


def case_a_local_server_may_start_later(tf: Any) -> Any:
    server = tf.train.Server.create_local_server(start=False)
    server.start()
    with tf.Session(server.target) as session:
        return session.run(tf.constant(7))


def case_join_returns_at_once_on_a_server_that_was_not_started(tf: Any) -> Any:
    return tf.train.Server({"w": ["localhost:0"]}, start=False).join()


def case_a_job_may_have_any_name(tf: Any) -> Any:
    servers = cluster(tf, moon=1, sun=1)
    with tf.device("/job:moon/task:0"):
        variable = tf.Variable(4)
    with tf.Session(servers["sun"][0].target) as session:
        session.run(variable.initializer)
        return session.run(variable.assign_add(1))
