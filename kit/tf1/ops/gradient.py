"""`tf.gradients`, and the values of its options."""

from __future__ import annotations

import enum
from typing import Any

from kit.graph import gradients as native
from kit.graph.op import IndexedSlices
from kit.graph.static import merge
from kit.tf1.ops.creation import zeros_like
from kit.tf1.tensor.convert import (
    convert_to_tensor,
    convert_to_tensor_or_indexed_slices,
    op_scope,
)
from kit.tf1.tensor.dtypes import string

_METHODS = (0, 1, 2)


class UnconnectedGradients(enum.Enum):
    """The gradient where no path leads from an x to a y."""

    NONE = "none"
    ZERO = "zero"


class AggregationMethod:
    """How several gradients of one tensor are summed; it makes no difference here."""

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str | None = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = UnconnectedGradients.NONE,
) -> list[Any]:
    """Return the gradient of the sum of `ys` by each of `xs`, a list.

    `grad_ys` weights the elements of each y; None there means ones. Where no path of
    floating point numbers leads from an x to a y the gradient is None, or zeros. That
    of gathered rows is an `IndexedSlices`. Gates and aggregation change no value here.
    Raises `LookupError` for an operation on the way without a gradient.
    """
    if aggregation_method not in (None, *_METHODS):
        raise ValueError(f"Invalid aggregation_method specified {aggregation_method}.")
    is_zero = UnconnectedGradients(unconnected_gradients) is UnconnectedGradients.ZERO
    targets, sources = _listed(xs), _listed(ys)
    weights = [None] * len(sources) if grad_ys is None else _listed(grad_ys)
    if len(weights) != len(sources):
        raise ValueError("Passed grad_ys must have the same length as ys.")
    stops = [] if stop_gradients is None else _listed(stop_gradients)
    with op_scope(name, "gradients", [*sources, *targets, *stops, *weights]) as scope:
        chosen = [_target(one) for one in targets]
        pairs = _differentiable([_source(one) for one in sources], weights)
        found: list[Any] = [None] * len(chosen)
        if pairs:
            found = native.gradients(
                [y for y, _ in pairs],
                chosen,
                [seed for _, seed in pairs],
                colocate=colocate_gradients_with_ops,
                stop_gradients=stops,
                name=scope,
                gated=bool(gate_gradients),
            )
    if not is_zero:
        return found
    return [
        zeros_like(x) if one is None else one
        for x, one in zip(chosen, found, strict=True)
    ]


def _differentiable(ys: list[Any], weights: list[Any]) -> list[tuple[Any, Any]]:
    """Return the floating point ys with their weights; others have no gradient."""
    seeds = [_seed(y, weight) for y, weight in zip(ys, weights, strict=True)]
    pairs = zip(ys, seeds, strict=True)
    return [(y, seed) for y, seed in pairs if y.static.dtype.kind in "fc"]


def _source(y: Any) -> Any:
    found = convert_to_tensor_or_indexed_slices(y, name="y")
    if found.dtype.base_dtype == string:
        raise TypeError(f"texts such as {found!r} have no gradient.")
    return found.values if isinstance(found, IndexedSlices) else found


def _target(x: Any) -> Any:
    if isinstance(x, IndexedSlices):
        return x.values
    return x if hasattr(x, "ref") else convert_to_tensor(x, name="x")


def _seed(y: Any, weight: Any) -> Any:
    if weight is None:
        return None
    given = convert_to_tensor(weight, name="grad_ys")
    if given.static.dtype != y.static.dtype:
        raise TypeError(
            f"grad_ys is {given.dtype.name} for {y!r}; cast it to that dtype."
        )
    merge(given.static.shape, y.static.shape, "grad_ys and y")
    return given


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]
