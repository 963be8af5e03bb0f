"""What a step function keeps from one step to the next: its parameter `state`.

A dict of arrays and numbers by name, one for each worker of a training. It is empty
before the first step. In an elastic training it moves with its worker; a checkpoint
holds it beside the parameters. What a compressor keeps goes with it, under names that
begin with `COMPRESS`.
"""

from __future__ import annotations

import io
from typing import Any, Final

import numpy as np

from kit.errors import StepFailed
from kit.task import Task

PREFIX: Final = "state/"
COMPRESS: Final = "compress/"
_MOST_LETTERS: Final = 200
_NUMBERS: Final = {"b": bool, "i": int, "f": float}


def check(state: dict[str, Any], task: str, step: int) -> None:
    """Raise `StepFailed` for what is neither an array nor a number.

    Arrays become contiguous: an elastic training copies them, and numpy may add the
    elements of another layout in another order.
    """
    for name, value in state.items():
        is_name = isinstance(name, str) and 0 < len(name) <= _MOST_LETTERS
        is_name = is_name and not name.startswith(COMPRESS)
        if not is_name or not _is_plain(value):
            raise StepFailed(
                f"{task}, step {step}: state[{name!r}] is {type(value).__name__}; keep "
                f"arrays of numpy and numbers, by names of at most {_MOST_LETTERS} "
                f"letters that do not begin with {COMPRESS!r}.",
                task=task,
                step=step,
            )
        if isinstance(value, np.ndarray) and not value.flags.forc:
            state[name] = np.ascontiguousarray(value)


def _is_plain(value: Any) -> bool:
    if isinstance(value, np.ndarray | np.generic):
        return not value.dtype.hasobject
    if type(value) is int:  # as numpy stores it, in 64 bits
        return bool(abs(value) < 2**63)
    return type(value) in (bool, float)


def name_of(task: Task) -> str:
    """Return the name of a worker's packed state in a checkpoint.

    >>> name_of(Task("worker", 1))
    'state/worker:1'
    """
    return f"{PREFIX}{task.short}"


def joined(state: dict[str, Any], compression: dict[str, Any]) -> dict[str, Any]:
    """Return what a step function and a compressor keep as one dict.

    >>> parted(joined({"n": 3}, {"residual/w": 0.5}))
    ({'n': 3}, {'residual/w': 0.5})
    """
    return state | {COMPRESS + name: value for name, value in compression.items()}


def parted(kept: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the two parts of `joined`."""
    compression = {
        name.removeprefix(COMPRESS): kept[name]
        for name in kept
        if name.startswith(COMPRESS)
    }
    return {name: kept[name] for name in kept if not name.startswith(COMPRESS)}, (
        compression
    )


def pack(state: dict[str, Any]) -> bytes:
    """Return the state as bytes; b"" for an empty one.

    >>> kept = {"mean": np.float32([1, 2]), "n": 3}
    >>> unpack(pack(kept))
    {'mean': array([1., 2.], dtype=float32), 'n': 3}
    """
    if not state:
        return b""
    file = io.BytesIO()
    arrays = {_kind(value) + name: np.asarray(value) for name, value in state.items()}
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def unpack(data: Any) -> dict[str, Any]:
    """Rebuild the state from `pack`: the same types, shapes and bits."""
    if not len(data):
        return {}
    with np.load(io.BytesIO(bytes(data)), allow_pickle=False) as arrays:
        return {key[1:]: _value(key[0], arrays[key]) for key in arrays.files}


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return "a"
    names = {kind: name for name, kind in _NUMBERS.items()}
    return names.get(type(value), "s")


def _value(kind: str, array: Any) -> Any:
    if kind == "a":
        return array
    number = array[()]
    return _NUMBERS[kind](number) if kind in _NUMBERS else number
