"""Rows of a variable changed in one indivisible step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kit.graph.convert import make, tensor
from kit.graph.dtypes import name_of
from kit.graph.kernels import segments
from kit.graph.op import Tensor
from kit.graph.ops.array.rows import check_whole
from kit.graph.ops.state.state import Ref
from kit.graph.static import Static, agrees, text
from kit.graph.table import Attrs, OpDef, register


def scatter(
    kind: str, ref: Tensor, indices: Any, updates: Any, name: str | None = None
) -> Tensor:
    """Return an op that changes rows of a variable; its result is the new value.

    `kind` is update, add, sub, mul, div, min or max. `updates` has the shape of
    `indices` and then that of a row, or no axis. An index that occurs several times is
    applied as often, in order. An index out of range is an error in a run.
    """
    with ref.graph.as_default(), ref.graph.colocate_with(ref.op):
        values = tensor(updates, ref.static.dtype, name="updates")
        rows = tensor(indices, name="indices")
        return make(_TYPES[kind], ref, rows, values, name=name)


def _infer(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    ref, indices, updates = inputs
    check_whole(indices)
    if ref.dtype != updates.dtype:
        raise TypeError(
            f"a variable of {name_of(ref.dtype)} cannot take {name_of(updates.dtype)}; "
            f"cast the updates."
        )
    if ref.shape is not None and indices.shape is not None:
        wanted = (*indices.shape, *ref.shape[1:])
        if updates.shape != () and not agrees(wanted, updates.shape):
            raise ValueError(
                f"updates of {text(updates.shape)} do not fit indices of "
                f"{text(indices.shape)} into {text(ref.shape)}, which need "
                f"{text(wanted)}."
            )
    return [Static(ref.shape, ref.dtype)]


def _forward(kind: str) -> Callable[..., Any]:
    def forward(call: Any, ref: Ref, indices: Any, updates: Any) -> Any:
        return ref.update(
            lambda old: segments.scatter(kind, call.xp, old, indices, updates)
        )

    return forward


_TYPES = {
    "update": "ScatterUpdate",
    "add": "ScatterAdd",
    "sub": "ScatterSub",
    "mul": "ScatterMul",
    "div": "ScatterDiv",
    "min": "ScatterMin",
    "max": "ScatterMax",
}
for _kind, _type in _TYPES.items():
    register(OpDef(_type, _infer, _forward(_kind), stateful=True, refs=(0,)))
