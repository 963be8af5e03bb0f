"""Threads that stop together: coordinators, loopers, queue runners."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.tf1.attempts import attempt, name_of
from tests.tf1.look import Case, initialized, makes_case, tf


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


def hand_in(coord: Any, error: BaseException) -> None:
    """Ask to stop while the error is handled, as the original needs it."""
    try:
        raise error
    except type(error) as caught:
        coord.request_stop(caught)


@makes_case
def fails_with(make: Callable[[], BaseException]) -> Any:
    """Return a case: a thread hands an error in, and the end tells it."""
    coord = tf.train.Coordinator()

    def work() -> None:
        hand_in(coord, make())

    thread = threading.Thread(target=work)
    thread.start()
    result = attempt(coord.join, [thread])
    return [result, coord.should_stop()]


def case_the_request_is_cleared() -> Any:
    coord = tf.train.Coordinator()
    hand_in(coord, ValueError("a"))
    coord.clear_stop()
    result = [coord.should_stop(), attempt(coord.join, [])]
    coord.request_stop()
    return [*result, attempt(coord.join, []), coord.should_stop()]


@makes_case
def goes_on(ask: Callable[[Any], None], **named: Any) -> Any:
    """Return a case: how a join ends with a thread that goes on, and if it is named."""
    coord, end = tf.train.Coordinator(), threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    ask(coord)
    try:
        return coord.join([thread], stop_grace_period_secs=0.05, **named)
    except Exception as error:
        is_named = thread.name in str(error)
        return [name_of(error), is_named] if is_named else name_of(error)
    finally:
        end.set()
        thread.join()


def case_an_error_after_the_end() -> Any:
    coord = tf.train.Coordinator()
    coord.request_stop()
    coord.join()
    return [attempt(hand_in, coord, ValueError("late")), coord.joined]


def looper(**named: Any) -> Any:
    """Tell how a thread that calls again and again comes to its end."""
    coord = tf.train.Coordinator()
    calls: list[int] = []

    def target(*arguments: Any, **others: Any) -> None:
        calls.append(len(arguments) + 10 * len(others))
        if len(calls) == 3:
            coord.request_stop()

    thread = tf.train.LooperThread(coord, 0.001, target=target, **named)
    thread.start()
    coord.join([thread])
    return calls


def case_a_looper_started_by_loop() -> Any:
    coord = tf.train.Coordinator()
    calls: list[Any] = []

    def target(item: Any) -> None:
        calls.append(item)
        if len(calls) == 2:
            coord.request_stop()

    thread = tf.train.LooperThread.loop(coord, None, target=target, args=("a",))
    coord.join([thread])
    return calls


def case_a_looper_without_a_coordinator() -> Any:
    return attempt(tf.train.LooperThread, "no coordinator", None)


ERRORS: dict[str, Callable[[], BaseException]] = {
    "an_error_of_python": lambda: ValueError("a"),
    "an_aborted_error": lambda: tf.errors.AbortedError(None, None, "a"),
    "the_end_of_the_input": lambda: tf.errors.OutOfRangeError(None, None, "a"),
    "a_cancelled_error": lambda: tf.errors.CancelledError(None, None, "a"),
    "the_end_of_an_iteration": lambda: StopIteration(),
}


CASES: dict[str, Case] = {
    "started_without_a_session": lambda: tf.train.start_queue_runners(),
    "started_with_no_session": lambda: tf.train.start_queue_runners("none"),
    "made_of_nothing": lambda: tf.train.QueueRunner(),
    "made_without_operations": lambda: (
        tf.train.QueueRunner(tf.FIFOQueue(2, tf.int32), []).name
    ),
    "made_without_a_queue": lambda: tf.train.QueueRunner(None, [tf.no_op()]),
    **{f"a_thread_fails_with_{key}": fails_with(item) for key, item in ERRORS.items()},
    "an_error_that_is_none": lambda: tf.train.Coordinator().request_stop("a"),
    "a_looper": looper,
    "a_looper_with_arguments": lambda: looper(args=(1, 2), kwargs={"k": 3}),
    "a_thread_that_goes_on_is_named": goes_on(lambda coord: coord.request_stop()),
    "a_thread_that_goes_on_is_ignored": goes_on(
        lambda coord: coord.request_stop(), ignore_live_threads=True
    ),
    "a_thread_that_goes_on_and_an_error": goes_on(
        lambda coord: hand_in(coord, KeyError("a"))
    ),
}
