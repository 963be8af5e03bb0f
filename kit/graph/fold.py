"""Constant folding: the values of small integer tensors, found as the graph is built.

Pure. Shapes are computed by ops like everything else. To know the shape of

    np.reshape(x, [np.shape(y)[0], 4])

those ops are computed at once, as far as their inputs are known. A size that is unknown
until a run is NaN, which spreads through arithmetic as "unknown" should.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kit.bfloat16 import kind_of
from kit.errors import KitError
from kit.graph.dtypes import Array
from kit.graph.static import Shape, Static, known_shape, n_elements
from kit.graph.table import Attrs, OpDef

# Larger values say nothing about shapes, and would only take memory.
SMALL: Final = 64

# Ops that also work if some numbers are unknown (NaN).
_PARTIAL: Final = frozenset(
    {"Identity", "Pack", "Unpack", "ConcatV2", "StridedSlice", "Slice", "GatherV2"}
    | {"Split", "SplitV", "Reshape", "ExpandDims", "Squeeze", "Add", "Sub", "Mul"}
    | {"FloorDiv", "Maximum", "Minimum", "Sum", "Prod", "Neg", "Cast"}
)
# Ops that only join numbers: one known input is enough to know a part.
_JOINING: Final = frozenset({"Pack", "ConcatV2"})
_FAILURES = (KitError, ArithmeticError, LookupError, TypeError, ValueError)


def folded(
    op_def: OpDef, inputs: Sequence[Static], attrs: Attrs, outputs: Sequence[Static]
) -> Sequence[Static]:
    """Return the outputs' statics with their values, where these can be known."""
    if not inputs or op_def.stateful or not all(map(_is_small, outputs)):
        return outputs
    if op_def.name == "Pack":  # what is stacked has one shape, also where unknown
        shape = next(
            (static.shape for static in inputs if static.value is not None), None
        )
        inputs = [
            static._replace(shape=shape) if static.shape is None else static
            for static in inputs
        ]
    arrays = _values(inputs, op_def.name in _JOINING)
    if arrays is None:
        return outputs
    is_partial = any(static.value is None for static in inputs)
    if is_partial and op_def.name not in _PARTIAL:
        return outputs
    results = _computed(op_def, attrs, arrays, is_partial)
    if results is None or len(results) != len(outputs):
        return outputs
    return [_with_value(static, x) for static, x in zip(outputs, results, strict=True)]


def _values(inputs: Sequence[Static], is_joining: bool) -> list[Array] | None:
    """Return the inputs' values, None if nothing is known of one of them."""
    values = [
        static.partial if static.value is None else static.value for static in inputs
    ]
    if is_joining and any(value is not None for value in values):
        values = [
            np.full(known_shape(static.shape), np.nan)
            if value is None and _is_small(static)
            else value
            for static, value in zip(inputs, values, strict=True)
        ]
    whole = [value for value in values if value is not None]
    return whole if len(whole) == len(values) else None


def sizes_of(static: Static) -> Shape:
    """Return the shape that a tensor of sizes gives, as far as it is known.

    >>> sizes_of(Static((2,), np.dtype("int32"), np.array([3, -1], np.int32)))
    (3, None)
    """
    numbers = numbers_of(static)
    if numbers is None:
        return None
    return tuple(None if number is None or number < 0 else number for number in numbers)


def numbers_of(static: Static) -> tuple[int | None, ...] | None:
    """Return the numbers of a small tensor of integers, as far as they are known."""
    value = static.partial if static.value is None else static.value
    if value is not None:
        return tuple(
            int(number) if number == number else None for number in value.reshape(-1)
        )
    if static.shape is not None and len(static.shape) == 1 and static.shape[0]:
        return (None,) * static.shape[0]
    return () if static.shape == (0,) else None


def _is_small(static: Static) -> bool:
    total = n_elements(static.shape)
    return static.dtype.kind in "iub" and total is not None and total <= SMALL


def _computed(
    op_def: OpDef, attrs: Attrs, arrays: Sequence[Array], is_partial: bool
) -> Sequence[Array] | None:
    # The kernel would make some integer of NaN.
    if is_partial and op_def.name == "Cast":
        return arrays
    try:
        with np.errstate(all="ignore"):
            result = op_def.kernel(np, attrs)(*arrays)
    except _FAILURES:
        return None  # the same happens in a run, where the error names the op
    return [np.asarray(x) for x in (result if isinstance(result, tuple) else (result,))]


def _with_value(static: Static, value: Array) -> Static:
    if static.value is not None:
        return static
    if kind_of(value.dtype) == "f" and np.isnan(value).any():
        return static._replace(partial=value)
    return static._replace(value=value.astype(static.dtype))
