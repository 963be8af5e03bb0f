"""Checks that indices are in range, or names the first one that is not.

Nothing wraps: a negative index is an error, on every device alike.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from kit.bfloat16 import kind_of
from kit.errors import InvalidArgumentError

# Any: an array of whichever module computes.
Array = Any


def check_indices(
    xp: ModuleType, indices: Array, limit: int, what: str = "indices"
) -> None:
    """Raise `InvalidArgumentError` unless all of 0 <= integer < `limit` hold.

    Costs one pass over the indices and, on a device, one wait for its result.

    >>> import numpy as np
    >>> check_indices(np, np.array([[0, 1], [5, -2]]), 5)
    Traceback (most recent call last):
    kit.errors.InvalidArgumentError: indices[1,0] = 5 is not in [0, 5); use an index ...
    """
    kind = kind_of(indices.dtype)
    if kind not in "iu":
        raise InvalidArgumentError(
            f"{what} must be integers and are {indices.dtype}; convert them with "
            f".astype('int64') if they are whole numbers."
        )
    if indices.size == 0:
        return
    # Read as unsigned, a negative number is larger than any limit: one pass, not two.
    unsigned = indices.view(f"u{indices.dtype.itemsize}") if kind == "i" else indices
    if int(unsigned.max()) < limit:
        return
    first = int(xp.argmax((indices.reshape(-1) < 0) | (indices.reshape(-1) >= limit)))
    value = int(indices.reshape(-1)[first])
    raise InvalidArgumentError(
        f"{what}{_position(first, indices.shape)} = {value} is not in [0, {limit}); "
        f"use an index that exists (a negative one does not count from the end)."
    )


def _position(flat: int, shape: tuple[int, ...]) -> str:
    parts: list[str] = []
    for size in reversed(shape):
        flat, part = divmod(flat, size)
        parts.append(str(part))
    return f"[{','.join(reversed(parts))}]" if parts else ""
