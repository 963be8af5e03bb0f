"""Server: start, join, local servers, what its config decides."""

from __future__ import annotations

from typing import Any

from tests.tf1.servers import addresses, cluster


def names(session: Any) -> list[str]:
    devices = [one for one in session.list_devices() if one.device_type == "CPU"]
    return [one.name for one in devices]


def case_a_local_server_greets(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    with tf.Session(server.target) as session:
        return session.run(tf.constant("Hello, distributed TensorFlow!"))


def case_a_local_server_has_one_job_called_local(tf: Any) -> Any:
    found = tf.train.Server.create_local_server().server_def
    jobs = tf.train.ClusterSpec(found.cluster).as_dict()
    return found.job_name, found.task_index, found.protocol, jobs


def case_a_local_server_names_its_device(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    with tf.Session(server.target) as session:
        return names(session)


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


def case_starting_twice_does_nothing(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    return server.start(), server.start()


def case_a_server_that_was_not_started_has_a_target(tf: Any) -> Any:
    server = tf.train.Server({"w": ["localhost:0"]}, start=False)
    return server.target.startswith("grpc://")


def case_a_server_that_was_not_started_serves_its_process(tf: Any) -> Any:
    server = tf.train.Server({"w": ["localhost:0"]}, start=False)
    with tf.Session(server.target) as session:
        return session.run(tf.constant(7))


def case_join_returns_at_once_on_a_server_that_was_not_started(tf: Any) -> Any:
    return tf.train.Server({"w": ["localhost:0"]}, start=False).join()


def case_a_server_has_the_members_of_the_documentation(tf: Any) -> Any:
    members = ("target", "server_def", "start", "join", "create_local_server")
    return [hasattr(tf.train.Server, one) for one in members]


def case_the_config_of_the_server_makes_its_devices(tf: Any) -> Any:
    config = tf.ConfigProto(device_count={"CPU": 3})
    server = tf.train.Server({"w": addresses(1)}, config=config)
    with tf.device("/cpu:2"):
        three = tf.constant(3)
    with tf.Session(server.target) as session:
        return names(session), session.run(three)


def case_the_config_of_a_remote_session_makes_no_devices(tf: Any) -> Any:
    server = tf.train.Server({"w": addresses(1)})
    config = tf.ConfigProto(device_count={"CPU": 3})
    with tf.Session(server.target, config=config) as session:
        return names(session)


def case_every_server_is_a_target(tf: Any) -> Any:
    servers = cluster(tf, ps=1, worker=2)
    with tf.device("/job:worker/task:1"):
        product = tf.constant(6) * tf.constant(7)
    found = []
    for server in servers["ps"] + servers["worker"]:
        with tf.Session(server.target) as session:
            found.append(session.run(product))
    return found


def case_any_server_computes_for_any_other(tf: Any) -> Any:
    servers = cluster(tf, ps=2, worker=2)
    total = tf.constant(0)
    for number, task in enumerate(("ps/task:0", "ps/task:1", "worker/task:1")):
        with tf.device(f"/job:{task}"):
            total = total + number + 1
    with tf.Session(servers["worker"][0].target) as session:
        return session.run(total)


def case_a_job_may_have_any_name(tf: Any) -> Any:
    servers = cluster(tf, moon=1, sun=1)
    with tf.device("/job:moon/task:0"):
        variable = tf.Variable(4)
    with tf.Session(servers["sun"][0].target) as session:
        session.run(variable.initializer)
        return session.run(variable.assign_add(1))


def case_a_sparse_task_keeps_its_index(tf: Any) -> Any:
    server = tf.train.Server({"w": {3: addresses(1)[0]}})
    with tf.device("/job:w/task:3"):
        seven = tf.constant(7)
    with tf.Session(server.target) as session:
        return names(session), session.run(seven)
