"""Session: opening, closing, defaults, threads."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tests.tf1.look import makes_case, run
from tests.tf1.servers import addresses


def case_close_may_be_called_twice(tf: Any) -> Any:
    session = tf.Session()
    return session.close(), session.close()


@makes_case
def closed(tf: Any, use: Callable[[Any, Any], Any], is_remote: bool) -> Any:
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
CASES = {
    f"a_closed_session_{where}_and_{name}": closed(use, is_remote)
    for name, use in USES.items()
    for where, is_remote in WHERE.items()
}


def case_a_session_cannot_be_entered_twice_at_once(tf: Any) -> Any:
    with tf.Session() as session, session:
        return "entered"


def case_run_of_an_operation_without_a_session_is_refused(tf: Any) -> Any:
    return tf.constant(7).op.run()


def case_eval_with_a_session_of_another_graph_is_refused(tf: Any) -> Any:
    seven = tf.constant(7)
    with tf.Session(graph=tf.Graph()) as session:
        return seven.eval(session=session)


def case_an_empty_graph_runs_nothing(tf: Any) -> Any:
    return run(tf, [])


def case_an_interactive_session_may_have_a_graph(tf: Any) -> Any:
    graph = tf.Graph()
    session = tf.InteractiveSession(graph=graph)
    inside = tf.get_default_graph() is graph
    session.close()
    return inside, tf.get_default_graph() is graph


def case_a_second_interactive_session_warns(tf: Any) -> Any:
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
