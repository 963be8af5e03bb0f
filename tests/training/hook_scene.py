"""Hooks that keep what they are told, and trainings that have them."""

from __future__ import annotations

import threading
from typing import Any

import kit
from kit.hooks import (
    CheckpointSaverListener,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from kit.testing.cluster import LocalCluster
from tests.training.toy import BATCH, DATA, fit, initial

Event = tuple[Any, ...]


def begin(
    cluster: LocalCluster, *hooks: SessionRunHook, step: Any = fit, **options: Any
) -> kit.Run:
    """Begin a training of the toy with hooks; 4 steps, if nothing else is said."""
    chosen: dict[str, Any] = {"steps": 4, "batch": BATCH, "cluster": cluster} | options
    return kit.train(step, initial(), DATA, hooks=hooks, **chosen)


class Noted(SessionRunHook):
    """Writes down each of its moments, with the global step."""

    def __init__(self, name: str, book: list[Event]) -> None:
        self._name, self._book = name, book

    def begin(self) -> None:
        self._book.append((self._name, "begin"))

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._book.append((self._name, "created", session.run("global_step")))

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        self._book.append(
            (self._name, "before", run_context.session.run("global_step"))
        )
        return SessionRunArgs("global_step")

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> None:
        step = run_context.session.run("global_step")
        self._book.append((self._name, "after", run_values.results, step))

    def end(self, session: Any) -> None:
        self._book.append((self._name, "end", session.run("global_step")))


class Gate(SessionRunHook):
    """Holds the training back, before its first step, until it is opened."""

    def __init__(self) -> None:
        self._is_open = threading.Event()

    def after_create_session(self, session: Any, coord: Any) -> None:
        assert self._is_open.wait(30)

    def open(self) -> None:
        self._is_open.set()


class Listener(CheckpointSaverListener):
    """Writes down each of its moments."""

    def __init__(self, book: list[Event], last: int | None = None) -> None:
        """Ask for the end after the save of `last`."""
        self._book, self._last = book, last

    def begin(self) -> None:
        self._book.append(("begin",))

    def before_save(self, session: Any, global_step_value: int) -> None:
        self._book.append(("before", global_step_value))

    def after_save(self, session: Any, global_step_value: int) -> bool | None:
        self._book.append(("after", global_step_value))
        return global_step_value == self._last

    def end(self, session: Any, global_step_value: int) -> None:
        self._book.append(("end", global_step_value))
