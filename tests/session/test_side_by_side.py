"""Ops of one run that wait for each other are under way at the same time."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from kit.errors import DeadlineExceededError, UnknownError
from kit.graph.default import default_graph
from kit.graph.op import Op, Tensor
from kit.graph.ops.state.function import py_function
from kit.graph.ops.state.source import constant
from kit.session.client.metadata import RunMetadata
from kit.session.client.session import Session
from tests.session.scene import W0, W1, at

WAIT_S = 10.0
QUEUE: dict[str, Any] = {"dtypes": [np.dtype("float32")], "shapes": [()]}


class Meeting:
    """A function that returns once so many of its calls are under way."""

    def __init__(self, n: int) -> None:
        self._barrier = threading.Barrier(n)

    def __call__(self, x: Any) -> Any:
        self._barrier.wait(WAIT_S)
        return np.float32(x)


def called(function: Any, x: Any) -> Tensor:
    result: Tensor = py_function(function, [x], "float32", ())
    return result


def queue() -> tuple[Tensor, Tensor]:
    """Return a queue of one element, and what is taken from it."""
    made = default_graph().create("FIFOQueueV2", capacity=1, shared_name="q", **QUEUE)
    taken = default_graph().create("QueueDequeueV2", made.outputs[0], **QUEUE)
    return made.outputs[0], taken.outputs[0]


def put(into: Tensor, value: Tensor) -> Op:
    made: Op = default_graph().create("QueueEnqueueV2", into, value, **QUEUE)
    return made


def test_functions_meet_whatever_they_are_computed_from() -> None:
    meet = Meeting(3)
    late = constant(np.float32(1)) * 2.0 + 3.0
    fetches = [called(meet, np.float32(i)) * 2.0 for i in range(2)]

    with Session() as session:
        result = session.run([*fetches, called(meet, late)])

    assert result == [0.0, 2.0, 5.0]


def test_functions_meet_that_need_different_ones_before() -> None:
    """The second of each chain meets that of the other, which begins later."""
    meet = Meeting(2)
    first = called(meet, called(lambda x: x + np.float32(1), np.float32(0)))
    other = called(meet, called(lambda x: x + np.float32(2), np.float32(0)))

    with Session() as session:
        assert session.run([first, other]) == [1.0, 2.0]


def test_functions_on_two_tasks_meet_across_what_is_sent(target: Any) -> None:
    meet = Meeting(3)
    with at(W1):
        there = called(meet, np.float32(1))
        doubled = there * 2.0
    with at(W0):
        here = called(meet, np.float32(2))
        other = called(meet, constant(np.float32(3)) + 0.0)
        total = here + other + doubled

    with Session(target) as session:
        assert session.run([total, other]) == [7.0, 3.0]


def test_who_takes_waits_for_who_puts_in_later() -> None:
    into, taken = queue()
    value = called(lambda x: x, np.float32(5))
    fetches = [taken + 1.0, put(into, value)]

    with Session() as session:
        for _ in range(3):
            assert session.run(fetches)[0] == 6.0


def test_a_failure_ends_the_waits_of_the_others_which_take_nothing() -> None:
    def fail(_: Any) -> Any:
        raise RuntimeError("no")

    into, taken = queue()
    failing = called(fail, np.float32(1))
    value = constant(np.float32(7))
    fill = put(into, value)

    with Session() as session:
        with pytest.raises(UnknownError, match="no"):
            session.run([taken, failing])
        session.run(fill)

        assert session.run(taken) == 7.0


def test_a_function_that_waits_for_ever_ends_at_the_deadline() -> None:
    release = threading.Event()
    begun = Meeting(2)

    def wait(x: Any) -> Any:
        begun(x)
        release.wait(WAIT_S)
        return np.float32(x)

    fetches = [called(wait, np.float32(i)) for i in range(2)]
    try:
        with Session() as session, pytest.raises(DeadlineExceededError):
            session.run(fetches, deadline_s=0.5)
    finally:
        release.set()


def test_a_traced_run_notes_all_that_were_under_way() -> None:
    meet = Meeting(2)
    fetches = [called(meet, np.float32(i)) for i in range(2)]
    metadata = RunMetadata()

    with Session() as session:
        session.run(fetches, metadata=metadata)

    names = [node.node for node in metadata.nodes]
    assert {fetch.op.name for fetch in fetches} <= set(names)
