"""`tf.gradients`, and the values of its options."""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import wraps
from typing import Any

from kit.bfloat16 import kind_of
from kit.graph import gradients as native
from kit.graph.op import IndexedSlices
from kit.graph.static import merge, n_elements
from kit.tf1.ops.creation import zeros_like
from kit.tf1.ops.join import stack
from kit.tf1.ops.shape import reshape
from kit.tf1.tensor.convert import (
    convert_to_tensor,
    convert_to_tensor_or_indexed_slices,
    create_op,
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
        chosen = [_target(target) for target in targets]
        pairs = _differentiable([_source(source) for source in sources], weights)
        slopes: list[Any] = [None] * len(chosen)
        if pairs:
            slopes = native.gradients(
                [y for y, _ in pairs],
                chosen,
                [seed for _, seed in pairs],
                colocate=colocate_gradients_with_ops,
                stop_gradients=stops,
                name=scope,
                gated=bool(gate_gradients),
            )
    if not is_zero:
        return slopes
    return [
        zeros_like(x) if slope is None else slope
        for x, slope in zip(chosen, slopes, strict=True)
    ]


def _differentiable(ys: list[Any], weights: list[Any]) -> list[tuple[Any, Any]]:
    """Return the floating point ys with their weights; others have no gradient."""
    seeds = [_seed(y, weight) for y, weight in zip(ys, weights, strict=True)]
    pairs = zip(ys, seeds, strict=True)
    return [(y, seed) for y, seed in pairs if kind_of(y.static.dtype) in "fc"]


def _source(y: Any) -> Any:
    tensor = convert_to_tensor_or_indexed_slices(y, name="y")
    if tensor.dtype.base_dtype == string:
        raise TypeError(f"texts such as {tensor!r} have no gradient.")
    return tensor.values if isinstance(tensor, IndexedSlices) else tensor


def _target(x: Any) -> Any:
    if isinstance(x, IndexedSlices):
        return x.values
    return x if hasattr(x, "ref") else convert_to_tensor(x, name="x")


def _seed(y: Any, weight: Any) -> Any:
    if weight is None:
        return None
    if isinstance(weight, IndexedSlices) and weight.dense_shape is None:
        return weight  # which cannot be made dense
    seed = convert_to_tensor(weight, name="grad_ys")
    if seed.static.dtype != y.static.dtype:
        raise TypeError(
            f"grad_ys is {seed.dtype.name} for {y!r}; cast it to that dtype."
        )
    n_seeded, n_wanted = (n_elements(tensor.static.shape) for tensor in (seed, y))
    if seed.static.shape != y.static.shape and n_seeded == n_wanted is not None:
        return reshape(seed, y.shape)  # as [1] for a number
    merge(seed.static.shape, y.static.shape, "grad_ys and y")
    return seed


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return `f` with a gradient of its own: it returns results and a function.

    The function makes of the gradients of the results those of the arguments. Raises
    `ValueError` for keywords, and for another number of gradients than of arguments.
    """

    @wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise ValueError("a function with its own gradient takes no keywords.")
        with op_scope(None, "IdentityN", args) as scope:
            inputs = [convert_to_tensor(arg) for arg in args]
            result, back = f(*inputs)
            results = [convert_to_tensor(value) for value in _listed(result)]
            n, every = len(results), [*results, *inputs]

            def checked(*slopes: Any) -> list[Any]:
                returned = _listed(back(*slopes))
                if len(returned) != len(inputs):
                    raise ValueError(
                        f"{f.__name__} has {len(inputs)} arguments, but its gradient "
                        f"function gave {len(returned)}."
                    )
                return returned

            op = create_op("IdentityN", *every, name=scope, n=len(every))
            op.graph.notes[f"gradient of {op.name}"] = (checked, n)
        outputs = list(op.outputs[:n])
        return outputs if isinstance(result, list | tuple) else outputs[0]

    return decorated


def hessians(
    ys: Any,
    xs: Any,
    name: str = "hessians",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
) -> list[Any]:
    """Return the second derivatives of the sum of `ys` by each of `xs`, a list.

    That of an x of known shape s has the shape s + s.
    """
    how = (colocate_gradients_with_ops, gate_gradients, aggregation_method)
    chosen = _listed(xs)
    with op_scope(name, "hessians", [*_listed(ys), *chosen]):
        results = []
        for x, slope in zip(chosen, gradients(ys, xs, None, None, *how), strict=True):
            n, flat = n_elements(x.static.shape), reshape(slope, [-1])
            if n is None:
                raise ValueError(f"the shape of {x!r} must be known for its Hessian.")
            rows = [gradients(flat[i], x, None, None, *how)[0] for i in range(n)]
            if any(row is None for row in rows):
                raise ValueError(f"the gradient by {x!r} does not depend on it.")
            results.append(reshape(stack(rows), [*x.shape.as_list()] * 2))
        return results


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple) else [values]
