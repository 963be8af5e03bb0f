"""What cases with several attempts share: names of errors, threads, noting hooks.

Runs under the interpreters of the recorded systems too, so it stays with the syntax of
Python 3.7.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.tf1.look import Case, makes_case, tf

if TYPE_CHECKING:  # Python 3.7 cannot evaluate this
    Call = Callable[..., Any]

STAGES = ("begin", "after_create_session", "before_run", "after_run", "end")


def attempt(call: Call, *arguments: Any, **named: Any) -> Any:
    """Call, and tell the value or the name of the error."""
    try:
        return call(*arguments, **named)
    except Exception as error:
        return name_of(error)


def name_of(error: BaseException) -> str:
    """Tell the name that the original has for such an error."""
    for kind in type(error).__mro__:
        name = kind.__name__
        if kind.__module__ == "builtins" or hasattr(tf.errors, name):
            return name
        if name == "NanLossDuringTrainingError":
            return name
    raise AssertionError(f"{error!r} is of no class that has a name.")


def attempts(session: Any, fetches: list[Any]) -> list[Any]:
    """Run fetches one after the other, going on after errors."""
    return [attempt(session.run, fetch) for fetch in fetches]


@makes_case
def steps(session: Any, make: Case) -> Any:
    """Return a case that runs fetches one after the other, going on after errors."""
    return [parts_of(item) for item in attempts(session, make())]


def parts_of(value: Any) -> Any:
    """Tell the three parts of a sparse value that was fetched."""
    if hasattr(value, "indices"):
        shape = value.shape if hasattr(value, "shape") else value.dense_shape
        return [value.indices, value.values, shape]
    return value


class Later:
    """A call in a thread of its own, such as a run that waits."""

    def __init__(self, call: Call, *arguments: Any, **named: Any) -> None:
        self._found: list[Any] = []
        self._thread = threading.Thread(
            target=lambda: self._found.append(attempt(call, *arguments, **named)),
            daemon=True,
        )
        self._thread.start()

    def is_waiting(self, seconds: float = 0.1) -> bool:
        """Tell whether it is still under way after so many seconds."""
        self._thread.join(seconds)
        return self._thread.is_alive()

    def result(self) -> Any:
        """Wait for the value or the name of the error."""
        self._thread.join(10.0)
        return self._found[0] if self._found else "still waits"


def noting(log: list[Any], name: str = "hook", **replies: Call) -> Any:
    """Return a hook that notes its calls; a reply is called for a stage of its name."""

    def method(stage: str) -> Call:
        def call(self: Any, *arguments: Any) -> Any:
            log.append(f"{name} {stage}")
            return replies[stage](*arguments) if stage in replies else None

        return call

    stages = {stage: method(stage) for stage in STAGES}
    return type("Noting", (tf.train.SessionRunHook,), stages)()


def noted(log: list[Any], value: Any) -> str:
    """Note a value; return a text, as a formatter does."""
    log.append(value)
    return "noted"


def raising(error: BaseException) -> Call:
    """Return a function that raises it, whatever it is called with."""

    def fail(*arguments: Any, **named: Any) -> Any:
        raise error

    return fail
