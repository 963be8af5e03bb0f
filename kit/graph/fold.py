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
from kit.graph.static import Shape, Static, n_elements
from kit.graph.static import known as known_shape
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
        shape = next((one.shape for one in inputs if one.value is not None), None)
        inputs = [
            one._replace(shape=shape) if one.shape is None else one for one in inputs
        ]
    arrays = _known(inputs, op_def.name in _JOINING)
    if arrays is None:
        return outputs
    is_partial = any(one.value is None for one in inputs)
    if is_partial and op_def.name not in _PARTIAL:
        return outputs
    found = _computed(op_def, attrs, arrays, is_partial)
    if found is None or len(found) != len(outputs):
        return outputs
    return [_with_value(one, x) for one, x in zip(outputs, found, strict=True)]


def _known(inputs: Sequence[Static], is_joining: bool) -> list[Array] | None:
    """Return the inputs' values, None if nothing is known of one of them."""
    found = [one.partial if one.value is None else one.value for one in inputs]
    if is_joining and any(one is not None for one in found):
        found = [
            np.full(known_shape(one.shape), np.nan)
            if known is None and _is_small(one)
            else known
            for one, known in zip(inputs, found, strict=True)
        ]
    whole = [one for one in found if one is not None]
    return whole if len(whole) == len(found) else None


def sizes_of(static: Static) -> Shape:
    """Return the shape that a tensor of sizes gives, as far as it is known.

    >>> sizes_of(Static((2,), np.dtype("int32"), np.array([3, -1], np.int32)))
    (3, None)
    """
    found = numbers_of(static)
    if found is None:
        return None
    return tuple(None if one is None or one < 0 else one for one in found)


def numbers_of(static: Static) -> tuple[int | None, ...] | None:
    """Return the numbers of a small tensor of integers, as far as they are known."""
    known = static.partial if static.value is None else static.value
    if known is not None:
        return tuple(int(one) if one == one else None for one in known.reshape(-1))
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
            found = op_def.kernel(np, attrs)(*arrays)
    except _FAILURES:
        return None  # the same happens in a run, where the error names the op
    return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]


def _with_value(static: Static, found: Array) -> Static:
    if static.value is not None:
        return static
    if kind_of(found.dtype) == "f" and np.isnan(found).any():
        return static._replace(partial=found)
    return static._replace(value=found.astype(static.dtype))
