"""Clip values to bounds, and gradients to a norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.graph.op import IndexedSlices
from kit.graph.static import merge
from kit.tf1.ops.arithmetic import identity, maximum, minimum, multiply, sqrt
from kit.tf1.ops.creation import ones_like
from kit.tf1.ops.index import where
from kit.tf1.ops.join import stack
from kit.tf1.ops.reduce import reduce_sum
from kit.tf1.ops.write import write
from kit.tf1.tensor.convert import (
    argument,
    convert_to_tensor,
    create,
    graph_for,
    op_scope,
)


def clip_by_value(
    t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None
) -> Any:
    """Return `t` with all above the maximum lowered, then all below the minimum raised.

    Raises `ValueError` for bounds that have more axes than `t`.
    """
    inputs = [t, clip_value_min, clip_value_max]
    with op_scope(name, "clip_by_value", inputs) as scope:
        values = convert_to_tensor(_values(t), name="t")
        lowered = minimum(values, clip_value_max)
        merge(values.static.shape, lowered.static.shape, "t and clip_value_max")
        clipped = _raised(lowered, clip_value_min, scope)
        merge(values.static.shape, clipped.static.shape, "t and clip_value_min")
        return _like(t, clipped)


def _raised(values: Any, bound: Any, scope: str) -> Any:
    low = argument("Maximum", "y", bound, values.dtype.base_dtype)
    return create("Maximum", values, low, name=scope)


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: Any = None) -> Any:
    """Return `t`, scaled down to `clip_norm` where its norm along `axes` is larger."""
    with op_scope(name, "clip_by_norm", [t, clip_norm]) as scope:
        values = convert_to_tensor(_values(t), name="t")
        total = reduce_sum(values * values, axes, keepdims=True)
        # The square root has no slope at 0: where the norm is 0, take the root of 1.
        is_some = total > 0
        safe = where(is_some, total, ones_like(total))
        length = where(is_some, sqrt(safe), total)
        scaled = values * clip_norm
        merge(values.static.shape, scaled.static.shape, "t and clip_norm")
        clipped = identity(scaled / maximum(length, clip_norm), name=scope)
        return _like(t, clipped)


def global_norm(t_list: Any, name: str | None = None) -> Any:
    """Return the norm of all tensors together, as one vector; None is passed over.

    Raises `TypeError` for anything that is not a list.
    """
    tensors = _listed(t_list)
    with op_scope(name, "global_norm", tensors):
        halves = []
        for i, tensor in enumerate(tensors):
            if tensor is not None:
                values = convert_to_tensor(_values(tensor), name=f"t_{i}")
                with graph_for([values]).colocate_with(values):
                    halves.append(write("L2Loss", None, t=values))
        half = reduce_sum(stack(halves))
        two = argument("Mul", "Const", np.array(2, half.static.dtype))
        return sqrt(multiply(half, two, name="mul"), name="global_norm")


def clip_by_global_norm(
    t_list: Any, clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Any]:
    """Return the tensors, scaled down if their global norm exceeds `clip_norm`.

    Returns the list, in which None stays None, and the norm. All become NaN when the
    norm is not finite. Raises `TypeError` for anything that is not a list.
    """
    tensors = _listed(t_list)
    norm = global_norm(tensors, name) if use_norm is None else use_norm
    with op_scope(name, "clip_by_global_norm", [*tensors, clip_norm]) as scope:
        norm = convert_to_tensor(norm)
        scale = _scale(norm, clip_norm)
        values = [
            None
            if tensor is None
            else convert_to_tensor(_values(tensor), name=f"t_{i}")
            for i, tensor in enumerate(tensors)
        ]
        clipped: list[Any] = []
        for i, values_of in enumerate(values):
            if values_of is None:
                clipped.append(None)
                continue
            with values_of.graph.colocate_with(values_of):
                shorter = identity(values_of * scale, name=f"{scope}_{i}")
            clipped.append(_like(tensors[i], shorter))
        return clipped, norm


def _scale(norm: Any, clip_norm: Any) -> Any:
    unit = argument("RealDiv", "Const", np.array(1, norm.static.dtype))
    finite = clip_norm * minimum(1.0 / norm, unit / clip_norm)
    nan = argument("Select", "Const", np.array(np.nan, norm.static.dtype))
    is_finite = create("IsFinite", norm, name="IsFinite")
    return create("Select", is_finite, finite, nan, name="Select", rows=False)


def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Any:
    """Return `t`, scaled down if its norm over its size exceeds `clip_norm`."""
    with op_scope(name, "clip_by_average_norm", [t, clip_norm]) as scope:
        values = convert_to_tensor(t, name="t")
        n = create("Size", values, name="Size", dtype=np.dtype(np.int32))
        count = create("Cast", n, name="Cast", dtype=values.static.dtype)
        inverse = 1.0 / sqrt(reduce_sum(values * values))
        factor = minimum(inverse * count, 1.0 / convert_to_tensor(clip_norm))
        return identity(values * clip_norm * factor, name=scope)


def _listed(t_list: Any) -> list[Any]:
    if not isinstance(t_list, Sequence) or isinstance(t_list, str):
        raise TypeError(f"t_list should be a sequence, not {t_list!r}.")
    return list(t_list)


def _values(t: Any) -> Any:
    return t.values if isinstance(t, IndexedSlices) else t


def _like(t: Any, values: Any) -> Any:
    if isinstance(t, IndexedSlices):
        return IndexedSlices(values, t.indices, t.dense_shape)
    return values
