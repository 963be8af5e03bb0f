"""What a step function tells beside its loss: numbers by name, such as its accuracy.

Pure. They are recorded as they are and change nothing; a step that tells nothing costs
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kit.errors import StepFailed
from kit.trace.log import LONGEST_NAME

_MOST = 16


def named(task: str, step: int, given: Any) -> dict[bytes, float]:
    """Return the measures of a step, ready to be recorded.

    Raises `StepFailed` for what is no dict of a few numbers by short names.

    >>> named("worker:0", 7, {"accuracy": 1})
    {b'accuracy': 1.0}
    """
    if not isinstance(given, Mapping) or len(given) > _MOST:
        what = f"{len(given)} of them" if isinstance(given, Mapping) else repr(given)
        raise _failed(
            task,
            step,
            f"step() gave {what} beside loss and gradients; give a dict of at most "
            f"{_MOST} numbers, such as {{'accuracy': 0.9}}.",
        )
    return {
        _name(task, step, name): _number(task, step, name, value)
        for name, value in given.items()
    }


def _name(task: str, step: int, name: Any) -> bytes:
    encoded = name.encode() if isinstance(name, str) else b""
    if 0 < len(encoded) <= LONGEST_NAME:
        return encoded
    raise _failed(
        task,
        step,
        f"step() gave a number called {name!r}; give it a name of 1 to {LONGEST_NAME} "
        f"letters.",
    )


def _number(task: str, step: int, name: Any, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise _failed(
            task,
            step,
            f"step() gave {value!r} as {name!r}; give one number, the mean over this "
            f"worker's examples.",
        ) from error


def _failed(task: str, step: int, text: str) -> StepFailed:
    return StepFailed(f"{task}, step {step}: {text}", task=task, step=step)
