"""Reductions along axes that only a run knows. Others are in `reduce`."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from kit.graph.convert import make, tensor
from kit.graph.dtypes import name_of
from kit.graph.op import Tensor
from kit.graph.static import Static
from kit.graph.table import Attrs, OpDef, lookup, missing, register


def reduce_along(
    kind: str, x: Any, axis: Any, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Return a reduction of `x` along the axes that a tensor of integers names.

    `kind` is the op's type: `Sum`. The result has no gradient. In the run raises
    `InvalidArgumentError` for an axis that `x` does not have.
    """
    made: Tensor = make(
        "ReduceAlong",
        tensor(x),
        tensor(axis),
        name=name,
        kind=kind,
        keepdims=bool(keepdims),
    )
    return made


def _infer(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x, axis = inputs
    if axis.dtype.kind not in "iu":
        raise TypeError(f"axes are integers, not {name_of(axis.dtype)}; cast them.")
    # The op that does the work knows which dtypes it takes, and what it makes of them.
    same = {"axis": (), "keepdims": False}
    (found,) = lookup(attrs["kind"]).infer([Static(x.shape, x.dtype)], same)
    keeps = attrs["keepdims"] and x.shape is not None
    return [Static((None,) * len(x.shape or ()) if keeps else None, found.dtype)]


def _forward(xp: ModuleType, x: Any, axis: Any, *, kind: str, keepdims: bool) -> Any:
    axes = tuple(int(one) for one in axis.reshape(-1).tolist())
    attrs = {"axis": axes, "keepdims": keepdims}
    return lookup(kind).kernel(xp, attrs)(x)


register(OpDef("ReduceAlong", _infer, _forward, missing))
