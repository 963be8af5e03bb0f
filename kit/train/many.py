"""For thousands of parameters: what a step does with each, in one compiled call.

A step gets a dict of its parameters, which it may change, and places for its gradients,
each of which is marked. For a handful of parameters both cost nothing; for ten thousand
a new dict takes 300 us a step to make and to free, because each of its references is
counted somewhere beyond the cache. So one dict serves all steps, and before it is
handed out again `many.c` compares all its keys and values with what they were. Without
compiled code there is a new dict each time.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from kit.exchange.memory import Array
from kit.native import library

_FORM = 1  # as in many.c
_FEW = 200  # for fewer a call costs more than it saves


@cache
def compiled() -> Any | None:
    """Return the functions of `many.c`; None where they do not fit this interpreter."""
    found = library("kit.train._many", _FORM, ctypes.PyDLL)
    is_alone = getattr(sys, "_is_gil_enabled", lambda: True)()
    if found is None or not is_alone or sys.implementation.name != "cpython":
        return None
    pointer, n = ctypes.c_void_p, ctypes.c_int64
    found.kit_holds.argtypes = [pointer, ctypes.py_object, pointer, n]
    found.kit_holds.restype = n
    for function, mark in (
        (found.kit_mark_32, ctypes.c_uint32),
        (found.kit_mark_64, ctypes.c_uint64),
    ):
        function.argtypes, function.restype = [pointer, pointer, n, mark], None
    return found


class Handout:
    """The same dict each time it is asked for, unless somebody has changed it.

    What is given is always equal to `values`, with the same order and the very same
    values: 50 us for ten thousand where a new dict is 300.
    """

    def __init__(self, values: dict[str, Array], *, native: bool = True) -> None:
        """`values` belongs to this object from now on."""
        self._values = values
        self._given: dict[str, Array] | None = None
        self._holds: Callable[[dict[str, Array]], int] | None = None
        found = compiled() if native and len(values) > _FEW else None
        if found is not None:
            # While `values` lives nothing else can have these addresses.
            ids = [id(one) for pair in values.items() for one in pair]
            pairs, n = np.array(ids, np.uintp), len(values)
            following = ctypes.cast(ctypes.pythonapi.PyDict_Next, ctypes.c_void_p)
            self._holds = lambda given: found.kit_holds(
                following, given, pairs.ctypes.data, n
            )

    def give(self) -> dict[str, Array]:
        """Return a dict that the caller may change."""
        if self._holds is None:
            return dict(self._values)
        if self._given is None or not self._holds(self._given):
            self._given = dict(self._values)
        return self._given


def marker(flat: Array, where: Array, mark: int, *, native: bool) -> Callable[[], None]:
    """Return what sets `flat` to `mark` at these indices.

    `flat` is contiguous and of unsigned integers of 32 or 64 bits.
    """
    found = compiled() if native and len(where) > _FEW else None
    if found is None:
        return lambda: flat.__setitem__(where, mark)
    narrow = flat.dtype.itemsize == 4
    call = found.kit_mark_32 if narrow else found.kit_mark_64
    places = np.ascontiguousarray(where, np.int64)
    return lambda: call(flat.ctypes.data, places.ctypes.data, len(places), mark)
