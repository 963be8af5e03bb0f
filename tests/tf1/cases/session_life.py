"""Session: opening, closing, defaults, threads, and what a config holds."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from tests.tf1.look import makes_case, run, tf
from tests.tf1.servers import addresses


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


CASES: dict[str, Any] = {
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
}
