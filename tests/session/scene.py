"""Graphs on several tasks, and what a test does while a run is blocked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np

from kit.errors import FailedPreconditionError
from kit.graph.default import default_graph
from kit.graph.op import Op, Tensor
from kit.graph.ops.state.source import constant
from kit.graph.variable import Variable
from kit.session.client.session import Session
from kit.testing.task_process import until

PS, W0, W1 = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"


def at(device: str) -> Any:
    """Place the ops of a block."""
    return default_graph().device(device)


def value(device: str, number: float = 1.0) -> Tensor:
    """Return a constant on a task."""
    with at(device):
        return constant(np.float32(number))


def variable(device: str, name: str, start: Any = 0.0) -> Variable:
    """Return a float32 variable on a task."""
    with at(device):
        return Variable(np.asarray(start, np.float32), name=name)


def never(device: str, name: str = "empty") -> Tensor:
    """Return the next element of a queue into which nobody puts one."""
    attrs: dict[str, Any] = {"dtypes": [np.dtype("int32")], "shapes": [()]}
    graph = default_graph()
    with at(device):
        queue = graph.create("FIFOQueueV2", capacity=1, shared_name=name, **attrs)
        taken: Op = graph.create("QueueDequeueV2", queue.outputs[0], **attrs)
    element: Tensor = taken.outputs[0]
    return element


def waits_for_ever(device: str) -> tuple[Variable, Tensor]:
    """Return `never` of a device, and a variable that is 1 once it is about to wait."""
    begun = variable(device, "begun")
    with default_graph().control_dependencies([begun.assign(np.float32(1))]):
        return begun, never(device)


def connection_of(session: Session) -> Any:
    """Return a session's way to its master."""
    return session._connection


def sent_of(session: Session) -> Any:
    """Return what a session has sent to its master."""
    return session._sent


def until_it_waits(session: Session, begun: Variable) -> None:
    """Wait until a run of another session has set what `waits_for_ever` gave."""

    def is_set() -> bool:
        try:
            return bool(session.run(begun) == 1)
        except FailedPreconditionError:  # nobody has set it yet
            return False

    until(is_set)


def in_thread(call: Callable[[], Any]) -> Future[Any]:
    """Begin a call in a thread of its own."""
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def failure(future: Future[Any], within_s: float = 5.0) -> BaseException:
    """Return what a call fails with, which must be soon."""
    error = future.exception(within_s)
    assert error is not None, f"it returned {future.result()!r}"
    return error


def works(session: Session, *devices: str) -> bool:
    """Whether a good run on all these tasks gives what it should."""
    with session.graph.as_default():
        parts = [value(device, 2.0) for device in devices]
        with at(devices[0]):
            total = parts[0]
            for part in parts[1:]:
                total = total + part
    result: float = session.run(total, deadline_s=10)
    return result == 2.0 * len(devices)
