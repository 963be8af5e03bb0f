"""What the arguments of a group's calls mean; bad ones are refused before anybody asks.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.bfloat16 import kind_of
from kit.errors import InvalidArgumentError
from kit.exchange.topologies import topology as topologies
from kit.exchange.topologies.topology import Topology
from kit.groups.values import Array, Value

OPS = {
    "sum": np.add,
    "mean": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "prod": np.multiply,
}


def topology_of(name: str | None) -> Topology:
    """Return the topology that an all-reduce is carried out by; raises for others."""

    def suits(candidate: Topology) -> bool:
        return candidate.agrees and not candidate.needs_ps

    topology = topologies.by_name(name or topologies.first(suits))
    if not suits(topology):
        names = ", ".join(item.name for item in topologies.registered() if suits(item))
        raise InvalidArgumentError(
            f"algorithm={name!r} is not an all-reduce among workers; choose {names}."
        )
    return topology


def ufunc_of(what: str, op: str, given: Value) -> np.ufunc:
    """Return what combines two values; raises for dtypes that it does not suit."""
    if not isinstance(op, str) or op not in OPS:
        raise InvalidArgumentError(
            f"{what}() got op={op!r}; there are {', '.join(OPS)}."
        )
    for array in given.arrays:
        empty = np.empty(0, array.dtype)
        try:
            fits = OPS[op](empty, empty).dtype == array.dtype
        except TypeError:
            fits = False
        if op == "mean":
            fits = fits and kind_of(array.dtype) in "iufc"
        if not fits or (op in ("sum", "mean", "prod") and array.dtype.kind == "b"):
            raise InvalidArgumentError(
                f"{what}() cannot make the {op} of {array.dtype}; convert it first, "
                f"for example x.astype(np.int64)."
            )
    return OPS[op]


def tag_of(tag: int) -> int:
    """Return the tag of a message as a number; raises for what is none."""
    if not isinstance(tag, int | np.integer) or not 0 <= tag < 2**31:
        raise InvalidArgumentError(f"tag={tag!r}; give a whole number from 0 on.")
    return int(tag)


def room_of(out: Any, what: str) -> list[Array] | None:
    """Return the arrays that results are put into; None if results are to be new."""
    if out is None:
        return None
    room = list(out) if isinstance(out, list | tuple) else [out]
    for array in room:
        if not isinstance(array, np.ndarray) or not array.flags.writeable:
            raise InvalidArgumentError(
                f"{what}() got out={out!r:.80}; give a numpy array that may be written "
                f"to, for the result of an array, or a list of them for several."
            )
    return room


def check_room(
    room: Sequence[Array] | None,
    results: Sequence[tuple[str, Sequence[int]]],
    what: str,
    op: str = "",
) -> None:
    """Refuse room that does not fit results of these dtypes and shapes."""
    if room is None:
        return
    if len(room) != len(results):
        raise InvalidArgumentError(
            f"{what}() got {len(room)} arrays as out= for {len(results)} results; give "
            f"one for each."
        )
    for array, (name, shape) in zip(room, results, strict=True):
        dtype = np.dtype(name)
        if op == "mean" and dtype.kind in "iu":
            dtype = np.dtype(np.float64)
        fits = array.shape == tuple(shape)
        if not fits or not np.can_cast(dtype, array.dtype, "same_kind"):
            raise InvalidArgumentError(
                f"{what}() got out={array.dtype}{list(array.shape)} for a result of "
                f"{dtype}{list(shape)}; give an array of this shape and dtype."
            )


def fill(room: Sequence[Array], results: Sequence[Array], divisor: int) -> None:
    """Put flat results into their places, divided by a number."""
    if [item.size for item in room] != [result.size for result in results]:
        raise InvalidArgumentError(
            f"out= has room for {[item.size for item in room]} numbers, and the "
            f"results have {[result.size for result in results]}; give an array for "
            f"each result, of its shape."
        )
    for array, result in zip(room, results, strict=True):
        shaped = result.reshape(array.shape)
        if divisor == 1:
            np.copyto(array, shaped, casting="same_kind")
        else:
            np.divide(shaped, divisor, out=array, casting="same_kind")
