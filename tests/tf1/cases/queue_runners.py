"""Queue runners: threads that fill queues, and how they end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.look import initialized


def source(tf: Any, values: list[int]) -> Any:
    """Return a closed queue with these values, and what fills it."""
    queue = tf.FIFOQueue(100, tf.int32, shapes=[[]], name="source")
    return queue, [queue.enqueue_many((values,)), queue.close()]


def ended(coord: Any, threads: list[Any], n_runners: int = 1) -> None:
    """Let the runners come to their end; one more thread waits for the request."""
    for thread in threads[:n_runners]:
        thread.join(10.0)
    coord.request_stop()
    coord.join(threads)


def case_the_queue_is_closed_when_the_input_ends(tf: Any) -> Any:
    """The runner's queue is closed when its input ends."""
    first, fill = source(tf, [1, 2, 3, 4, 5])
    second = tf.FIFOQueue(2, tf.int32, shapes=[[]])
    runner = tf.train.QueueRunner(second, [second.enqueue(first.dequeue())])
    take = second.dequeue()
    coord = tf.train.Coordinator()
    with tf.Session() as session:
        for one in fill:
            session.run(one)
        threads = runner.create_threads(session, coord, start=True)
        found = [session.run(take) for _ in range(5)]
        found.append(attempt(tf, session.run, take))
        ended(coord, threads)
        return [*found, coord.should_stop(), runner.exceptions_raised]


def case_two_threads_fill_one_queue(tf: Any) -> Any:
    first, fill = source(tf, list(range(20)))
    second = tf.FIFOQueue(-1, tf.int32, shapes=[[]])
    put = second.enqueue(first.dequeue())
    runner = tf.train.QueueRunner(second, [put, put])
    coord = tf.train.Coordinator()
    with tf.Session() as session:
        for one in fill:
            session.run(one)
        threads = runner.create_threads(session, coord, start=True)
        count = len(threads)
        ended(coord, threads, 2)
        found = sorted(session.run(second.dequeue_up_to(100)).tolist())
        return [found, count, session.run(second.is_closed())]


def case_one_that_waits_is_stopped(tf: Any) -> Any:
    """A runner that waits for room is cancelled when the coordinator stops."""
    queue = tf.FIFOQueue(1, tf.int32)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(7)] * 2)
    coord = tf.train.Coordinator()
    with tf.Session() as session:
        threads = runner.create_threads(session, coord, start=True)
        value = session.run(queue.dequeue())
        coord.request_stop()
        coord.join(threads)
        return [value, len(threads), runner.exceptions_raised]


def case_an_error_goes_to_the_coordinator(tf: Any) -> Any:
    queue = tf.FIFOQueue(10, tf.float32)
    missing = tf.Variable(1.0)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(missing)])
    coord = tf.train.Coordinator()
    with tf.Session() as session:
        threads = runner.create_threads(session, coord, start=True)
        return [attempt(tf, coord.join, threads), coord.should_stop()]


def case_an_error_without_a_coordinator(tf: Any) -> Any:
    queue = tf.FIFOQueue(10, tf.float32)
    missing = tf.Variable(1.0)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(missing)])
    with tf.Session() as session:
        threads = runner.create_threads(session, start=True)
        for thread in threads:
            thread.join(10.0)
        return [type(error).__name__ for error in runner.exceptions_raised]


def case_the_end_without_a_coordinator(tf: Any) -> Any:
    first, fill = source(tf, [1, 2])
    second = tf.FIFOQueue(-1, tf.int32, shapes=[[]])
    runner = tf.train.QueueRunner(second, [second.enqueue(first.dequeue())])
    with tf.Session() as session:
        for one in fill:
            session.run(one)
        for thread in runner.create_threads(session, start=True):
            thread.join(10.0)
        return [session.run(second.size()), session.run(second.is_closed())]


def case_kinds_of_errors_that_close(tf: Any) -> Any:
    queue = tf.FIFOQueue(10, tf.float32)
    missing = tf.Variable(1.0)
    runner = tf.train.QueueRunner(
        *(queue, [queue.enqueue(missing)]),
        queue_closed_exception_types=(tf.errors.FailedPreconditionError,),
    )
    coord = tf.train.Coordinator()
    with tf.Session() as session:
        threads = runner.create_threads(session, coord, start=True)
        found = attempt(tf, ended, coord, threads)
        return [found, session.run(queue.is_closed())]


def case_operations_of_ones_own(tf: Any) -> Any:
    first, fill = source(tf, [1, 2])
    second = tf.FIFOQueue(-1, tf.int32, shapes=[[]])
    closed = tf.Variable(0)
    runner = tf.train.QueueRunner(
        *(second, [second.enqueue(first.dequeue())]),
        close_op=closed.assign(5),
        cancel_op=closed.assign(9),
    )
    coord = tf.train.Coordinator()
    with initialized(tf) as session:
        for one in fill:
            session.run(one)
        ended(coord, runner.create_threads(session, coord, start=True))
        return [session.run(second.is_closed()), session.run(closed) in (5, 9)]


def case_its_properties(tf: Any) -> Any:
    queue = tf.FIFOQueue(2, tf.int32, name="q")
    put = queue.enqueue(1)
    runner = tf.train.QueueRunner(queue, [put])
    return [
        *(runner.name, runner.queue is queue, runner.enqueue_ops == [put]),
        *(runner.close_op.name, runner.cancel_op.name, runner.exceptions_raised),
        [kind.__name__ for kind in runner.queue_closed_exception_types],
    ]


def case_threads_as_daemons(tf: Any) -> Any:
    queue = tf.FIFOQueue(2, tf.int32)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(1)])
    with tf.Session() as session:
        threads = runner.create_threads(session, daemon=True)
        return [thread.daemon for thread in threads], len(threads)


def case_added_to_a_collection(tf: Any) -> Any:
    queue = tf.FIFOQueue(2, tf.int32)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(1)])
    tf.train.add_queue_runner(runner)
    tf.train.add_queue_runner(runner, collection="others")
    names = [tf.GraphKeys.QUEUE_RUNNERS, "others"]
    found = [[one is runner for one in tf.get_collection(name)] for name in names]
    return [found, tf.GraphKeys.QUEUE_RUNNERS]


def case_all_are_started(tf: Any) -> Any:
    queues = [tf.FIFOQueue(2, tf.int32) for _ in range(2)]
    for index, queue in enumerate(queues):
        runner = tf.train.QueueRunner(queue, [queue.enqueue(index)])
        tf.train.add_queue_runner(runner)
    coord = tf.train.Coordinator()
    with tf.Session() as session:
        threads = tf.train.start_queue_runners(session, coord)
        found = [session.run(queue.dequeue()) for queue in queues]
        coord.request_stop()
        coord.join(threads)
        return [found, len(threads), [one.daemon for one in threads]]


def case_all_are_started_in_the_default_session(tf: Any) -> Any:
    queue = tf.FIFOQueue(2, tf.int32)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(4)]))
    coord = tf.train.Coordinator()
    with tf.Session() as session:
        threads = tf.train.start_queue_runners(coord=coord)
        found = session.run(queue.dequeue())
        coord.request_stop()
        coord.join(threads)
    return found


def case_all_are_made_but_not_started(tf: Any) -> Any:
    queue = tf.FIFOQueue(2, tf.int32)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(4)]))
    with tf.Session() as session:
        threads = tf.train.start_queue_runners(session, start=False)
        return [[one.is_alive() for one in threads], session.run(queue.size())]


def case_those_of_another_collection(tf: Any) -> Any:
    queue = tf.FIFOQueue(2, tf.int32)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(4)])
    tf.train.add_queue_runner(runner, "mine")
    with tf.Session() as session:
        one = tf.train.start_queue_runners(session, start=False)
        two = tf.train.start_queue_runners(session, start=False, collection="mine")
        return [len(one), len(two)]


def case_none_to_start(tf: Any) -> Any:
    with tf.Session() as session:
        return tf.train.start_queue_runners(session)


def case_something_else_in_the_collection(tf: Any) -> Any:
    tf.add_to_collection(tf.GraphKeys.QUEUE_RUNNERS, "no runner")
    with tf.Session() as session:
        return tf.train.start_queue_runners(session)


def case_steps_until_the_input_ends(tf: Any) -> Any:
    """The usual program: a runner feeds steps until the input ends."""
    rows, fill = source(tf, [1, 2, 3, 4, 5, 6, 7])
    queue = tf.FIFOQueue(4, tf.int32, shapes=[[]])
    runner = tf.train.QueueRunner(queue, [queue.enqueue(rows.dequeue() * 10)])
    tf.train.add_queue_runner(runner)
    total = tf.Variable(0)
    step = total.assign_add(tf.reduce_sum(queue.dequeue_many(2)))
    coord = tf.train.Coordinator()
    found = []
    with initialized(tf) as session:
        for one in fill:
            session.run(one)
        threads = tf.train.start_queue_runners(session, coord)
        try:
            while not coord.should_stop():
                found.append(session.run(step))
        except tf.errors.OutOfRangeError:
            coord.request_stop()
        coord.join(threads)
        return [found, [thread.is_alive() for thread in threads]]


def case_the_session_is_closed_under_it(tf: Any) -> Any:
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
    found = attempt(tf, coord.join, threads)
    return [found in (None, "CancelledError", "RuntimeError")]


CASES: dict[str, Callable[[Any], Any]] = {
    "started_without_a_session": lambda tf: tf.train.start_queue_runners(),
    "started_with_no_session": lambda tf: tf.train.start_queue_runners("none"),
    "made_of_nothing": lambda tf: tf.train.QueueRunner(),
    "made_without_operations": lambda tf: (
        tf.train.QueueRunner(tf.FIFOQueue(2, tf.int32), []).name
    ),
    "made_without_a_queue": lambda tf: tf.train.QueueRunner(None, [tf.no_op()]),
}
