"""Rows by index: gather them, add them up, change them in an array.

Rows of one index meet in the order in which they occur, one after the other, never in
the order in which a device gets to them: the same bits in every run and on every
device. For this they are sorted once, and then round k works on the k-th row of every
index that has so many.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, Final, NamedTuple

from kit.errors import InvalidArgumentError
from kit.graph.kernels.bounds import check_indices

# Any: an array of whichever module computes.
Array = Any
# (rows, more rows) -> rows, written to `out`.
Combine = Callable[..., Any]

_COMBINE: Final = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "min": "minimum",
    "max": "maximum",
}


class _Groups(NamedTuple):
    """Rows grouped by their index: group g has rows order[first[g]], ... count[g]."""

    unique: Array
    order: Array
    first: Array
    count: Array


def gather(xp: ModuleType, params: Array, indices: Array, axis: int = 0) -> Array:
    """Return the slices of `params` along `axis` that the integers `indices` name.

    The shape of `indices` takes the axis' place. Raises `InvalidArgumentError` for an
    index that is negative or too large; on a device this waits for the indices.

    >>> import numpy as np
    >>> gather(np, np.array([5.0, 6.0, 7.0]), np.array([[2, 0]]))
    array([[7., 5.]])
    """
    if not -params.ndim <= axis < params.ndim:
        raise InvalidArgumentError(
            f"axis is {axis}, but the array has the shape {list(params.shape)}; give "
            f"one of its axes."
        )
    check_indices(xp, indices, params.shape[axis])
    return xp.take(params, indices, axis=axis)


def sum_by_index(xp: ModuleType, values: Array, indices: Array) -> tuple[Array, Array]:
    """Return the different indices, ascending, and the sum of each one's rows.

    `indices` is [n], `values` [n, ...]. Rows are added in the order of occurrence.
    Costs a sort of the indices and as many rounds as the most frequent index has rows.
    Raises `InvalidArgumentError` if there is not one index for each row.

    >>> import numpy as np
    >>> sum_by_index(np, np.array([1.0, 2.0, 4.0]), np.array([7, 3, 7]))
    (array([3, 7]), array([2., 5.]))
    """
    if indices.ndim != 1 or values.shape[:1] != indices.shape:
        raise InvalidArgumentError(
            f"the indices have the shape {list(indices.shape)}, the values "
            f"{list(values.shape)}; give one index for each row of values."
        )
    groups = _grouped(xp, indices)
    rows = values[groups.order[groups.first]]
    _fold_repeats(xp, xp.add, rows, values, groups)
    return groups.unique, rows


def scatter(
    kind: str,
    xp: ModuleType,
    target: Array,
    indices: Array,
    values: Array,
    *,
    in_place: bool = False,
) -> Array:
    """Return `target` with its rows at `indices` changed by `values`, one by one.

    `kind` is add, sub, mul, div, min, max or update. `values` has the shape of
    `indices` and then that of a row, or no axis at all. An index that occurs again
    works on what the earlier one has left; of several updates the last one counts.
    Integers are divided towards zero.

    Raises `InvalidArgumentError`, before anything is changed, for an index out of range
    and for values of another shape or dtype. Costs a copy of `target`, unless
    `in_place` has it changed itself, and what `sum_by_index` costs.

    >>> import numpy as np
    >>> scatter("add", np, np.zeros(3), np.array([2, 0, 2]), np.array([1.0, 2.0, 4.0]))
    array([2., 0., 5.])
    """
    flat, values = _checked(xp, target, indices, values)
    out = target if in_place else target.copy()
    if flat.size == 0:
        return out
    groups = _grouped(xp, flat)
    if kind == "update":
        out[groups.unique] = values[groups.order[groups.first + groups.count - 1]]
        return out
    combine = _combine(xp, kind, target, values)
    # Only rows with an index are copied, worked on and put back, each once.
    rows = out[groups.unique]
    combine(rows, values[groups.order[groups.first]], out=rows)
    _fold_repeats(xp, combine, rows, values, groups)
    out[groups.unique] = rows
    return out


def _checked(
    xp: ModuleType, target: Array, indices: Array, values: Array
) -> tuple[Array, Array]:
    """Return the indices as [n] and the values as [n, row], or raise."""
    if target.ndim == 0:
        raise InvalidArgumentError(
            "the target has no rows, since it has no axis; assign to it instead."
        )
    check_indices(xp, indices, target.shape[0])
    tail = target.shape[1:]
    if values.shape not in ((), indices.shape + tail):
        raise InvalidArgumentError(
            f"the values have the shape {list(values.shape)}, but indices "
            f"{list(indices.shape)} into {list(target.shape)} need "
            f"{list(indices.shape + tail)}, or a single number."
        )
    if values.dtype != target.dtype:
        raise InvalidArgumentError(
            f"the values are {values.dtype}, the target {target.dtype}; convert the "
            f"values with .astype({str(target.dtype)!r})."
        )
    shape = (indices.size, *tail)
    rows = values.reshape(shape) if values.ndim else xp.broadcast_to(values, shape)
    return indices.reshape(-1), rows


def _combine(xp: ModuleType, kind: str, target: Array, values: Array) -> Combine:
    if kind == "div" and target.dtype.kind in "iu":
        if not bool(values.all()):
            raise InvalidArgumentError(
                "integers are divided by zero; leave out the rows whose value is 0."
            )
        return partial(_divide_towards_zero, xp)
    combine: Combine = getattr(xp, _COMBINE[kind])
    return combine


def _divide_towards_zero(xp: ModuleType, a: Array, b: Array, *, out: Array) -> None:
    quotient = a // b
    # `//` rounds down: one too low where the signs differ and something is left over.
    quotient += (a != quotient * b) & ((a < 0) != (b < 0))
    out[...] = quotient


def _grouped(xp: ModuleType, indices: Array) -> _Groups:
    n = indices.size
    order = xp.argsort(indices, kind="stable")
    ordered = indices[order]
    is_first = xp.ones(n, dtype=bool)
    if n:
        is_first[1:] = ordered[1:] != ordered[:-1]
    first = xp.flatnonzero(is_first)
    count = xp.empty_like(first)
    count[:-1] = first[1:] - first[:-1]
    count[-1:] = n - first[-1:]
    return _Groups(ordered[first], order, first, count)


def _fold_repeats(
    xp: ModuleType, combine: Combine, rows: Array, values: Array, groups: _Groups
) -> None:
    """Work every row of a group but its first into `rows`, in order, in place."""
    repeated = xp.flatnonzero(groups.count > 1)
    if repeated.size == 0:
        return
    # The longest first: those that take part in a round are then the first ones.
    repeated = repeated[xp.argsort(-groups.count[repeated], kind="stable")]
    lengths = groups.count[repeated].tolist()
    first, part, active = groups.first[repeated], rows[repeated], len(lengths)
    for k in range(1, lengths[0]):
        while lengths[active - 1] <= k:
            active -= 1
        more = values[groups.order[first[:active] + k]]
        combine(part[:active], more, out=part[:active])
    rows[repeated] = part
