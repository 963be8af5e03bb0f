"""A function call on an engine and its outcome, as bytes.

These pickles travel only over ipyparallel's encrypted channel, from the notebook to its
own engines and back; the links between tasks never carry any.
"""

from __future__ import annotations

import math
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast

import cloudpickle

from kit.cluster.cells import user_code
from kit.errors import (
    InvalidArgumentError,
    KitError,
    UnknownError,
    from_plain,
    shortened,
    to_plain,
)
from kit.groups import scope
from kit.pickling import dumps
from kit.progress import PlainLines
from kit.task import Task
from kit.training.client.telling import labelled
from kit.training.core.printed import PrintedLines

_MOST_PRINTED: Final = 1000  # lines of one call that come back, the last ones


class Perform:
    """What an engine runs; an object, because its class is then pickled by name."""

    def __call__(self, payload: bytes) -> bytes:
        """Run the packed call and return its packed outcome; never raises."""
        printed = PrintedLines(most_a_second=math.inf, kept=_MOST_PRINTED)
        try:
            code, call, about = cloudpickle.loads(payload)
            user_code.take(code)
            function, args, kwargs = opened(call)
            with printed.of_this_thread(), scope.entered(about):
                value = function(*args, **kwargs)
            outcome = {"value": value, "printed": printed.since(0)[0]}
            return cast(bytes, cloudpickle.dumps(outcome))
        except BaseException as error:  # SystemExit too: it must not end the engine
            text = shortened(traceback.format_exc())
            plain = to_plain(error) | {"traceback": text}
            outcome = {"error": plain, "printed": printed.since(0)[0]}
            return cast(bytes, cloudpickle.dumps(outcome))


def pack(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    tasks: Sequence[Task] = (),
) -> bytes:
    """Return the call as bytes; `InvalidArgumentError` names what cannot travel.

    And what is not a function. `tasks` are those that run it, if it is a user's: they
    may make a group.

    >>> unpack(Perform()(pack(divmod, (7, 2), {})), "/job:worker/task:0")
    (3, 1)
    """
    if not callable(function):
        instead = "the function itself, cluster.call('worker', f), not what it returns"
        if isinstance(function, str):
            instead = f"code to cluster.on('worker', {function[:40]!r})"
        raise InvalidArgumentError(
            f"{function!r:.100} is {type(function).__name__}, not a function; give "
            f"{instead}."
        )
    named = getattr(function, "__name__", type(function).__name__)
    call = dumps((function, tuple(args), dict(kwargs)), f"the call of {named}()")
    # Apart, and after the call: pickling may import what it needs.
    about = scope.about(tasks) if tasks else None
    return cast(bytes, cloudpickle.dumps((user_code.of_this_process(), call, about)))


def opened(pickled: Any, buffers: Any = ()) -> Any:
    """Return what the notebook pickled; its modules are the same here.

    Raises `FailedPreconditionError` for one that is not here, or is not the same.
    """
    try:
        result = cloudpickle.loads(pickled, buffers=buffers)
    except ModuleNotFoundError as error:
        raise user_code.not_found(error) from error
    user_code.check()
    return result


def unpack(outcome: bytes, task: str) -> Any:
    """Return the value, or raise what the call raised, with the task's name.

    Errors of `kit.errors` keep their class, any other becomes `UnknownError`; both have
    the engine's traceback in `remote_traceback`. What the call printed is shown here.
    """
    try:
        plain = cloudpickle.loads(outcome)
    except Exception as error:
        raise UnknownError(
            f"the result of {task} cannot be read here: {type(error).__name__}: "
            f"{error}. Return plain data or arrays, or make the module known here.",
            task=task,
        ) from error
    _show(plain["printed"], task)
    if "error" in plain:
        raise _named(plain["error"], task)
    return plain["value"]


def _show(printed: Sequence[Any], task: str) -> None:
    if not printed or sys.stdout is None:
        return
    name = Task.parse(task).short
    lines = [labelled(f"{name} │ ", text, name) for text in printed]
    with suppress(Exception):  # a stream of the user's must not fail the call
        PlainLines(sys.stdout.write).add(lines)


def _named(plain: dict[str, Any], task: str) -> KitError:
    message = str(plain["message"])
    named = message if task in message else f"on {task}: {message}"
    return from_plain(plain | {"message": named, "task": plain.get("task") or task})
