"""Session: opening, closing, defaults, threads."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

from tests.tf1.look import run
from tests.tf1.servers import addresses


def case_close_may_be_called_twice(tf: Any) -> Any:
    session = tf.Session()
    return session.close(), session.close()


def closed(use: Callable[[Any, Any], Any], is_remote: bool) -> Callable[[Any], Any]:
    """Return a case that uses a session that did run and was closed."""

    def case(tf: Any) -> Any:
        server = tf.train.Server({"w": addresses(1)}) if is_remote else None
        seven = tf.constant(7)
        session = tf.Session(server.target if server else "")
        session.run(seven)
        session.close()
        return use(session, seven)

    return case


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


def case_leaving_the_block_closes_the_session(tf: Any) -> Any:
    seven = tf.constant(7)
    with tf.Session() as session:
        session.run(seven)
    return session.run(seven)


def case_an_error_in_the_block_is_passed_on(tf: Any) -> Any:
    with tf.Session():
        raise KeyError("mine")


def case_the_session_of_the_block_is_the_default(tf: Any) -> Any:
    before = tf.get_default_session() is None
    with tf.Session() as session:
        inside = tf.get_default_session() is session
    return before, inside, tf.get_default_session() is None


def case_the_graph_of_the_session_is_the_default_in_the_block(tf: Any) -> Any:
    graph, outer = tf.Graph(), tf.get_default_graph()
    with tf.Session(graph=graph):
        seven = tf.constant(7)
    return seven.graph is graph, tf.get_default_graph() is outer


def case_a_session_cannot_be_entered_twice_at_once(tf: Any) -> Any:
    with tf.Session() as session, session:
        return "entered"


def case_as_default_does_not_close(tf: Any) -> Any:
    seven = tf.constant(7)
    session = tf.Session()
    found = []
    for _ in range(2):
        with session.as_default():
            found.append(seven.eval())
    found.append(session.run(seven))
    session.close()
    return found


def case_as_default_may_be_nested(tf: Any) -> Any:
    with tf.Session() as outer:
        inner = tf.Session()
        with inner.as_default(), inner.as_default():
            is_inner = tf.get_default_session() is inner
        inner.close()
        return is_inner, tf.get_default_session() is outer


def case_as_default_changes_no_graph(tf: Any) -> Any:
    session = tf.Session(graph=tf.Graph())
    with session.as_default():
        seven = tf.constant(7)
    session.close()
    return seven.graph is session.graph


def case_the_default_session_belongs_to_a_thread(tf: Any) -> Any:
    found: list[Any] = []
    with tf.Session():
        thread = threading.Thread(
            target=lambda: found.append(tf.get_default_session() is None)
        )
        thread.start()
        thread.join()
    return found


def case_eval_without_a_session_is_refused(tf: Any) -> Any:
    return tf.constant(7).eval()


def case_run_of_an_operation_without_a_session_is_refused(tf: Any) -> Any:
    return tf.constant(7).op.run()


def case_eval_takes_the_default_session(tf: Any) -> Any:
    fed = tf.placeholder(tf.int32, [])
    with tf.Session():
        return (fed + 1).eval({fed: 4}), (fed * 2).op.run({fed: 4})


def case_eval_takes_the_session_given(tf: Any) -> Any:
    seven = tf.constant(7)
    with tf.Session() as session:
        pass
    other = tf.Session()
    found = seven.eval(session=other)
    other.close()
    return found, session is other


def case_eval_with_a_session_of_another_graph_is_refused(tf: Any) -> Any:
    seven = tf.constant(7)
    with tf.Session(graph=tf.Graph()) as session:
        return seven.eval(session=session)


def case_an_empty_graph_runs_nothing(tf: Any) -> Any:
    return run(tf, [])


def case_an_empty_graph_on_a_server_runs_nothing(tf: Any) -> Any:
    server = tf.train.Server({"w": addresses(1)})
    with tf.Session(server.target) as session:
        return session.run([])


def case_an_interactive_session_is_the_default(tf: Any) -> Any:
    session = tf.InteractiveSession()
    inside = tf.get_default_session() is session
    found = tf.constant(7).eval()
    session.close()
    return inside, found, tf.get_default_session() is None


def case_an_interactive_session_cannot_be_used_after_close(tf: Any) -> Any:
    session = tf.InteractiveSession()
    seven = tf.constant(7)
    session.close()
    return session.run(seven)


def case_an_interactive_session_may_have_a_graph(tf: Any) -> Any:
    graph = tf.Graph()
    session = tf.InteractiveSession(graph=graph)
    inside = tf.get_default_graph() is graph
    session.close()
    return inside, tf.get_default_graph() is graph


def case_an_interactive_session_on_a_server(tf: Any) -> Any:
    server = tf.train.Server({"w": addresses(1)})
    session = tf.InteractiveSession(server.target)
    found = tf.constant(7).eval()
    session.close()
    return found


def case_a_second_interactive_session_warns(tf: Any) -> Any:
    first = tf.InteractiveSession()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        second = tf.InteractiveSession()
    found = [one.category.__name__ for one in caught if "session" in str(one.message)]
    second.close()
    first.close()
    return found


def case_many_threads_may_run_one_session(tf: Any) -> Any:
    server = tf.train.Server({"w": addresses(1)})
    fed = tf.placeholder(tf.int32, [])
    double = fed * 2
    found: dict[int, int] = {}
    with tf.Session(server.target) as session:

        def work(number: int) -> None:
            found[number] = int(session.run(double, {fed: number}))

        threads = [threading.Thread(target=work, args=(one,)) for one in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return sorted(found.items())


def case_an_error_leaves_the_session_usable(tf: Any) -> Any:
    fed = tf.placeholder(tf.int32, [])
    with tf.Session() as session:
        try:
            session.run(fed)
        except tf.errors.InvalidArgumentError:
            return session.run(fed + 1, {fed: 1})


def case_a_session_runs_a_graph_that_another_one_ran(tf: Any) -> Any:
    count = tf.Variable(1)
    with tf.Session() as one, tf.Session() as two:
        one.run(count.initializer)
        two.run(count.initializer)
        one.run(count.assign_add(5))
        return one.run(count), two.run(count)
