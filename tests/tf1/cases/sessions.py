"""Sessions: targets, graphs, configs and their clusters; opening, closing, defaults."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from tests.tf1.look import Case, makes_case, names_of, run, tf
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


def case_close_may_be_called_twice() -> Any:
    session = tf.Session()
    return session.close(), session.close()


@makes_case
def closed(use: Callable[[Any, Any], Any], is_remote: bool) -> Any:
    """Return a case that uses a session that did run and was closed."""
    server = tf.train.Server({"w": addresses(1)}) if is_remote else None
    seven = tf.constant(7)
    session = tf.Session(server.target if server else "")
    session.run(seven)
    session.close()
    return use(session, seven)


USES: dict[str, Callable[[Any, Any], Any]] = {
    "run": lambda session, seven: session.run(seven),
    "run_nothing": lambda session, seven: session.run([]),
    "make_callable": lambda session, seven: session.make_callable(seven)(),
    "eval": lambda session, seven: seven.eval(session=session),
    "partial_run_setup": lambda session, seven: session.partial_run_setup([seven]),
}
WHERE = {"here": False, "on_a_server": True}


def case_config_proto_holds_gpu_options() -> Any:
    options = tf.GPUOptions(
        allow_growth=True, per_process_gpu_memory_fraction=0.25, visible_device_list="1"
    )
    config = tf.ConfigProto(gpu_options=options, device_count={"CPU": 2, "GPU": 0})
    config.gpu_options.allow_growth = False
    result = config.gpu_options
    return [
        [result.allow_growth, result.per_process_gpu_memory_fraction],
        [result.visible_device_list, options.allow_growth],
        sorted(config.device_count.items()),
    ]


def case_a_session_cannot_be_entered_twice_at_once() -> Any:
    with tf.Session() as session, session:
        return "entered"


def case_eval_with_a_session_of_another_graph_is_refused() -> Any:
    seven = tf.constant(7)
    with tf.Session(graph=tf.Graph()) as session:
        return seven.eval(session=session)


def case_an_interactive_session_may_have_a_graph() -> Any:
    graph = tf.Graph()
    session = tf.InteractiveSession(graph=graph)
    inside = tf.get_default_graph() is graph
    session.close()
    return inside, tf.get_default_graph() is graph


def case_a_second_interactive_session_warns() -> Any:
    first = tf.InteractiveSession()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        second = tf.InteractiveSession()
    result = [
        warning.category.__name__
        for warning in caught
        if "session" in str(warning.message)
    ]
    second.close()
    first.close()
    return result


def blocked() -> Any:
    """Return an operation that waits for an element that nobody enqueues."""
    return tf.FIFOQueue(1, tf.int32, name="empty").dequeue()


def closed_while_running(target: str) -> Any:
    waiting = blocked()
    session = tf.Session(target)
    session.run(tf.constant(7))
    result: list[Any] = []

    def wait() -> None:
        try:
            session.run(waiting)
        except tf.errors.OpError as error:
            result.append(type(error).__name__)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.3)  # the run needs a moment to reach the queue
    session.close()
    thread.join(10.0)
    return result


def case_a_config_refuses_text_for_a_bool() -> Any:
    return tf.ConfigProto(allow_soft_placement="yes")


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


CASES: dict[str, Case] = {
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
    **{
        f"a_closed_session_{where}_and_{name}": closed(use, is_remote)
        for name, use in USES.items()
        for where, is_remote in WHERE.items()
    },
    "config_proto_refuses_an_unknown_field": lambda: tf.ConfigProto(unknown=1),
    "config_proto_refuses_to_set_an_unknown_field": lambda: setattr(
        tf.ConfigProto(), "unknown", 1
    ),
    "gpu_options_refuse_an_unknown_field": lambda: tf.GPUOptions(unknown=1),
    "session_refuses_a_config_of_another_type": lambda: tf.Session(config={}),
    "session_refuses_a_graph_of_another_type": lambda: tf.Session(graph="graph"),
    "an_empty_graph_runs_nothing": lambda: run([]),
    "closing_cancels_what_runs": lambda: closed_while_running(""),
    "a_config_refuses_an_unknown_field": lambda: tf.ConfigProto(moon=True),
    "run_of_an_operation_without_a_session_is_refused": lambda: tf.constant(7).op.run(),
    "a_session_has_variables_of_its_own": lambda: variables(is_shared=False),
}
