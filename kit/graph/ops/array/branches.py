"""What joins the two branches of a condition, of which only one has run.

Ops of a branch are guarded (`Graph.guarded`): where the guard does not hold they give
nothing, which the ops of this file alone accept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.convert import make
from kit.graph.op import Op, Tensor
from kit.graph.static import Shape, Static, same_dtype
from kit.graph.table import Attrs, enter, infer_fixed


def _infer_merge(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    first, other = inputs[1:]
    dtype = same_dtype([first, other], "the result of two branches")
    return [Static(_either(first.shape, other.shape), dtype)]


def _either(first: Shape, other: Shape) -> Shape:
    """Return what is known of a shape that is one of two.

    >>> _either((2, 3), (2, 4)), _either((2,), (2, 3))
    ((2, None), None)
    """
    if first is None or other is None or len(first) != len(other):
        return None
    return tuple(x if x == y else None for x, y in zip(first, other, strict=True))


def _merge(_: Any, choice: Any, first: Any, other: Any) -> Any:
    return first if choice else other


def _merge_gradient(op: Op, gradients: Sequence[Tensor | None]) -> Sequence[Any]:
    (gradient,) = gradients
    made: list[Any] = [None]
    for value in op.inputs[1:]:
        with op.graph.guarded(value.op.guards):
            made.append(make("Identity", gradient))  # type: ignore[arg-type]
    return made


def _zeros_unless_run(xp: Any, gradient: Any, like: Any) -> Any:
    return xp.zeros_like(like) if gradient is None else gradient


def _zeros_gradient(op: Op, gradients: Sequence[Tensor | None]) -> Sequence[Any]:
    (gradient,) = gradients
    with op.graph.guarded(op.inputs[0].op.guards):
        return [make("Identity", gradient), None]  # type: ignore[arg-type]


def _infer_like_second(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    return [Static(inputs[1].shape, inputs[1].dtype)]


def _check_cases(_: Any, *choices: Any, needs_one: bool, at_most_one: bool) -> Any:
    n = sum(map(bool, choices))
    if n == 0 and needs_one:
        raise InvalidArgumentError("None of the conditions evaluated as True.")
    if n > 1 and at_most_one:
        raise InvalidArgumentError(
            f"More than one condition evaluated as True but exclusive=True: "
            f"{[bool(choice) for choice in choices]}."
        )
    return np.asarray(n, np.int32)


enter("Merge", _infer_merge, _merge, _merge_gradient)
enter("ZerosUnlessRun", _infer_like_second, _zeros_unless_run, _zeros_gradient)
enter(
    "CheckCases",
    infer_fixed(Static((), np.dtype(np.int32))),
    _check_cases,
    stateful=True,
    hosted=True,
)
