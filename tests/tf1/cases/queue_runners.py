"""Queue runners: threads that fill queues, and how they end."""

from __future__ import annotations

import threading
from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.look import initialized, tf


def source(values: list[int]) -> Any:
    """Return a closed queue with these values, and what fills it."""
    queue = tf.FIFOQueue(100, tf.int32, shapes=[[]], name="source")
    return queue, [queue.enqueue_many((values,)), queue.close()]


def ended(coord: Any, threads: list[Any], n_runners: int = 1) -> None:
    """Let the runners come to their end; one more thread waits for the request."""
    for thread in threads[:n_runners]:
        thread.join(10.0)
    coord.request_stop()
    coord.join(threads)


def case_an_error_without_a_coordinator(session: Any) -> Any:
    queue = tf.FIFOQueue(10, tf.float32)
    missing = tf.Variable(1.0)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(missing)])
    threads = runner.create_threads(session, start=True)
    for thread in threads:
        thread.join(10.0)
    return [type(error).__name__ for error in runner.exceptions_raised]


def case_operations_of_ones_own() -> Any:
    first, fill = source([1, 2])
    second = tf.FIFOQueue(-1, tf.int32, shapes=[[]])
    closed = tf.Variable(0)
    runner = tf.train.QueueRunner(
        *(second, [second.enqueue(first.dequeue())]),
        close_op=closed.assign(5),
        cancel_op=closed.assign(9),
    )
    coord = tf.train.Coordinator()
    with initialized() as session:
        for item in fill:
            session.run(item)
        ended(coord, runner.create_threads(session, coord, start=True))
        return [session.run(second.is_closed()), session.run(closed) in (5, 9)]


def case_its_properties() -> Any:
    queue = tf.FIFOQueue(2, tf.int32, name="q")
    put = queue.enqueue(1)
    runner = tf.train.QueueRunner(queue, [put])
    return [
        *(runner.name, runner.queue is queue, runner.enqueue_ops == [put]),
        *(runner.close_op.name, runner.cancel_op.name, runner.exceptions_raised),
        [kind.__name__ for kind in runner.queue_closed_exception_types],
    ]


def case_threads_as_daemons(session: Any) -> Any:
    queue = tf.FIFOQueue(2, tf.int32)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(1)])
    threads = runner.create_threads(session, daemon=True)
    return [thread.daemon for thread in threads], len(threads)


def case_added_to_a_collection() -> Any:
    queue = tf.FIFOQueue(2, tf.int32)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(1)])
    tf.train.add_queue_runner(runner)
    tf.train.add_queue_runner(runner, collection="others")
    names = [tf.GraphKeys.QUEUE_RUNNERS, "others"]
    result = [[item is runner for item in tf.get_collection(name)] for name in names]
    return [result, tf.GraphKeys.QUEUE_RUNNERS]


def case_all_are_started_in_the_default_session(session: Any) -> Any:
    queue = tf.FIFOQueue(2, tf.int32)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(4)]))
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(coord=coord)
    result = session.run(queue.dequeue())
    coord.request_stop()
    coord.join(threads)
    return result


def case_those_of_another_collection(session: Any) -> Any:
    queue = tf.FIFOQueue(2, tf.int32)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(4)])
    tf.train.add_queue_runner(runner, "mine")
    first = tf.train.start_queue_runners(session, start=False)
    two = tf.train.start_queue_runners(session, start=False, collection="mine")
    return [len(first), len(two)]


def case_the_session_is_closed_under_it() -> Any:
    """Closing the session ends a runner that waits for room."""
    queue = tf.FIFOQueue(1, tf.int32)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(7)])
    coord = tf.train.Coordinator()
    session = tf.Session()
    threads = runner.create_threads(session, coord, start=True)
    session.run(queue.dequeue())
    session.close()
    threading.Event().wait(0.05)
    coord.request_stop()
    result = attempt(coord.join, threads)
    return [result in (None, "CancelledError", "RuntimeError")]


CASES = {
    "started_without_a_session": lambda: tf.train.start_queue_runners(),
    "started_with_no_session": lambda: tf.train.start_queue_runners("none"),
    "made_of_nothing": lambda: tf.train.QueueRunner(),
    "made_without_operations": lambda: (
        tf.train.QueueRunner(tf.FIFOQueue(2, tf.int32), []).name
    ),
    "made_without_a_queue": lambda: tf.train.QueueRunner(None, [tf.no_op()]),
}
