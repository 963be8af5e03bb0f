"""What users give to a group, as numpy arrays, and results of the same kind again.

An array of numpy, cupy or torch, a number, or a dict or list of them. What a value is
like is said in a text, which tasks compare.
"""

from __future__ import annotations

import json
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.arrays import like, to_numpy
from kit.bfloat16 import kind_of
from kit.errors import InvalidArgumentError
from kit.exchange.topologies import topology as topologies
from kit.exchange.topologies.topology import Topology

Array = npt.NDArray[Any]
Form = Any  # plain data that says how a value is put together

_NUMBERS = {"bool": bool, "int": int, "float": float, "complex": complex}
_MOST_NUMBER = 2**63


@dataclass
class Value:
    """A value taken apart: its arrays in order, how it was made of them, and whose."""

    arrays: list[Array]
    form: Form
    originals: list[Any]  # the arrays as they were given, for results of their library
    compared: Form = None  # its form before the arrays were converted

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def text(self) -> str:
        """What it is like: `float32[3, 4]`, `int`, `dict of 'w': float32[3]`."""
        return said(self.compared or self.form)

    def put_into(self, places: Sequence[Array]) -> None:
        """Copy the arrays to flat arrays of their dtype."""
        for array, target in zip(self.arrays, places, strict=True):
            np.copyto(target.reshape(array.shape), array)


def taken(value: Any, what: str, op: str = "") -> Value:
    """Take a value apart; `InvalidArgumentError` for what has no fixed bytes.

    For means whole numbers become float64, as in numpy: their sum might wrap.
    """
    value_taken = Value([], None, [])
    value_taken.form = _take(value, what, value_taken)
    if op == "mean":
        value_taken.compared = value_taken.form
        value_taken.form = _as_float(value_taken.form)
        dtypes = [np.dtype(name) for name, _ in leaves(value_taken.form)]
        pairs = zip(value_taken.arrays, dtypes, strict=True)
        value_taken.arrays = [array.astype(dtype, copy=False) for array, dtype in pairs]
    return value_taken


def _take(value: Any, what: str, into: Value) -> Form:
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise InvalidArgumentError(
                f"{what}() got a dict with the keys {[*value][:5]!r}; give names as "
                f"keys: {{'w': array}}."
            )
        return {"dict": {name: _take(part, what, into) for name, part in value.items()}}
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_take(part, what, into) for part in value]}
    if value is None or isinstance(value, str | bytes):
        raise InvalidArgumentError(
            f"{what}() got {value!r:.40}; give an array, a number, or a dict or list "
            f"of them. A text travels as bytes: np.frombuffer(text.encode(), np.uint8)."
        )
    number = _kind_of_number(value)
    if number == "int" and not -_MOST_NUMBER <= value < _MOST_NUMBER:
        raise InvalidArgumentError(
            f"{what}() got {value}, which has more than 64 bits; give a float, or "
            f"split it up."
        )
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidArgumentError(
            f"{what}() got a masked array, whose mask would be lost; give "
            f"x.filled(0), and x.mask beside it."
        )
    array = to_numpy(value)
    into.arrays.append(array)
    into.originals.append(value)
    return {"a": [name_of(array.dtype), list(array.shape), number]}


def _kind_of_number(value: Any) -> str:
    if isinstance(value, np.generic):
        return "scalar"
    for name, kind in _NUMBERS.items():
        if type(value) is kind:
            return name
    if isinstance(value, numbers.Number):
        return "scalar"
    return ""


@cache
def name_of(dtype: np.dtype[Any]) -> str:
    """Return the text that gives the same dtype back.

    >>> name_of(np.dtype("float32")), name_of(np.dtype(">i2"))
    ('float32', '>i2')
    """
    if dtype.names is not None:
        raise InvalidArgumentError(
            f"an array of {dtype} has several fields; send each: array['x'], or its "
            f"bytes: array.view(np.uint8)."
        )
    try:
        return dtype.name if np.dtype(dtype.name) == dtype else dtype.str
    except TypeError:
        return dtype.str


def leaves(form: Form) -> list[tuple[str, tuple[int, ...]]]:
    """Return dtype and shape of each array of a form, in order."""
    ((kind, rest),) = form.items()
    if kind == "a":
        return [(rest[0], tuple(rest[1]))]
    parts = rest.values() if kind == "dict" else rest
    return [leaf for part in parts for leaf in leaves(part)]


def size_of(form: Form) -> int:
    """Return the bytes of all arrays of a form."""
    return sum(n_bytes(*leaf) for leaf in leaves(form))


def n_bytes(dtype: str, shape: Sequence[int]) -> int:
    """Return the bytes of an array.

    >>> n_bytes("float32", (3, 4))
    48
    """
    return int(np.dtype(dtype).itemsize * np.prod(shape, dtype=np.int64))


def said(form: Form) -> str:
    """Return what a value of this form is like, in words.

    >>> said({"list": [{"a": ["float32", [2, 3], ""]}, {"a": ["int64", [], "int"]}]})
    'list of float32[2, 3], int'
    """
    ((kind, rest),) = form.items()
    if kind == "a":
        dtype, shape, number = rest
        if number and number != "scalar":
            return str(number)
        return f"{dtype}{shape}" if shape or not number else dtype
    if kind == "dict":
        return "dict of " + ", ".join(
            f"{k!r}: {said(part)}" for k, part in rest.items()
        )
    return f"{kind} of " + ", ".join(map(said, rest))


def rebuilt(form: Form, arrays: Sequence[Array], originals: Sequence[Any] = ()) -> Any:
    """Return a value of this form of its arrays, each of its original's library.

    The arrays become part of it: give copies.
    """
    return _rebuild(form, iter(arrays), iter(originals or [None] * len(arrays)))


def _rebuild(form: Form, arrays: Any, originals: Any) -> Any:
    ((kind, rest),) = form.items()
    if kind == "dict":
        return {k: _rebuild(part, arrays, originals) for k, part in rest.items()}
    if kind in ("list", "tuple"):
        parts = [_rebuild(part, arrays, originals) for part in rest]
        return tuple(parts) if kind == "tuple" else parts
    array, original = next(arrays), next(originals)
    if rest[2] in _NUMBERS:
        return array.item()
    if rest[2] == "scalar":
        return array[()]
    return array if original is None else like(array, original)


def _as_float(form: Form) -> Form:
    """Return a form in which all whole numbers are float64."""
    ((kind, rest),) = form.items()
    if kind == "dict":
        return {kind: {name: _as_float(part) for name, part in rest.items()}}
    if kind != "a":
        return {kind: [_as_float(part) for part in rest]}
    name, shape, number = rest
    if np.dtype(name).kind not in "iu":
        return form
    return {kind: ["float64", shape, "float" if number == "int" else number]}


def packed(form: Form) -> bytes:
    """Return a form as bytes."""
    return json.dumps(form, separators=(",", ":")).encode()


def unpacked(data: bytes) -> Form:
    """Return the form of such bytes; `ValueError` if they are of none."""
    form = json.loads(data)
    try:
        said(form)
        size_of(form)
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{data!r:.80} does not say how a value is made") from error
    return form


def shaped_as(form: Form, arrays: Sequence[Array]) -> list[Array]:
    """Return flat arrays in the shapes of a form's arrays."""
    pairs = zip(leaves(form), arrays, strict=False)
    return [array.reshape(shape) for (_, shape), array in pairs]


# --------------------------------------------------------------------------------------
# What the arguments of a group's calls mean; bad ones are refused before anybody asks.
#
# Pure.

_EXACT = {"sum": "sum", "prod": "math.prod"}  # what does not wrap, by op
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


def ufunc_of(what: str, op: str, value: Value, n: int) -> np.ufunc:
    """Return what combines `n` values; raises for those that it does not suit."""
    if not isinstance(op, str) or op not in OPS:
        raise InvalidArgumentError(
            f"{what}() got op={op!r}; there are {', '.join(OPS)}."
        )
    for array in value.arrays:
        if not _suits(op, array.dtype):
            line = "np.int64(x)"
            if not array.dtype.isnative:
                line = f"x.astype({array.dtype.newbyteorder('=').name!r})"
            raise InvalidArgumentError(
                f"{what}() cannot make the {op} of {array.dtype}; convert it first, "
                f"for example {line}."
            )
    for number in value.originals:
        if type(number) is int and _may_wrap(number, op, n):
            raise InvalidArgumentError(
                f"{what}() got {number}, and the {op} of {n} such numbers may have "
                f"more than 64 bits. Give float({number}), which is rounded, or gather "
                f"them: {_EXACT[op]}(group.all_gather(x)) is exact."
            )
    return OPS[op]


def _may_wrap(number: int, op: str, n: int) -> bool:
    """Whether `n` whole numbers of this size can make one of more than 64 bits.

    >>> _may_wrap(2**61, "sum", 3), _may_wrap(2**61, "sum", 4), _may_wrap(-3, "prod", 2)
    (False, True, False)
    """
    most = abs(number) ** n if op == "prod" else abs(number) * n
    return op in _EXACT and most >= _MOST_NUMBER


@cache
def _suits(op: str, dtype: np.dtype[Any]) -> bool:
    empty = np.empty(0, dtype)
    try:
        fits = OPS[op](empty, empty).dtype == dtype
    except TypeError:
        fits = False
    if op == "mean":
        fits = fits and kind_of(dtype) in "iufc"
    return fits and (dtype.kind != "b" or op in ("max", "min"))


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
        _check_fit(array, np.dtype(name), tuple(shape), what)


def _check_fit(
    array: Array, dtype: np.dtype[Any], shape: tuple[int, ...], what: str
) -> None:
    if array.shape != shape or not np.can_cast(dtype, array.dtype, "same_kind"):
        raise InvalidArgumentError(
            f"{what}() got out={array.dtype}{list(array.shape)} for a result of "
            f"{dtype}{list(shape)}; give an array of this shape and dtype."
        )


def fill(
    room: Sequence[Array], results: Sequence[Array], divisor: int, what: str
) -> None:
    """Put flat results into their places, divided by a number."""
    if [item.size for item in room] != [result.size for result in results]:
        raise InvalidArgumentError(
            f"out= has room for {[item.size for item in room]} numbers, and the "
            f"results have {[result.size for result in results]}; give an array for "
            f"each result, of its shape."
        )
    for array, result in zip(room, results, strict=True):
        _check_fit(array, result.dtype, array.shape, what)
    for array, result in zip(room, results, strict=True):
        shaped = result.reshape(array.shape)
        if divisor == 1 and array is result:
            continue  # it was lent, so it is there
        if divisor == 1:
            np.copyto(array, shaped, casting="same_kind")
        else:
            np.divide(shaped, divisor, out=array, casting="same_kind")
