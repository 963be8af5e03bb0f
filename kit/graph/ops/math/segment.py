"""Reductions of rows by the number of their segment.

`UnsortedSegment…` takes numbers in any order, of which negative ones are left out, and
the count of segments; `Segment…` takes ascending numbers, and without a count the last
one is the last segment. Both reduce rows in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from kit.bfloat16 import kind_of, limits_of
from kit.errors import InvalidArgumentError
from kit.graph.convert import make
from kit.graph.dtypes import name_of
from kit.graph.kernels import segments
from kit.graph.kernels.bounds import check_indices
from kit.graph.op import Op
from kit.graph.ops.array.rows import check_whole
from kit.graph.ops.array.shape import shape_of
from kit.graph.ops.math.arithmetic import divide, maximum, multiply
from kit.graph.ops.math.cast import cast
from kit.graph.ops.math.compare import equal
from kit.graph.ops.math.elementwise import conj
from kit.graph.static import Static, merge, text
from kit.graph.table import Attrs, Gradient, enter, infer_like, missing

# For each kind: how rows meet, and what a segment begins with.
_KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "Sum": ("add", lambda dtype: 0),
    "Prod": ("mul", lambda dtype: 1),
    "Min": ("min", lambda dtype: _limits(dtype).max),
    "Max": ("max", lambda dtype: _limits(dtype).min),
}


# What the number of rows is raised to, by which a sum is divided.
_POWERS = {"Mean": 1.0, "SqrtN": 0.5}


def _limits(dtype: Any) -> Any:
    return limits_of(dtype) if kind_of(dtype) == "f" else np.iinfo(dtype)


def _infer(is_sorted: bool) -> Callable[..., Sequence[Static]]:
    def infer(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
        data, ids = inputs[:2]
        check_whole(ids, "numbers of segments")
        if kind_of(data.dtype) not in "iufc":
            raise TypeError(f"segments are of numbers, not of {name_of(data.dtype)}.")
        if is_sorted and ids.shape is not None and len(ids.shape) != 1:
            raise ValueError(f"numbers of segments are a list, not {text(ids.shape)}.")
        if data.shape is None or ids.shape is None:
            return [Static(None, data.dtype)]
        rank = len(ids.shape)
        if is_sorted and not data.shape:
            raise ValueError("data without axes has no rows.")
        if not is_sorted:
            merge(data.shape[:rank], ids.shape, "data and numbers of segments")
        count = inputs[2].value if len(inputs) > 2 else None
        size = None if count is None else int(count)
        if size is not None and size < 0:
            raise ValueError(f"the count of segments is {size}; it is not negative.")
        return [Static((size, *data.shape[rank:]), data.dtype)]

    return infer


def _reduced(xp: ModuleType, kind: str, data: Any, ids: Any, count: int) -> Any:
    if data.shape[: ids.ndim] != ids.shape:
        raise InvalidArgumentError(
            f"data.shape = {list(data.shape)} does not start with segment_ids.shape = "
            f"{list(ids.shape)}"
        )
    if kind in _POWERS:
        counts = _counts(xp, ids, count, _POWERS[kind], data.ndim - ids.ndim + 1)
        return (_reduced(xp, "Sum", data, ids, count) / counts).astype(data.dtype)
    combine, begin = _KINDS[kind]
    flat, tail = ids.reshape(-1), data.shape[ids.ndim :]
    rows = data.reshape((flat.size, *tail))
    out = xp.full((count, *tail), begin(data.dtype), data.dtype)
    if bool((flat < 0).any()):
        rows, flat = rows[flat >= 0], flat[flat >= 0]
    check_indices(xp, flat, count)
    if not flat.size or not prod(tail):
        return out
    return segments.scatter(combine, xp, out, flat, rows, in_place=True)


def _counts(xp: ModuleType, ids: Any, count: int, power: float, rank: int) -> Any:
    counts = xp.bincount(ids[ids >= 0].reshape(-1), minlength=count)[:count]
    return xp.maximum(counts, 1).reshape(count, *[1] * (rank - 1)) ** power


def _unsorted(kind: str) -> Callable[..., Any]:

    return lambda xp, data, ids, count: _reduced(xp, kind, data, ids, int(count))


def _sorted(kind: str) -> Callable[..., Any]:
    def forward(xp: ModuleType, data: Any, ids: Any, *count_input: Any) -> Any:
        if ids.shape != data.shape[:1]:
            raise InvalidArgumentError(
                "segment_ids should be the same size as dimension 0 of input."
            )
        if ids.size and (int(ids[0]) < 0 or bool((ids[1:] < ids[:-1]).any())):
            raise InvalidArgumentError("segment ids are not increasing, from 0 on.")
        count = int(ids[-1]) + 1 if ids.size else 0
        count = int(count_input[0]) if count_input else count
        out = _reduced(xp, kind, data, ids, count)
        if kind in ("Min", "Max"):  # a segment without rows is 0 here
            is_empty = xp.ones(count, bool)
            is_empty[ids] = False
            out[is_empty] = 0
        return out

    return forward


def _spread(xp: ModuleType, g: Any, ids: Any, x: Any) -> Any:
    """Return each row's own part of `g`, 0 for rows that are left out."""
    if not g.shape[0]:
        return xp.zeros(ids.shape + g.shape[1:], g.dtype)
    out = xp.take(g, xp.maximum(ids, 0), axis=0)
    out[ids < 0] = 0
    return out


def _own(op: Op, g: Any) -> Any:
    return make("SegmentSpread", g, op.inputs[1], op.inputs[0])


def _spread_share(kind: str) -> Callable[..., Any]:
    def forward(xp: ModuleType, g: Any, ids: Any, x: Any) -> Any:
        counts = _counts(xp, ids, len(g), _POWERS[kind], x.ndim - ids.ndim + 1)
        return _spread(xp, (g / counts).astype(g.dtype), ids, x)

    return forward


def _share_gradient(kind: str) -> Gradient:
    def gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
        x, ids, *rest = op.inputs
        by = make(f"Segment{kind}Grad", gradients[0], ids, x)
        return [by, *[None] * (1 + len(rest))]

    return gradient


def _spread_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    back = _sum(op.inputs[1], gradients[0], op.inputs[0])
    return [back, None, None]


def _sum(ids: Any, rows: Any, like: Any) -> Any:
    return make("UnsortedSegmentSum", rows, ids, shape_of(like)[0])


def _sum_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [_own(op, gradients[0]), *[None] * (len(op.inputs) - 1)]


def _extreme_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    x, ids = op.inputs[:2]
    chosen = cast(equal(x, _own(op, op.outputs[0])), x.static.dtype)
    times = maximum(_sum(ids, chosen, op.outputs[0]), 1)  # 0 where no row is
    share = divide(gradients[0], times)
    return [multiply(chosen, _own(op, share)), *[None] * (len(op.inputs) - 1)]


def _prod_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    parts = make("SegmentProdGrad", op.inputs[0], op.inputs[1], op.outputs[0])
    by = multiply(conj(parts), _own(op, gradients[0]))
    return [by, *[None] * (len(op.inputs) - 1)]


def _products_of_others(xp: ModuleType, x: Any, ids: Any, y: Any) -> Any:
    """Return for each row the product of all others in its segment."""
    is_zero = x == 0
    zeros = _reduced(xp, "Sum", is_zero.astype(np.int32), ids, len(y))
    whole = _reduced(xp, "Prod", xp.where(is_zero, 1, x).astype(x.dtype), ids, len(y))
    others = _spread(xp, zeros, ids, x) - is_zero
    return xp.where(others > 0, 0, _spread(xp, whole, ids, x) / xp.where(is_zero, 1, x))


_GRADIENTS = {
    **{"Sum": _sum_gradient, "Prod": _prod_gradient},
    **dict.fromkeys(["Min", "Max"], _extreme_gradient),
    **{kind: _share_gradient(kind) for kind in _POWERS},
}
for _kind, _back in _GRADIENTS.items():
    enter(f"Segment{_kind}", _infer(True), _sorted(_kind), _back, sizes_from=2)
    enter(
        f"UnsortedSegment{_kind}", _infer(False), _unsorted(_kind), _back, sizes_from=2
    )
for _kind in _POWERS:
    _share = _spread_share(_kind)
    enter(f"Segment{_kind}Grad", infer_like(2), _share, missing)
enter("SegmentSpread", infer_like(2), _spread, _spread_gradient)
enter("SegmentProdGrad", infer_like(0), _products_of_others, missing)
