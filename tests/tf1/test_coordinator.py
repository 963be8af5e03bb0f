"""Threads that stop together, beside what the recorded cases tell of them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kit import tf1 as tf


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
