"""Threads that stop together: coordinators, loopers, queue runners."""

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


# -- the coordinator -------------------------------------------------------------------


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


@pytest.mark.parametrize("types", [None, (ZeroDivisionError,)])
def test_end_of_the_input_is_no_failure(types: Any) -> None:
    coord = tf.train.Coordinator(clean_stop_exception_types=types)
    clean = tf.errors.OutOfRangeError(None, None, "the end")

    thread = fails(coord, clean if types is None else ZeroDivisionError())

    coord.join([thread])
    assert coord.should_stop()


def test_thread_that_goes_on_is_named_after_its_grace() -> None:
    coord, end = tf.train.Coordinator(), threading.Event()
    thread = threading.Thread(target=end.wait, name="the slow one")
    thread.start()
    try:
        coord.request_stop()

        with pytest.raises(RuntimeError, match="the slow one"):
            coord.join([thread], stop_grace_period_secs=0.05)
        coord.join([thread], stop_grace_period_secs=0.05, ignore_live_threads=True)
    finally:
        end.set()
        thread.join()


def test_error_is_preferred_to_the_names_of_those_who_go_on() -> None:
    coord, end = tf.train.Coordinator(), threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        fails(coord, KeyError("why")).join()

        with pytest.raises(KeyError, match="why"):
            coord.join([thread], stop_grace_period_secs=0.05)
    finally:
        end.set()
        thread.join()


def test_error_that_comes_after_join_is_raised_where_it_is_told() -> None:
    coord = tf.train.Coordinator()
    coord.request_stop()
    coord.join()

    with pytest.raises(KeyError), coord.stop_on_exception():
        raise KeyError("late")


def test_stop_can_be_taken_back() -> None:
    coord = tf.train.Coordinator()
    fails(coord, KeyError("why")).join()

    coord.clear_stop()

    assert not coord.should_stop()
    assert not coord.wait_for_stop(0.0)
    coord.join()


@pytest.mark.parametrize("reason", [KeyError("made here"), "text", (None, None, None)])
def test_what_is_no_error_being_handled_is_refused(reason: object) -> None:
    coord = tf.train.Coordinator()

    with pytest.raises(TypeError, match="current exception"):
        coord.request_stop(reason)

    assert not coord.should_stop()


def test_error_that_is_being_handled_is_an_argument() -> None:
    coord = tf.train.Coordinator()
    try:
        raise KeyError("met")
    except KeyError as error:
        coord.request_stop(error)

    with pytest.raises(KeyError, match="met"):
        coord.join()


# -- loopers ---------------------------------------------------------------------------


@pytest.mark.parametrize("interval", [None, 0.001])
def test_looper_calls_until_the_coordinator_stops(interval: float | None) -> None:
    coord = tf.train.Coordinator()
    calls: list[int] = []

    def call(start: int, *, add: int) -> None:
        calls.append(start + add)
        if len(calls) == 3:
            coord.request_stop()

    looper = tf.train.LooperThread.loop(coord, interval, call, (1,), {"add": 2})
    coord.join()

    assert calls == [3, 3, 3]
    assert not looper.is_alive()


def test_error_of_a_looper_comes_out_of_join() -> None:
    coord = tf.train.Coordinator()
    looper = tf.train.LooperThread(coord, None, target=lambda: [][0])
    looper.start()

    with pytest.raises(IndexError):
        coord.join()
