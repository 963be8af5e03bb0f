"""Session: which targets, graphs and configs it takes, and several of them at once."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import makes_case, run, tf
from tests.tf1.servers import addresses, cluster


@makes_case
def opened(*args: Any, **options: Any) -> Any:
    """Return a case that opens a session and runs a constant in it."""
    seven = tf.constant(7)
    with tf.Session(*args, **options) as session:
        return session.run(seven)


def case_a_server_in_place_of_the_target_is_refused() -> Any:
    return tf.Session(tf.train.Server({"w": addresses(1)}, start=False))


def case_a_session_on_an_address_that_nobody_listens_on_is_made() -> Any:
    session = tf.Session(f"grpc://{addresses(1)[0]}")
    return session.sess_str[:7]


def case_sess_str_is_the_target_in_bytes(session: Any) -> Any:
    return session.sess_str


def case_sess_str_of_a_remote_session() -> Any:
    server = tf.train.Server({"w": addresses(1)})
    with tf.Session(server.target) as session:
        return session.sess_str == server.target.encode()


def case_a_session_has_the_default_graph(session: Any) -> Any:
    return session.graph is tf.get_default_graph()


def case_a_session_has_the_graph_that_it_was_given() -> Any:
    graph = tf.Graph()
    with graph.as_default():
        seven = tf.constant(7)
    with tf.Session(graph=graph) as session:
        return session.graph is graph, session.run(seven)


def case_a_session_in_this_process_names_its_device(session: Any) -> Any:
    devices = session.list_devices()
    return [device.name for device in devices if device.device_type == "CPU"]


def case_a_session_here_on_a_device_of_its_own_job() -> Any:
    with tf.device("/job:localhost/replica:0/task:0/device:CPU:0"):
        seven = tf.constant(7)
    return run(seven)


def case_sessions_on_two_targets_take_turns() -> Any:
    servers = cluster(worker=2)
    with tf.device("/job:worker/task:0"):
        count = tf.Variable(0)
        more = count.assign_add(1)
    here, there = (server.target for server in servers["worker"])
    with tf.Session(here) as first, tf.Session(there) as two:
        first.run(count.initializer)
        return [session.run(more) for session in (first, two, two, first)]


def case_two_sessions_on_one_target_see_one_variable() -> Any:
    server = tf.train.Server({"w": addresses(1)})
    count = tf.Variable(0)
    more = count.assign_add(5)
    with tf.Session(server.target) as first, tf.Session(server.target) as two:
        first.run(count.initializer)
        two.run(more)
        return first.run(count)


def case_nodes_added_after_a_run_are_known_to_the_next() -> Any:
    server = tf.train.Server({"w": addresses(1)})
    tensor = tf.constant(1)
    with tf.Session(server.target) as session:
        first = session.run(tensor)
        two = tensor + 1
        second = session.run(two)
        return first, second, session.run(two * 3)


def case_two_targets_of_two_clusters_do_not_share() -> Any:
    first, two = (tf.train.Server({"w": addresses(1)}) for _ in range(2))
    count = tf.Variable(3)
    with tf.Session(first.target) as session:
        session.run(count.initializer)
    return run(tf.is_variable_initialized(count), target=two.target)


CASES = {
    "a_session_without_target_runs_here": opened(),
    "a_session_on_an_empty_target_runs_here": opened(""),
    "a_session_on_none_runs_here": opened(None),
    "a_session_by_keyword_runs_here": opened(target="", graph=None, config=None),
    "a_session_on_a_word_is_refused": opened("local"),
    "a_session_on_an_address_without_scheme_is_refused": opened("localhost:2222"),
    "a_session_on_an_unknown_scheme_is_refused": opened("foo://x"),
    "a_session_on_a_scheme_alone_is_refused": opened("grpc://"),
    "a_session_on_a_host_without_port_is_refused": opened("grpc://localhost"),
    "a_session_on_an_int_is_refused": opened(3),
    "a_session_on_a_list_is_refused": opened(["grpc://localhost:1"]),
    "a_session_on_bytes_runs_here": opened(b""),
    "a_session_with_text_as_graph_is_refused": opened("", "x"),
    "a_session_with_an_int_as_graph_is_refused": opened(graph=3),
    "a_session_with_a_dict_as_config_is_refused": opened(config={}),
    "a_session_with_text_as_config_is_refused": opened(config="x"),
    "a_config_in_place_of_the_target_is_refused": lambda: tf.Session(tf.ConfigProto()),
}
