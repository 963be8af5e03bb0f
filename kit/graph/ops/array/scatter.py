"""Elements and slices changed at coordinates, of a variable or of a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.convert import make
from kit.graph.dtypes import name_of
from kit.graph.kernels import segments
from kit.graph.op import Op
from kit.graph.ops.array.rows import flat_places, places
from kit.graph.static import Static, agrees, text
from kit.graph.table import Attrs, enter


def _infer(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    x, indices, updates = inputs
    if x.dtype != updates.dtype:
        raise TypeError(
            f"updates of {name_of(updates.dtype)} are not for {name_of(x.dtype)}; cast "
            f"them."
        )
    if x.shape == ():  # of which the run says that it has no axis for an index
        return [Static(x.shape, x.dtype)]
    lead, depth = places(x.shape, indices)
    if lead is not None and depth is not None and x.shape is not None:
        wanted = (*lead, *x.shape[depth:])
        if not agrees(wanted, updates.shape):
            raise ValueError(
                f"updates of {text(updates.shape)} do not fit indices of "
                f"{text(indices.shape)} into {text(x.shape)}."
            )
    return [Static(x.shape, x.dtype)]


def _changed(kind: str, xp: ModuleType, x: Any, indices: Any, updates: Any) -> Any:
    depth = indices.shape[-1]
    if depth > x.ndim:
        raise InvalidArgumentError(
            f"an index of {depth} numbers is too long for {list(x.shape)}."
        )
    flat = flat_places(xp, indices, x.shape).reshape(-1)
    tail = x.shape[depth:]
    if updates.shape != (*indices.shape[:-1], *tail):
        raise InvalidArgumentError(
            f"updates of {list(updates.shape)} do not fit indices of "
            f"{list(indices.shape)} into {list(x.shape)}."
        )
    rows = updates.reshape((flat.size, *tail))
    lines = x.reshape((prod(x.shape[:depth]), *tail))
    if 0 in rows.shape:
        return x.copy()
    return segments.scatter(kind, xp, lines, flat, rows).reshape(x.shape)


def _of_variable(kind: str) -> Callable[..., Any]:
    def forward(call: Any, ref: Any, indices: Any, updates: Any) -> Any:
        return ref.update(lambda old: _changed(kind, call.xp, old, indices, updates))

    return forward


def _of_copy(kind: str) -> Callable[..., Any]:
    return lambda xp, x, indices, updates: _changed(kind, xp, x, indices, updates)


def _gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    (g,), indices = gradients, op.inputs[1]
    by_updates = make("GatherNd", g, indices)
    if op.type == "TensorScatterUpdate":
        nothing = make("ZerosLike", op.inputs[2])
        return [make("TensorScatterUpdate", g, indices, nothing), None, by_updates]
    is_less = op.type == "TensorScatterSub"
    return [g, None, make("Neg", by_updates) if is_less else by_updates]


for _kind in ("update", "add", "sub"):
    _name = _kind.capitalize()
    _of = _of_variable(_kind)
    enter(f"ScatterNd{_name}", _infer, _of, stateful=True, refs=(0,))
    enter(f"TensorScatter{_name}", _infer, _of_copy(_kind), _gradient)


def _infer_found(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    rows, values = inputs
    if rows.dtype != values.dtype:
        raise TypeError(f"{name_of(values.dtype)} is not among {name_of(rows.dtype)}.")
    lead = None if rows.shape is None else rows.shape[:-1]
    own = None if values.shape is None else values.shape[:-1]
    if None not in (lead, own) and not agrees(lead, own):
        raise ValueError(f"rows of {text(rows.shape)} for values {text(values.shape)}.")
    return [Static(values.shape, attrs["dtype"])]


def _searched(xp: ModuleType, rows: Any, values: Any, *, side: str, dtype: Any) -> Any:
    if rows.shape[:-1] != values.shape[:-1]:
        raise InvalidArgumentError(
            f"rows of {list(rows.shape)} for values of {list(values.shape)}."
        )
    out = xp.zeros(values.shape, dtype)
    for at in np.ndindex(*rows.shape[:-1]):
        out[at] = xp.searchsorted(rows[at], values[at], side)
    return out


enter("SearchSorted", _infer_found, _searched)
