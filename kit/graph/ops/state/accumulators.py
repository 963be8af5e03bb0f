"""Accumulators: gradients collected on a task until their mean is taken.

`ResourceConditionalAccumulator` and `SparseConditionalAccumulator` give the accumulator
itself; the others take it as such, and run where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.graph.dtypes import STRING
from kit.graph.static import Static, text
from kit.graph.table import Attrs, enter, infer_fixed

REDUCTIONS = ("MEAN", "SUM")


def _infer_accumulator(_: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    if attrs["reduction_type"] not in REDUCTIONS:
        raise ValueError(
            f"reduction_type is {attrs['reduction_type']!r}; give one of: "
            f"{', '.join(REDUCTIONS)}."
        )
    return [Static((2,), STRING)]


def _accumulator(is_sparse: bool) -> Any:

    return lambda call, *, dtype, shape, reduction_type, shared_name="": (
        call.accumulator(is_sparse, dtype, shape, reduction_type, shared_name)
    )


def _check_scalar(static: Static, what: str) -> None:
    if static.shape is not None and static.shape != ():
        raise ValueError(f"{what} is one number, not {text(static.shape)}.")


def _infer_step(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    _check_scalar(inputs[1], "a time step")
    return []


def _infer_dense(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    _check_scalar(inputs[1], "the number of gradients")
    return [Static(attrs["shape"], attrs["dtype"])]


def _infer_rows(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    _check_scalar(inputs[1], "the number of gradients")
    whole = np.dtype(np.int64)
    return [Static(None, whole), Static(None, attrs["dtype"]), Static(None, whole)]


def _apply(n_parts: int) -> Any:
    def forward(_: Any, accumulator: Any, step: Any, *parts: Any, **_attrs: Any) -> Any:
        # Another accumulator of the other kind may have the name.
        if accumulator.n_parts != n_parts or len(parts) != n_parts:
            raise ValueError(
                f"the accumulator {accumulator.name!r} is of the other kind, dense or "
                f"sparse; give yours another name."
            )
        accumulator.apply(int(step), *parts)
        return ()

    return forward


def _take(call: Any, accumulator: Any, n: Any, **_: Any) -> Any:
    return accumulator.take(call, int(n))


def _set_step(_: Any, accumulator: Any, step: Any) -> tuple[()]:
    accumulator.set_step(int(step))
    return ()


_GIVES: dict[str, Any] = {"stateful": True, "gives_ref": True}
_USES: dict[str, Any] = {"stateful": True, "refs": (0,)}
_DOES: dict[str, Any] = {**_USES, "n_outputs": 0}
_TAKES: dict[str, Any] = {**_USES, "blocking": True}


for _prefix, _name, _is_sparse in (
    ("ResourceAccumulator", "ResourceConditionalAccumulator", False),
    ("Accumulator", "SparseConditionalAccumulator", True),
):
    enter(_name, _infer_accumulator, _accumulator(_is_sparse), **_GIVES)
    enter(
        f"{_prefix}NumAccumulated",
        infer_fixed(Static((), np.dtype(np.int32))),
        lambda _, accumulator: np.asarray(accumulator.count, np.int32),
        **_USES,
    )
    enter(f"{_prefix}SetGlobalStep", _infer_step, _set_step, **_DOES)
enter("ResourceAccumulatorApplyGradient", _infer_step, _apply(1), **_DOES)
enter("SparseAccumulatorApplyGradient", _infer_step, _apply(3), **_DOES)
enter("ResourceAccumulatorTakeGradient", _infer_dense, _take, **_TAKES)
enter("SparseAccumulatorTakeGradient", _infer_rows, _take, **_TAKES, n_outputs=3)
