"""What a step function keeps from one step to the next: its parameter `state`.

A dict of arrays and numbers by name, one for each worker of a training. It is empty
before the first step. In an elastic training it moves with its worker; a checkpoint
holds it beside the parameters. What a compressor keeps goes with it, under names that
begin with `COMPRESS`.

Packed it has no more bytes than its values and a head, which is JSON and may hold any
name: how long the head is (8 bytes), and for each value its kind, name, dtype, shape
and order in memory; then all bytes. Nothing that is read from there is larger than it.
"""

from __future__ import annotations

import ast
import json
import math
from typing import Any, Final, Literal

import numpy as np

from kit.errors import DataLossError, StepFailed
from kit.task import Task

PREFIX: Final = "state/"
COMPRESS: Final = "compress/"
_MOST_LETTERS: Final = 200
_NUMBERS: Final = {"b": bool, "i": int, "f": float}
_ARRAY, _SCALAR, _HEAD, _MOST_DTYPE = "a", "s", 8, 1000
_NOT_PACKED: Final = (
    TypeError,
    ValueError,
    SyntaxError,
    OverflowError,
    RecursionError,
    MemoryError,
)


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
        return not value.dtype.hasobject and value.dtype.itemsize > 0
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
    head, parts = [], []
    for name, value in state.items():
        array = np.asarray(value)
        dtype = repr(np.lib.format.dtype_to_descr(array.dtype))
        order: Literal["C", "F"] = "F" if array.flags.fnc else "C"
        head.append([_kind(value), name, dtype, array.shape, order])
        parts.append(array.ravel(order).view(np.uint8).data)  # the only copy is `join`
    text = json.dumps(head).encode()
    return b"".join([len(text).to_bytes(_HEAD, "little"), text, *parts])


def unpack(data: Any) -> dict[str, Any]:
    """Rebuild the state from `pack`: the same types, shapes and bits.

    Raises `DataLossError` for anything else.
    """
    if not len(data):
        return {}
    whole, content = memoryview(bytes(data)), dict[str, Any]()
    try:
        at = _HEAD + int.from_bytes(whole[:_HEAD], "little")
        for kind, name, dtype, shape, order in json.loads(bytes(whole[_HEAD:at])):
            array = _array(whole[at:], str(dtype), shape, order)
            content[str(name)] = array if kind == _ARRAY else _number(kind, array)
            at += array.nbytes
    except _NOT_PACKED as exc:
        raise DataLossError(
            f"what a step function had kept is damaged, or was written by an older "
            f"version of psring: {type(exc).__name__}: {exc}."
        ) from exc
    if at != len(whole):
        raise DataLossError(
            f"what a step function had kept is damaged: it has {len(whole)} bytes "
            f"instead of {at}."
        )
    return content


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return _ARRAY
    names = {kind: name for name, kind in _NUMBERS.items()}
    return names.get(type(value), _SCALAR)


def _array(data: memoryview, text: str, shape: Any, order: Any) -> Any:
    """Return an array that `data` begin with, copied; `ValueError` if it is longer."""
    if len(text) > _MOST_DTYPE:
        raise ValueError(f"a dtype of {len(text)} letters")
    dtype = np.lib.format.descr_to_dtype(ast.literal_eval(text))
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"the shape {shape}")
    n_bytes = dtype.itemsize * math.prod(shape)
    if dtype.hasobject or not dtype.itemsize or n_bytes > len(data):
        raise ValueError(f"{dtype}{shape} in {len(data)} bytes")
    return np.ndarray(shape, dtype, data[:n_bytes], order=order).copy("K")


def _number(kind: Any, array: Any) -> Any:
    if array.ndim or kind not in (*_NUMBERS, _SCALAR):
        raise ValueError(f"a value of kind {kind!r} with the shape {array.shape}")
    return array[()] if kind == _SCALAR else _NUMBERS[kind](array[()])
