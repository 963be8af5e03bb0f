"""Tensors that count: ranges, one-hot rows, masks of lengths."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kit.graph.array_protocol import ArrayProtocol
from kit.graph.dtypes import name_of
from kit.tf1.ops.cast import cast
from kit.tf1.ops.reduce import reduce_max
from kit.tf1.ops.shape import expand_dims
from kit.tf1.ops.write import index, ints, reserve
from kit.tf1.tensor.constant import to_constant
from kit.tf1.tensor.convert import argument, convert_to_tensor, create, op_scope
from kit.tf1.tensor.dtypes import as_dtype, float32, int32

_RANKED = ("int32", "int64", "float32", "float64")


def range(
    start: Any,
    limit: Any = None,
    delta: Any = 1,
    dtype: Any = None,
    name: str | None = "range",
) -> Any:
    """Return start, start + delta, ... below limit; with one bound it begins at 0.

    Raises `ValueError` for a delta that does not lead from start to limit.
    """
    if limit is None:
        start, limit = 0, start
    wanted = None if dtype is None else as_dtype(dtype)
    with op_scope(name, "range", [start, limit, delta]) as scope:
        given = {"start": start, "limit": limit, "delta": delta}
        common = wanted or _highest(given.values())
        bounds = [_bound(one, common, part) for part, one in given.items()]
        return create("Range", *bounds, name=scope)


def _highest(bounds: Iterable[Any]) -> Any:
    names = [
        name_of(
            one._as_tensor().static.dtype
            if isinstance(one, ArrayProtocol)
            else to_constant(one).dtype
        )
        for one in bounds
    ]
    for name in names:
        if name not in _RANKED:
            raise TypeError(f"a range is of {', '.join(_RANKED)}, not of {name}.")
    return as_dtype(max(names, key=_RANKED.index))


def _bound(given: Any, dtype: Any, name: str) -> Any:
    if not isinstance(given, ArrayProtocol):
        value = to_constant(given)
        return convert_to_tensor(value.astype(dtype.as_numpy_dtype), name=name)
    found = convert_to_tensor(given)
    if found.dtype.base_dtype == dtype:
        return found
    return create("Cast", found, name="Cast", dtype=dtype._base)


def linspace(start: Any, stop: Any, num: Any, name: str | None = None) -> Any:
    """Return `num` numbers from start to stop, both included, equally far apart."""
    with op_scope(name, "LinSpace", [start, stop, num]) as scope:
        first = argument("LinSpace", "start", start)
        last = argument("LinSpace", "stop", stop, first.dtype.base_dtype)
        count = ints("LinSpace", "num", num)
        if not isinstance(count, int):
            raise ValueError(
                f"linspace needs to know num when the line is written, not {num!r}."
            )
        return create("LinSpace", first, last, name=scope, num=count)


lin_space = linspace  # an older name


def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Any:
    """Return `on_value` at each index along a new axis of size `depth`, else the other.

    They are 1 and 0 if left out. Raises `TypeError` when their dtypes, and `dtype`,
    differ.
    """
    with op_scope(name, "one_hot", [indices, depth, on_value, off_value]) as scope:
        wanted = None if dtype is None else as_dtype(dtype)
        on, off = (
            None if one is None else argument("OneHot", what, one)
            for what, one in (("on_value", on_value), ("off_value", off_value))
        )
        wanted = _common(wanted, on, off)
        on = argument("OneHot", "on_value", 1, wanted) if on is None else on
        off = argument("OneHot", "off_value", 0, wanted) if off is None else off
        places = index("OneHot", "indices", indices, ("uint8", "int32", "int64"))
        count = ints("OneHot", "depth", depth)
        if isinstance(count, list):
            raise ValueError(f"depth must be one number, not {count}.")
        attrs: dict[str, Any] = {"axis": -1 if axis is None else axis}
        if isinstance(count, int):
            return create("OneHot", places, on, off, name=scope, depth=count, **attrs)
        return create("OneHot", places, on, off, count, name=scope, depth=None, **attrs)


def _common(wanted: Any, on: Any, off: Any) -> Any:
    for one in (on, off):
        if one is None:
            continue
        dtype = one.dtype.base_dtype
        if wanted is not None and dtype != wanted:
            raise TypeError(
                f"dtype {dtype.name} of on_value or off_value does not match "
                f"{wanted.name}."
            )
        wanted = dtype
    return float32 if wanted is None else wanted


def sequence_mask(
    lengths: Any, maxlen: Any = None, dtype: Any = None, name: str | None = None
) -> Any:
    """Return for each length a row that is true in its first `lengths` places."""
    with op_scope(name, "SequenceMask", [lengths, maxlen]):
        found = convert_to_tensor(lengths, dtype_hint=int32)
        most = reduce_max(found) if maxlen is None else convert_to_tensor(maxlen)
        places = range(0, cast(most, found.dtype), 1, dtype=found.dtype.base_dtype)
        mask = create("Less", places, expand_dims(found, -1), name="Less")
        reserve("Cast")
        return mask if dtype is None else cast(mask, dtype)
