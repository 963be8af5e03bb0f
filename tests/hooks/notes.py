"""A place where hooks run that is made of plain Python: no graph, no session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kit.hooks import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from kit.hooks.environment import CheckpointBackend


class Counter:
    """A session that gives the next of some values, the last one again and again."""

    def __init__(self, *values: Any) -> None:
        self._values = list(values)

    def run(self, fetches: Any, feed_dict: Any = None) -> Any:
        return self._values.pop(0) if len(self._values) > 1 else self._values[0]


class Time:
    """A clock that only a test turns, or who waits."""

    now = 100.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def __call__(self) -> float:
        return self.now


class Notes:
    """Keeps what it is told; what counts the steps is called `step`."""

    def __init__(self, step: Any = "step") -> None:
        self._step = step
        self.lines: list[tuple[str, str]] = []
        self.saved: list[tuple[str, int]] = []
        self.fails: Callable[[int], None] = lambda step: None
        self.is_written: bool | None = True

    def global_step(self) -> Any:
        return self._step

    def fetch(self, asked: Any) -> Any:
        return asked

    def checkpoint_backend(
        self, folder: str, basename: str, saver: Any, scaffold: Any
    ) -> CheckpointBackend:
        return _Kept(self, f"{folder}/{basename}")

    def tracing(self) -> Any:
        return "traced"

    def timeline(self, run_metadata: Any) -> list[dict[str, Any]]:
        return [{"ph": "X", "name": run_metadata}]

    def summary_writer(self, folder: str) -> Any:
        return None

    def measuring(self) -> Any:
        return self

    def progress(self, text: str) -> None:
        self.lines.append(("progress", text))

    def info(self, text: str) -> None:
        self.lines.append(("info", text))

    def warning(self, text: str) -> None:
        self.lines.append(("warning", text))

    def error(self, text: str) -> None:
        self.lines.append(("error", text))

    def texts(self, kind: str) -> list[str]:
        return [text for item, text in self.lines if item == kind]


Hook = TypeVar("Hook", bound=SessionRunHook)


def begun(hook: Hook) -> Hook:
    """Return a hook that has begun."""
    hook.begin()
    return hook


class _Kept:
    def __init__(self, notes: Notes, path: str) -> None:
        self._notes, self._path = notes, path

    def begin(self) -> None:
        self._notes.saved.append(("begin", -1))

    def describe(self, session: Any, step: int) -> None:
        self._notes.saved.append(("describe", step))

    def save(self, session: Any, step: int) -> str:
        self._notes.fails(step)
        self._notes.saved.append((self._path, step))
        return self._path

    def is_written(self, step: int) -> bool | None:
        return self._notes.is_written

    def end(self) -> None:
        self._notes.saved.append(("end", -1))


def one_run(hook: SessionRunHook, session: Any, results: Any) -> bool:
    """Let a hook see one run; returns whether it asks for the end."""
    context = SessionRunContext(SessionRunArgs("loss"), session)
    hook.before_run(context)
    hook.after_run(context, SessionRunValues(results, None, "metadata"))
    return context.stop_requested
