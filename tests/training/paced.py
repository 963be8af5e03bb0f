"""Trainings that stand until they are let go, for the tests of requests in mid-run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import kit
from kit.server.server import Server
from kit.task import Task
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from kit.wire.rpc import Answer, Handler
from tests.training import toy
from tests.training.toy import Params, fit

LONG_S = 60.0
Answerer = Callable[[dict[str, Any], bytearray], Answer | None]


class Held:
    """A step that waits until it is let go, and keeps the parameters it was given."""

    def __init__(self, function: Any = fit) -> None:
        self.go, self.reached = threading.Event(), threading.Event()
        self._function = function
        self.seen: list[tuple[int, bytes]] = []  # in the order of the calls

    def __call__(self, params: Params, batch: Any) -> Any:
        self.reached.set()
        assert self.go.wait(30)
        bits = b"".join(value.tobytes() for value in params.values())
        self.seen.append((threading.get_ident(), bits))
        return self._function(params, batch)


def begin(cluster: LocalCluster, step: Any = fit, **changes: Any) -> kit.Run:
    """Begin a training of thirty steps, changed as is asked for."""
    return toy.begin(cluster, step, **{"steps": 30, **changes})


def always_one(params: Params, batch: Any) -> Any:
    """Return gradients that are one everywhere."""
    return 0.0, {name: np.ones_like(value) for name, value in params.items()}


def how(run: kit.Run) -> list[tuple[str, int]]:
    """Return the topology of each epoch and its first step."""
    return [(row.topology, row.first_step) for row in run.trace.epochs]


def standing(run: kit.Run, after: int = -1) -> int:
    """Return the step before which a paused training stands, later than another."""
    pause, seen, same = threading.Event(), -1, 0
    for _ in range(400):
        pause.wait(0.05)
        same = same + 1 if run.step == seen and seen > after else 0
        seen = run.step
        if same == 6:
            break
    return seen


def change_answer(
    server: Server, op: str, change: Callable[[Answerer], Answerer]
) -> None:
    """Let a server answer one question otherwise, on links that are opened later."""
    plain = server._handlers

    def handlers(peer: Task, link: Any = None) -> Mapping[str, Handler]:
        table = plain(peer, link)
        return {**table, op: table[op]._replace(answer=change(table[op].answer))}

    server._handlers = handlers  # type: ignore[method-assign]


def answer_with(
    server: Server, op: str, answer: Callable[[dict[str, Any], bytearray], Answer]
) -> None:
    """Let a server give this answer to one question, as `change_answer` does."""
    change_answer(server, op, lambda _: answer)


def wait_for_step(run: kit.Run, step: int) -> None:
    """Wait until the members have agreed to stand before `step`."""
    until(lambda: run.step == step or run.done)
    assert run.step == step


def settled(run: kit.Run) -> int:
    """Return the step at which a paused training stands."""
    pause, seen = threading.Event(), -1
    for _ in range(100):
        pause.wait(0.15)
        if run.step == seen and seen > 0:
            return seen
        seen = run.step
    raise AssertionError(f"the training did not come to rest: step {seen}")
