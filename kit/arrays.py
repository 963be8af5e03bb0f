"""Arrays of any library, seen from numpy: what they are, and their bytes on the host.

The only module that knows cupy. It imports no array library but numpy: an array of
another library proves that this library is loaded already. Data move towards the host
only; nothing here puts an array on a device, and nothing computes with one.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.errors import GradientMismatch, InvalidArgumentError

# Elements looked at together in the slow check of `is_finite`.
_PIECE = 1 << 16


def module_of(x: object) -> ModuleType:
    """Return what computes with `x`: cupy for its own arrays, numpy for all others.

    >>> module_of([1.0, 2.0]).__name__
    'numpy'
    """
    return sys.modules.get("cupy", np) if _library(x) == "cupy" else np


# Any: an array of a library that may not be installed where the types are checked.
def to_numpy(x: Any) -> npt.NDArray[Any]:
    """Return `x` as a numpy array on the host, without a copy where that is possible.

    Takes numpy, cupy, torch, jax and tensorflow arrays, whatever offers `__array__` or
    `__dlpack__`, Python numbers and nested lists of them. The result may share memory
    with `x` and may be read-only. Raises `InvalidArgumentError` for anything that would
    become an array of Python objects. Blocks until a device has finished computing `x`.

    >>> to_numpy([1, 2]) + to_numpy(0.5)
    array([1.5, 2.5])
    """
    try:
        array = _convert(x)
    except (TypeError, ValueError, RuntimeError, BufferError) as exc:
        raise InvalidArgumentError(
            f"{_name(x)} cannot be read as a numpy array: {exc}. Convert it to a dense "
            f"array of numbers in your own code first."
        ) from exc
    if array.dtype.hasobject:
        raise InvalidArgumentError(
            f"{_name(x)} holds Python objects, not numbers; convert it to an array "
            f"with a numeric dtype first."
        )
    return array


# Any: see `to_numpy`.
def copy_into(
    destination: npt.NDArray[Any], x: Any, *, what: str = "the array"
) -> None:
    """Copy `x`, an array of any library, into `destination`.

    Raises `GradientMismatch`, before anything is written, unless shape and dtype are
    exactly those of `destination`; `what` names the array in the message. From cupy
    into a contiguous destination the bytes move once, from the device to their place.
    """
    on_device = _library(x) == "cupy"
    source: Any = x if on_device else to_numpy(x)
    if (tuple(source.shape), source.dtype) != (destination.shape, destination.dtype):
        raise GradientMismatch(
            f"{what} is {source.dtype}{list(source.shape)}, but its place holds "
            f"{destination.dtype}{list(destination.shape)}; return an array of this "
            f"shape and dtype, for example with .astype({str(destination.dtype)!r})."
        )
    if on_device and destination.flags.c_contiguous:
        source.get(out=destination)
    else:
        np.copyto(destination, source.get() if on_device else source)


def is_finite(flat: npt.NDArray[np.floating[Any]]) -> bool:
    """Tell whether a contiguous 1-d float array is free of NaN and infinity.

    Costs one pass at the speed of memory, a second one only when the squares of the
    elements do not add up to a finite number. Raises `InvalidArgumentError` for an
    array of another kind.

    >>> is_finite(np.array([1e300, -1e300])), is_finite(np.array([0.0, np.nan]))
    (True, False)
    """
    if flat.ndim != 1 or flat.dtype.kind != "f":
        raise InvalidArgumentError(
            f"is_finite looks at a 1-d float array and got {flat.dtype}"
            f"{list(flat.shape)}; hand over the flat buffer."
        )
    # NaN and infinity survive every sum of squares, so a finite sum proves their
    # absence. An infinite one proves nothing: squares of large numbers overflow.
    with np.errstate(all="ignore"):
        if np.isfinite(np.dot(flat, flat)):
            return True
    pieces = range(0, flat.size, _PIECE)
    return all(np.isfinite(flat[lo : lo + _PIECE]).all() for lo in pieces)


def _library(x: object) -> str:
    """Return the root package of the first class of `x` that comes from a library."""
    for kind in type(x).__mro__:
        root = kind.__module__.partition(".")[0]
        if root in ("numpy", "cupy", "torch"):
            return root
    return ""


def _name(x: object) -> str:
    return f"a {type(x).__module__}.{type(x).__qualname__}"


def _convert(x: Any) -> npt.NDArray[Any]:
    library = _library(x)
    if library == "cupy" and hasattr(x, "get"):
        return np.asarray(x.get())
    if library == "torch" and hasattr(x, "detach"):
        # A tensor that is tracked, conjugated lazily or on a device refuses numpy().
        return np.asarray(x.detach().cpu().resolve_conj().resolve_neg().numpy())
    if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
        return np.from_dlpack(x)
    return np.asarray(x)
