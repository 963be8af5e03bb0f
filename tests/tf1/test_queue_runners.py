"""Threads that a coordinator joins, where the recorded cases do not look."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

from kit import tf1 as tf
from kit.testing.task_process import until

SOON_S = 5.0


def counting(limit: int | None = None, capacity: int = 3) -> tuple[Any, Any]:
    """Return a queue and what puts 0, 1, 2 ... into it, up to a limit."""
    numbers = iter(range(10**9) if limit is None else range(limit))
    following = tf.py_func(lambda: next(numbers), [], tf.int64)
    queue = tf.FIFOQueue(capacity, tf.int64, shapes=[()])
    return queue, queue.enqueue(following)


def test_queue_runner_fills_the_queue_in_the_background_and_ends_with_join(
    session: Any,
) -> None:
    queue, enqueue = counting()
    taken = queue.dequeue()
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue]))
    coord = tf.train.Coordinator()

    threads = tf.train.start_queue_runners(session, coord)
    seen = [int(session.run(taken)) for _ in range(7)]
    coord.request_stop()
    coord.join(threads, stop_grace_period_secs=SOON_S)

    assert seen == list(range(7))
    assert len(threads) == 2
    assert not any(thread.is_alive() for thread in threads)


def test_end_of_the_input_closes_the_queue_and_the_rest_can_be_taken(
    session: Any,
) -> None:
    queue, enqueue = counting(2)
    taken = queue.dequeue()
    runner = tf.train.QueueRunner(queue, [enqueue])
    coord = tf.train.Coordinator()

    runner.create_threads(session, coord, start=True)
    seen = [int(session.run(taken)) for _ in range(2)]
    with pytest.raises(tf.errors.OutOfRangeError):
        session.run(taken)
    assert not coord.should_stop()
    coord.request_stop()
    coord.join()

    assert seen == [0, 1]
    assert runner.exceptions_raised == []


def test_queue_is_closed_when_the_last_of_its_threads_is_at_the_end(
    session: Any,
) -> None:
    queue, first = counting(1, capacity=10)
    wait_for_it = tf.FIFOQueue(1, tf.int64, shared_name="second")
    second = queue.enqueue(wait_for_it.dequeue())
    runner = tf.train.QueueRunner(queue, [first, second])
    close, is_closed, size = wait_for_it.close(), queue.is_closed(), queue.size()
    coord = tf.train.Coordinator()

    threads = runner.create_threads(session, coord, start=True)
    until(lambda: not threads[0].is_alive())
    was_open = not session.run(is_closed)
    session.run(close)
    until(lambda: bool(session.run(is_closed)))
    coord.request_stop()
    coord.join()

    assert was_open
    assert session.run(size) == 1


def test_other_error_stops_the_coordinator_and_comes_out_of_join(session: Any) -> None:
    queue = tf.FIFOQueue(3, tf.int64, shapes=[()])
    wrong = queue.enqueue(tf.py_func(lambda: 1 // 0, [], tf.int64))
    coord = tf.train.Coordinator()

    tf.train.QueueRunner(queue, [wrong]).create_threads(session, coord, start=True)

    with pytest.raises(tf.errors.OpError, match="division"):
        coord.join(stop_grace_period_secs=SOON_S)


@pytest.mark.slow
def test_run_that_waits_for_something_else_is_ended_with_join(session: Any) -> None:
    """Closing the queue does not end it: it waits for an accumulator."""
    mean = tf.ConditionalAccumulator(tf.float32, shape=()).take_grad(1)
    queue = tf.FIFOQueue(1, tf.float32, shapes=[()])
    runner = tf.train.QueueRunner(queue, [queue.enqueue(mean)])
    coord = tf.train.Coordinator()
    runner.create_threads(session, coord, start=True)

    coord.request_stop()
    coord.join(stop_grace_period_secs=3600.0)  # longer than any test

    assert session.run(tf.constant(7)) == 7


def test_threads_are_not_made_twice_while_they_run(session: Any) -> None:
    queue, enqueue = counting()
    runner = tf.train.QueueRunner(queue, [enqueue])
    coord = tf.train.Coordinator()

    first = runner.create_threads(session, coord, start=True)
    second = runner.create_threads(session, coord, start=True)
    coord.request_stop()
    coord.join(stop_grace_period_secs=SOON_S)

    assert (len(first), len(second)) == (2, 0)


def test_queue_runner_keeps_no_session() -> None:
    queue, enqueue = counting()
    runner = tf.train.QueueRunner(queue, [enqueue])
    session = tf.Session()
    coord = tf.train.Coordinator()
    runner.create_threads(session, coord, start=True)
    coord.request_stop()
    coord.join(stop_grace_period_secs=SOON_S)
    session.close()

    expected = weakref.ref(session)
    del session
    gc.collect()

    assert expected() is None
    assert runner.exceptions_raised == []


def test_queue_runner_is_read_from_its_message() -> None:
    queue, enqueue = counting()
    types = (tf.errors.OutOfRangeError, tf.errors.CancelledError)
    made = tf.train.QueueRunner(queue, [enqueue], queue_closed_exception_types=types)

    message: Any = made.to_proto()
    read = tf.train.QueueRunner.from_proto(message)

    assert message.queue_name == "fifo_queue"
    assert message.queue_closed_exception_types == [11, 1]
    assert read.enqueue_ops == [enqueue]
    assert (read.close_op, read.cancel_op) == (made.close_op, made.cancel_op)
    assert read.queue_closed_exception_types == types
    assert made.to_proto("elsewhere") is None


def test_wrong_arguments_of_queue_runners_are_refused() -> None:
    wrong: Any = [tf.errors.OpError]
    queue, enqueue = counting()

    with pytest.raises(ValueError, match="Must provide"):
        tf.train.QueueRunner(queue, [])
    with pytest.raises(TypeError, match="must be a tuple"):
        tf.train.QueueRunner(queue, [enqueue], queue_closed_exception_types=wrong)
    with pytest.raises(ValueError, match="No default session"):
        tf.train.start_queue_runners()
    with pytest.raises(TypeError, match=r"tf\.Session"):
        tf.train.start_queue_runners(sess=7)


def idle(coord: Any) -> threading.Thread:
    """Return a thread that does nothing until its coordinator stops."""
    thread = threading.Thread(target=coord.wait_for_stop)
    coord.register_thread(thread)
    thread.start()
    return thread


def fails(coord: Any, error: BaseException) -> threading.Thread:
    """Return a thread that raises an error."""

    def work() -> None:
        with coord.stop_on_exception():
            raise error

    thread = threading.Thread(target=work, name="fails")
    thread.start()
    return thread


def test_error_of_one_thread_stops_the_others_and_comes_out_of_join() -> None:
    coord = tf.train.Coordinator()
    other = idle(coord)

    with pytest.raises(ZeroDivisionError, match="by nothing"):
        coord.join([fails(coord, ZeroDivisionError("by nothing"))])

    assert not other.is_alive()
    assert coord.joined
    assert coord.should_stop()


def test_first_error_counts_and_is_raised_each_time() -> None:
    coord = tf.train.Coordinator()
    for error in (KeyError("first"), ValueError("second")):
        fails(coord, error).join()

    for _ in range(2):
        with pytest.raises(KeyError, match="first"):
            coord.join()
    with pytest.raises(KeyError, match="first"):
        coord.raise_requested_exception()


def test_error_that_the_program_calls_clean_is_no_failure() -> None:
    coord = tf.train.Coordinator(clean_stop_exception_types=(ZeroDivisionError,))

    coord.join([fails(coord, ZeroDivisionError())])

    assert coord.should_stop()


def test_what_is_no_error_being_handled_is_refused() -> None:
    coord = tf.train.Coordinator()

    with pytest.raises(TypeError, match="current exception"):
        coord.request_stop(KeyError("made here"))

    assert not coord.should_stop()


def test_error_of_a_looper_comes_out_of_join() -> None:
    coord = tf.train.Coordinator()
    looper = tf.train.LooperThread(coord, None, target=lambda: [][0])
    looper.start()

    with pytest.raises(IndexError):
        coord.join()


def test_looper_refuses_what_it_cannot_use() -> None:
    nobody: Any = None

    with pytest.raises(ValueError, match="Coordinator"):
        tf.train.LooperThread(nobody, 1.0)
    with pytest.raises(ValueError, match="target"):
        tf.train.LooperThread(tf.train.Coordinator(), 1.0, args=(1,))
