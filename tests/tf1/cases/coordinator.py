"""The coordinator: threads that stop together, and whose error is told at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.tf1.attempts import attempt, name_of
from tests.tf1.look import Case, makes_case, tf


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
