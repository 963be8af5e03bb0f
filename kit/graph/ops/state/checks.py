"""Values that are checked in a run: conditions, shapes, and whether numbers are finite.

A check runs in each run that needs it, and is never folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.op import Op
from kit.graph.ops.state.printing import summary
from kit.graph.static import Static, agrees, merge, text
from kit.graph.table import Attrs, OpDef, infer_fixed, register


def _assert(_: Any, condition: Any, *data: Any, summarize: int) -> tuple[()]:
    if not condition:
        shown = " ".join(f"[{summary(part, summarize)}]" for part in data)
        raise InvalidArgumentError(f"assertion failed: {shown}")
    return ()


def _infer_shape(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    return [Static(merge(inputs[0].shape, attrs["shape"]), inputs[0].dtype)]


def _ensure_shape(_: Any, x: Any, *, shape: Any) -> Any:
    if not agrees(shape, x.shape):
        raise InvalidArgumentError(
            f"Shape of tensor {text(x.shape)} is not compatible with expected shape "
            f"{text(shape)}."
        )
    return x


def _infer_same(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    return [Static(inputs[0].shape, inputs[0].dtype)]


def _check_numerics(_: Any, x: Any, *, message: str) -> Any:
    for what, is_there in (("Inf", np.isinf(x).any()), ("NaN", np.isnan(x).any())):
        if is_there:
            raise InvalidArgumentError(f"{message} : Tensor had {what} values")
    return x


def _pass(_: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return gradients


register(
    OpDef("Assert", infer_fixed(), _assert, stateful=True, hosted=True, n_outputs=0)
)
register(OpDef("EnsureShape", _infer_shape, _ensure_shape, _pass, stateful=True))
_CHECK: dict[str, Any] = {"stateful": True, "takes": "f"}
register(OpDef("CheckNumerics", _infer_same, _check_numerics, _pass, **_CHECK))
