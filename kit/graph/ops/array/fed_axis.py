"""An op along an axis that only a run knows; its sizes are then unknown before.

AlongAxis(x, y, axis, op="ConcatV2")        ConcatV2(x, y) along the value of axis
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from kit.errors import InvalidArgumentError
from kit.graph.static import Static
from kit.graph.table import Attrs, enter, lookup, missing


def _infer(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    return [Static(attrs["shape"], inputs[0].dtype)] * int(attrs["n"])


def _along(
    xp: ModuleType, *inputs: Any, op: str, n: int, shape: Any, **attrs: Any
) -> Any:
    *xs, axis = inputs
    rank, axes = xs[0].ndim, axis.reshape(-1).tolist()
    is_list = op == "ReverseV2"
    if not is_list and len(axes) != 1:
        raise InvalidArgumentError(f"the axis must have exactly one element: {axes}.")
    if any(not -rank <= item < rank for item in axes):
        raise InvalidArgumentError(f"{axes} is out of valid range of {rank} axes.")
    if len({item % rank for item in axes}) != len(axes):
        raise InvalidArgumentError(f"an axis is specified more than once in {axes}.")
    chosen = tuple(axes) if is_list else axes[0]
    return lookup(op).kernel(xp, {**attrs, "axis": chosen})(*xs)


enter("AlongAxis", _infer, _along, missing, n_outputs=lambda attrs: int(attrs["n"]))
