"""The compiled part for thousands of parameters, and the marks that it sets.

A place for a gradient is marked before each step, to tell whether the step wrote it.
Ten thousand such places are ten thousand lines of memory that no cache holds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial

import numpy as np

from kit.exchange.ports.memory import Array
from kit.native import library

_FORM = 3  # as in many.c
FEW = 200  # for fewer parameters nothing is gained


@cache
def compiled() -> ctypes.CDLL | None:
    """Return the functions of `many.c`, if they were built."""
    found = library("kit.training.worker._many", _FORM, ctypes.PyDLL)
    if found is None:
        return None
    pointer, n = ctypes.c_void_p, ctypes.c_int64
    found.kit_mark_32.argtypes = [pointer, pointer, n, ctypes.c_uint32]
    found.kit_mark_64.argtypes = [pointer, pointer, n, ctypes.c_uint64]
    found.kit_mark_32.restype = found.kit_mark_64.restype = None
    found.kit_gather.argtypes = [ctypes.py_object, pointer, pointer, n, pointer]
    found.kit_gather.restype = n
    return found


def marker(flat: Array, where: Array, mark: int, *, native: bool) -> Callable[[], None]:
    """Return what sets `flat` to `mark` at these indices.

    `flat` is contiguous and of unsigned integers of 32 or 64 bits. Ten thousand places
    beyond the cache take 90 us, and 160 by numpy.
    """
    found = compiled() if native and len(where) > FEW else None
    if found is None:
        return lambda: flat.__setitem__(where, mark)
    narrow = flat.dtype.itemsize == 4
    call = found.kit_mark_32 if narrow else found.kit_mark_64
    # These pointers keep their arrays.
    pointers = (
        array.ctypes.data_as(ctypes.c_void_p)
        for array in (flat, np.ascontiguousarray(where, np.int64))
    )
    return partial(call, *pointers, len(where), mark)
