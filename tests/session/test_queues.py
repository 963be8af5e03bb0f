"""Who takes from a queue, in which order, and what is left when it cannot be served."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

from kit.errors import CancelledError, DeadlineExceededError, OutOfRangeError
from kit.session.worker.queues import Element, FifoQueue
from kit.testing.task_process import until
from tests.session.scene import failure, in_thread

INT = np.dtype("int32")


class Step:
    """Waits as a step does, until it is told to give up."""

    def __init__(self) -> None:
        self.is_over = False

    def wait(
        self, ready: Callable[[], bool], changed: Any, what: Callable[[], str]
    ) -> None:
        give_up = time.monotonic() + 10
        while not ready():
            if self.is_over or time.monotonic() > give_up:
                raise DeadlineExceededError(f"{what()} did not come.")
            changed.wait(0.01)


def until_waiting(q: FifoQueue, takers: int = 0, putters: int = 0) -> None:
    until(lambda: (len(q.takers), len(q.putters)) == (takers, putters))


def elements(*numbers: int) -> list[Element]:
    return [(np.array(number, INT),) for number in numbers]


def numbers(items: list[Element]) -> list[int]:
    return [int(number) for (number,) in items]


@contextmanager
def queue(capacity: int, *held: int) -> Iterator[FifoQueue]:
    """Give a queue, and leave nobody waiting at it."""
    made = FifoQueue("q", capacity, [INT], [()])
    made.enqueue(Step(), elements(*held))
    before = threading.active_count()
    try:
        yield made
    finally:
        if not made.is_closed:
            made.end(Step(), cancel_pending=True)
        until(lambda: threading.active_count() <= before)


def test_more_than_the_capacity_can_be_taken_at_once() -> None:
    with queue(2) as q:
        taken = in_thread(lambda: numbers(q.dequeue(Step(), 5)))
        for number in range(5):
            q.enqueue(Step(), elements(number))

        assert taken.result(10) == [0, 1, 2, 3, 4]
        assert q.size == 0


def test_who_waits_for_many_is_not_overtaken() -> None:
    with queue(-1, 1, 2) as q:
        many = in_thread(lambda: numbers(q.dequeue(Step(), 3)))
        until(lambda: q.size == 0)  # it has what is there
        first = in_thread(lambda: numbers(q.dequeue(Step(), 1)))
        until_waiting(q, takers=2)

        q.enqueue(Step(), elements(3, 4))

        assert many.result(10) == [1, 2, 3]
        assert first.result(10) == [4]


def test_who_gives_up_puts_back_in_order_what_it_had() -> None:
    with queue(-1, 1, 2) as q:
        step = Step()
        many = in_thread(lambda: q.dequeue(step, 3))
        until(lambda: q.size == 0)
        step.is_over = True

        assert "2 of 3 are there" in str(failure(many))
        assert numbers(q.dequeue(Step(), 2)) == [1, 2]


def test_who_gives_up_lets_the_next_one_have_it() -> None:
    with queue(-1, 1, 2) as q:
        step = Step()
        many = in_thread(lambda: q.dequeue(step, 3))
        until(lambda: q.size == 0)
        pair = in_thread(lambda: numbers(q.dequeue(Step(), 2)))
        until_waiting(q, takers=2)
        step.is_over = True

        assert isinstance(failure(many), DeadlineExceededError)
        assert pair.result(10) == [1, 2]


def test_closed_queue_that_cannot_serve_keeps_what_was_there() -> None:
    with queue(-1, 1, 2) as q:
        many = in_thread(lambda: q.dequeue(Step(), 3))
        until(lambda: q.size == 0)
        q.end(Step(), cancel_pending=False)

        error = failure(many)

        assert isinstance(error, OutOfRangeError)
        assert "(requested 3, current size 2)" in str(error)
        assert numbers(q.dequeue(Step(), 5, at_most=True)) == [1, 2]


def test_at_most_takes_what_a_closed_queue_had_been_given() -> None:
    with queue(-1, 1, 2) as q:
        many = in_thread(lambda: numbers(q.dequeue(Step(), 3, at_most=True)))
        until(lambda: q.size == 0)
        q.end(Step(), cancel_pending=False)

        assert many.result(10) == [1, 2]
        with pytest.raises(OutOfRangeError):
            q.dequeue(Step(), 1, at_most=True)


def test_nothing_is_lost_or_taken_twice_by_many() -> None:
    with queue(3) as q:
        sizes = [1, 7, 2, 5, 1, 4]  # 20 in all
        takers = [in_thread(partial(q.dequeue, Step(), n)) for n in sizes]
        putters = [
            in_thread(partial(q.enqueue, Step(), elements(*range(at, at + 5))))
            for at in (0, 5, 10, 15)
        ]
        result = [number for taker in takers for number in numbers(taker.result(10))]
        for putter in putters:
            putter.result(10)

        assert sorted(result) == list(range(20))
        assert [len(taker.result()) for taker in takers] == sizes


def test_who_waits_for_room_is_let_go_by_a_close_that_cancels() -> None:
    with queue(1, 1) as q:
        more = in_thread(lambda: q.enqueue(Step(), elements(2)))
        q.end(Step(), cancel_pending=True)

        assert isinstance(failure(more), CancelledError)
        assert q.size == 1


@pytest.mark.parametrize("at_most", [False, True])
def test_close_waits_for_those_who_wait_for_room(at_most: bool) -> None:
    with queue(2, 1, 2) as q:
        more = in_thread(lambda: q.enqueue(Step(), elements(3, 4)))
        until_waiting(q, putters=1)
        closing = in_thread(lambda: q.end(Step(), cancel_pending=False))
        until_waiting(q, putters=2)
        late = in_thread(lambda: q.enqueue(Step(), elements(5)))
        until_waiting(q, putters=3)
        assert not q.is_closed

        assert numbers(q.dequeue(Step(), 4, at_most=at_most)) == [1, 2, 3, 4]

        more.result(10)
        closing.result(10)
        assert q.is_closed
        assert isinstance(failure(late), CancelledError)


def test_who_waits_to_close_is_overtaken_by_a_close_that_cancels() -> None:
    with queue(1, 1) as q:
        more = in_thread(lambda: q.enqueue(Step(), elements(2)))
        until_waiting(q, putters=1)
        closing = in_thread(lambda: q.end(Step(), cancel_pending=False))
        until_waiting(q, putters=2)

        q.end(Step(), cancel_pending=True)

        assert isinstance(failure(more), CancelledError)
        assert "already closed" in str(failure(closing))


def test_who_gives_up_putting_in_lets_the_next_one() -> None:
    with queue(1, 1) as q:
        step = Step()
        first = in_thread(lambda: q.enqueue(step, elements(2)))
        until_waiting(q, putters=1)
        second = in_thread(lambda: q.enqueue(Step(), elements(3)))
        until_waiting(q, putters=2)
        step.is_over = True

        assert isinstance(failure(first), DeadlineExceededError)
        assert numbers(q.dequeue(Step(), 2)) == [1, 3]
        second.result(10)
