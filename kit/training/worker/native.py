"""The compiled part for thousands of parameters, and the marks that it sets.

Ten thousand parameters are ten thousand lines of memory that no cache holds, and a
visit to each from Python costs more than its bytes.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from kit.exchange.ports.memory import Array
from kit.native import library

_FORM = 3  # as in many.c
FEW = 200  # for fewer parameters nothing is gained


@cache
def compiled() -> ctypes.CDLL | None:
    """Return the functions of `many.c`, if they were built."""
    # PyDLL holds the interpreter lock during a call: dicts and arrays are read without
    # references of our own, so nothing may change them meanwhile.
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


# --------------------------------------------------------------------------------------
# Mark the places of gradients before each step, to find those that the step left out.


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
    # `data_as` keeps a reference to the array in each pointer.
    pointers = (
        array.ctypes.data_as(ctypes.c_void_p)
        for array in (flat, np.ascontiguousarray(where, np.int64))
    )
    return partial(call, *pointers, len(where), mark)


# --------------------------------------------------------------------------------------
# Copy the arrays of a dict into one flat array.
#
# For thousands of small arrays the way to each is what costs: its reference in the
# dict, its header, its shape and its bytes are in four places, and none of ten thousand
# is in a cache. Compiled code requests many of them from the memory at a time, and
# counts no reference. Without it there is `Gather` of `gradient_buffer`.


_C_CONTIGUOUS = 1


class DictGather:
    """Places for the values of dicts that all have the same names, in one order."""

    def __init__(self, compiled: ctypes.CDLL, places: Mapping[str, Array]) -> None:
        """`compiled` is many.c; the places are contiguous."""
        self._gather = compiled.kit_gather
        self._places = dict(places)  # keeps what the table points to
        shapes = [length for place in places.values() for length in place.shape]
        self._shapes = np.array(shapes, np.intp)
        self._table = np.array(self._rows(), np.intp)
        self._row = self._table.ctypes.data
        self._at, self._done = ctypes.c_ssize_t(), 0

    def begin(self, values: Any) -> bool:
        """Go to the first value; whether `values` is a dict of the right size."""
        self._at.value = self._done = 0
        return type(values) is dict and len(values) == len(self._places)

    def copy(self, values: dict[str, Any], n: int) -> bool:
        """Copy the next n values of the dict; whether they were fit for it.

        They are if their names are the same objects as those of the places, in that
        order, and each is an array of numpy, contiguous, of its place's shape and
        dtype. If not, some places may have been written.
        """
        row = self._row + self._done * self._table.strides[0]
        self._done += n
        at, kind = ctypes.byref(self._at), id(np.ndarray)
        return bool(self._gather(values, at, row, n, kind) == n)

    def _rows(self) -> list[tuple[int, ...]]:
        # As `Place` in many.c. The ids stay valid: `_places` keeps all these objects.
        rows: list[tuple[int, ...]] = []
        dims = self._shapes.ctypes.data
        for name, place in self._places.items():
            to, n_bytes, dtype = _data(place), place.nbytes, id(place.dtype)
            rows.append((id(name), to, n_bytes, dtype, dims, place.ndim))
            dims += place.ndim * self._shapes.itemsize
        return rows


class _Header(ctypes.Structure):
    """How an array begins: Array in many.c."""

    _fields_ = (
        ("references", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("n_dimensions", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


def dict_gather(places: Mapping[str, Array]) -> DictGather | None:
    """Return what fills these places; None if they are few, or without the library."""
    found = compiled()
    if found is None or len(places) <= FEW or not _can_be_relied_on():
        return None
    return DictGather(found, places)


@cache
def _can_be_relied_on() -> bool:
    """Compare how numpy's arrays begin with what the compiled part takes them for."""
    if sys.implementation.name != "cpython":
        return False
    some = np.arange(24.0).reshape(2, 3, 4)
    kinds = (some, some.T, some[:, 1], some[0, 0, 1:2].astype("i4"), np.zeros(()))
    return all(map(_begins_as_expected, kinds))


def _begins_as_expected(array: Array) -> bool:
    head = _Header.from_address(id(array))
    return (
        (head.type, head.dtype) == (id(np.ndarray), id(array.dtype))
        and (head.data, head.n_dimensions) == (_data(array), array.ndim)
        and bool(head.flags & _C_CONTIGUOUS) == array.flags.c_contiguous
        and tuple(head.shape[: array.ndim]) == array.shape
    )


def _data(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
