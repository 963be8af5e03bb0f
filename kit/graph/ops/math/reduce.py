"""Sums, means, products and extremes along axes, where the extremes are, running sums.

The builders of this file keep the dtype of what they reduce; those that stand for
numpy's functions are in `numpy_reduce`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from kit.bfloat16 import kind_of
from kit.graph.arguments import Ints, axes, number
from kit.graph.array_protocol import speaks
from kit.graph.convert import make, tensor
from kit.graph.dtypes import STRING, dtype_of, name_of
from kit.graph.kernels.precision import widened
from kit.graph.op import Op, Tensor
from kit.graph.ops.array.shape import reshape, shape_of
from kit.graph.ops.math.arithmetic import divide, multiply, subtract
from kit.graph.ops.math.cast import cast
from kit.graph.ops.math.elementwise import conj
from kit.graph.static import Shape, Static, axis_of
from kit.graph.table import (
    Attrs,
    Bind,
    Gradient,
    enter,
    infer_like,
    lookup,
    missing,
    register_bound,
)


class ReductionBuilder(Protocol):
    """Builds a reduction along `axis`: an int, several, or None for all."""

    def __call__(
        self, x: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
    ) -> Tensor:
        """Return the op's result; with `keepdims` a reduced axis stays, of size 1."""


def reduced(shape: Shape, axis: Ints | None, keepdims: bool) -> Shape:
    """Return the shape that a reduction leaves.

    >>> reduced((2, None, 4), (-1,), False), reduced((2, 3), None, True)
    ((2, None), (1, 1))
    """
    if shape is None:
        return () if axis is None and not keepdims else None
    gone = set(range(len(shape)))
    if axis is not None:
        numbers = [axis_of(item, len(shape)) for item in axis]
        gone = set(numbers)
        if len(gone) != len(numbers):
            raise ValueError(f"the axes {list(axis)} name one axis twice.")
    if keepdims:
        return tuple(1 if i in gone else size for i, size in enumerate(shape))
    return tuple(size for i, size in enumerate(shape) if i not in gone)


def _infer(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    dtype = inputs[0].dtype
    if dtype == STRING:
        raise TypeError("texts cannot be reduced.")
    return [Static(reduced(inputs[0].shape, attrs["axis"], attrs["keepdims"]), dtype)]


def _infer_float(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    if kind_of(inputs[0].dtype) not in "fc":
        raise TypeError(f"this needs real numbers, not {name_of(inputs[0].dtype)}.")
    return _infer(inputs, attrs)


def _infer_bool(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    if inputs[0].dtype.kind != "b":
        raise TypeError(f"logic is of bools, not {name_of(inputs[0].dtype)}.")
    return _infer(inputs, attrs)


def _enter(
    op_type: str,
    doc: str,
    compute: Callable[[ModuleType, Any, Ints | None, bool], Any],
    gradient: Gradient | None = None,
    infer: Callable[..., Sequence[Static]] = _infer,
    takes: str = "iufc",
) -> ReductionBuilder:
    def bind(xp: ModuleType, attrs: Attrs) -> Callable[..., Any]:
        axis, keep = attrs["axis"], attrs["keepdims"]
        return lambda x: compute(xp, x, axis, keep)

    def builder(
        x: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
    ) -> Tensor:
        attrs = {"axis": axes(axis), "keepdims": bool(keepdims)}
        return make(op_type, tensor(x), name=name, **attrs)

    builder.__doc__ = f"Return {doc} along some axes, in the dtype of `x`."
    register_bound(op_type, infer, bind, gradient, takes=takes)
    return builder


def _method(name: str) -> Callable[..., Any]:
    """Return the computation that is a method of the array."""
    return lambda _, x, axis, keep: getattr(x, name)(axis=axis, keepdims=keep)


def _mean(xp: ModuleType, x: Any, axis: Ints | None, keep: bool) -> Any:
    is_whole = x.dtype.kind in "iu"
    total = (x if is_whole else widened(xp, x)).sum(axis=axis, keepdims=keep)
    count = x.size // max(total.size, 1)
    if is_whole:
        return xp.trunc(total / count).astype(x.dtype)  # towards 0, as TensorFlow
    total /= count
    return total.astype(x.dtype, copy=False)


def _log_sum_exp(xp: ModuleType, x: Any, axis: Ints | None, keep: bool) -> Any:
    wide = widened(xp, x)
    # The maximum of nothing is an error; a sum has the right shape.
    greatest = wide.max if wide.size else wide.sum
    top = greatest(axis=axis, keepdims=True)
    # inf - inf would be NaN. Without the shift exp gives inf or 0, which is right.
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    total = xp.log(xp.exp(wide - top).sum(axis=axis, keepdims=True)) + top
    if not keep:
        total = total.reshape(reduced(x.shape, axis, False))
    return total.astype(x.dtype, copy=False)


def spread(g: Any, op: Op, *, mean: bool = False) -> Any:
    """Return a value of a reduction's result for each element that went into it.

    With `mean` it is divided by the number of these elements.
    """
    attrs = {key: op.attrs[key] for key in ("axis", "keepdims")}
    return make("Spread", g, op.inputs[0], mean=mean, **attrs)


def _extreme_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    """Give an equal share to all elements that attain the extreme."""
    x = op.inputs[0]
    is_extreme = cast(make("Equal", x, spread(op.outputs[0], op)), x.static.dtype)
    attrs = {"axis": op.attrs["axis"], "keepdims": op.attrs["keepdims"]}
    share = divide(gradients[0], make("Sum", is_extreme, **attrs))
    return [multiply(is_extreme, spread(share, op))]


def _prod_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    others = make("ProdOfOthers", op.inputs[0], axis=op.attrs["axis"])
    return [multiply(spread(gradients[0], op), conj(others))]


def _log_sum_exp_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    x = op.inputs[0]
    weight = make("Exp", subtract(x, spread(op.outputs[0], op)))
    return [multiply(spread(gradients[0], op), conj(weight))]


reduce_sum = _enter(
    "Sum",
    "the sum",
    lambda _, x, axis, keep: x.sum(axis=axis, dtype=x.dtype, keepdims=keep),
    lambda op, gradients: [spread(gradients[0], op)],
)
reduce_mean = _enter(
    "Mean",
    "the mean",
    _mean,
    lambda op, gradients: [spread(gradients[0], op, mean=True)],
)
reduce_prod = _enter(
    "Prod",
    "the product",
    lambda _, x, axis, keep: x.prod(axis=axis, dtype=x.dtype, keepdims=keep),
    _prod_gradient,
)
_extreme = partial(_enter, gradient=_extreme_gradient, takes="iuf")
_logic = partial(_enter, infer=_infer_bool, takes="b")
reduce_max = _extreme("Max", "the greatest element", _method("max"))
reduce_min = _extreme("Min", "the least element", _method("min"))
reduce_all = _logic("All", "whether all are true", _method("all"))
reduce_any = _logic("Any", "whether any is true", _method("any"))
reduce_log_sum_exp = _enter(
    "LogSumExp",
    "log(sum(exp(x))), without overflow",
    _log_sum_exp,
    _log_sum_exp_gradient,
    _infer_float,
)


def _spread(
    xp: ModuleType, g: Any, x: Any, *, axis: Ints | None, keepdims: bool, mean: bool
) -> Any:
    if mean:
        g = g / (x.size // max(g.size, 1))
    if not keepdims:
        g = g.reshape(reduced(x.shape, axis, True))
    out = xp.empty(x.shape, g.dtype)
    out[...] = g
    return out


def _spread_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    attrs = {"axis": op.attrs["axis"], "keepdims": op.attrs["keepdims"]}
    return [make("Mean" if op.attrs["mean"] else "Sum", gradients[0], **attrs), None]


def _prod_of_others(xp: ModuleType, x: Any, *, axis: Ints | None) -> Any:
    """Multiply the factors before each element and those after it: zeros are safe."""
    n = x.ndim
    chosen = range(n) if axis is None else axis
    gone = [i % n for i in chosen] if n else []
    order = [i for i in range(n) if i not in gone] + gone
    turned = x.transpose(order)
    lead = turned.shape[: n - len(gone)]
    flat = turned.reshape((*lead, -1)) if x.size else turned.reshape((*lead, 0))
    ones = xp.ones((*lead, 1), x.dtype)
    before = xp.concatenate([ones, flat[..., :-1]], axis=-1).cumprod(axis=-1)
    after = xp.concatenate([ones, flat[..., :0:-1]], axis=-1).cumprod(axis=-1)
    products = (before * after[..., ::-1]).reshape(turned.shape)
    return products.transpose([order.index(i) for i in range(n)])


enter("Spread", infer_like(1), _spread, _spread_gradient)
enter("ProdOfOthers", infer_like(0), _prod_of_others, missing)


# --------------------------------------------------------------------------------------
# Reductions along axes that only a run knows.


def reduce_along(
    kind: str, x: Any, axis: Any, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Return a reduction of `x` along the axes that a tensor of integers names.

    `kind` is the op's type: `Sum`. Only `Sum` and `Mean` have a
    gradient. In the run raises
    `InvalidArgumentError` for an axis that `x` does not have.
    """
    return make(
        "ReduceAlong",
        tensor(x),
        tensor(axis),
        name=name,
        kind=kind,
        keepdims=bool(keepdims),
    )


def _infer_along(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x, axis = inputs
    if axis.dtype.kind not in "iu":
        raise TypeError(f"axes are integers, not {name_of(axis.dtype)}; cast them.")
    # The op that does the work knows which dtypes it takes, and what it makes of them.
    if axis.value is not None:
        numbers = tuple(axis.value.reshape(-1).tolist())
        settled = {"axis": numbers, "keepdims": attrs["keepdims"]}
        (result,) = lookup(attrs["kind"]).infer([Static(x.shape, x.dtype)], settled)
        return [Static(result.shape, result.dtype)]
    same = {"axis": (), "keepdims": False}
    (result,) = lookup(attrs["kind"]).infer([Static(x.shape, x.dtype)], same)
    keeps = attrs["keepdims"] and x.shape is not None
    return [Static((None,) * len(x.shape or ()) if keeps else None, result.dtype)]


def _forward(xp: ModuleType, x: Any, axis: Any, *, kind: str, keepdims: bool) -> Any:
    axes = tuple(int(item) for item in axis.reshape(-1).tolist())
    attrs = {"axis": axes, "keepdims": keepdims}
    return lookup(kind).kernel(xp, attrs)(x)


def _gradient_along(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    """Give each element what the result that it went into got."""
    kind = op.attrs["kind"]
    if kind not in ("Sum", "Mean"):
        return missing(op, gradients)
    x, axis = op.inputs
    kept = reduce_along(kind, x, axis, keepdims=True)
    gradient = reshape(gradients[0], shape_of(kept))
    ones = make("OnesLike", x)
    if kind == "Mean":
        ones = divide(ones, reduce_along("Sum", ones, axis, keepdims=True))
    return [multiply(gradient, ones), None]


enter("ReduceAlong", _infer_along, _forward, _gradient_along, sizes_from=1)


@speaks(np.argmax)
def argmax(
    x: Any,
    axis: Any = None,
    dtype: Any = "int64",
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the index of the first greatest element; without axis of all elements."""
    return _index_of_extreme("ArgMax", x, axis, dtype, keepdims, name)


@speaks(np.argmin)
def argmin(
    x: Any,
    axis: Any = None,
    dtype: Any = "int64",
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the index of the first least element; without axis of all elements."""
    return _index_of_extreme("ArgMin", x, axis, dtype, keepdims, name)


def _index_of_extreme(
    op_type: str, x: Any, axis: Any, dtype: Any, keepdims: bool, name: str | None
) -> Tensor:
    attrs = {
        "axis": None if axis is None else number(axis, "the axis"),
        "dtype": dtype_of(dtype),
        "keepdims": bool(keepdims),
    }
    return make(op_type, tensor(x), name=name, **attrs)


def _infer_place(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    if inputs[0].dtype == STRING:
        raise TypeError("texts have no greatest and no least element here.")
    axis = None if attrs["axis"] is None else (attrs["axis"],)
    shape = reduced(inputs[0].shape, axis, attrs.get("keepdims", False))
    return [Static(shape, attrs["dtype"])]


def _bind_place(function: str) -> Callable[..., Any]:
    def bind(xp: ModuleType, attrs: Attrs) -> Callable[..., Any]:
        find, axis = getattr(xp, function), attrs["axis"]
        dtype, keep = attrs["dtype"], attrs.get("keepdims", False)

        def compute(x: Any) -> Any:
            # In numpy's words: cupy's speak of its own settings.
            if (x.size if axis is None else x.shape[axis]) == 0:
                raise ValueError(f"attempt to get {function} of an empty sequence")
            return find(x, axis=axis, keepdims=keep).astype(dtype, copy=False)

        return compute

    return bind


register_bound("ArgMax", _infer_place, _bind_place("argmax"), takes="iuf")
register_bound("ArgMin", _infer_place, _bind_place("argmin"), takes="iuf")


@speaks(np.cumsum)
def cumsum_of(x: Any, axis: Any = None, dtype: Any = None) -> Tensor:
    """Return the sums up to each element, in the dtype of numpy's; None: of a row."""
    operand = tensor(x)
    wanted = dtype or np.add.reduce(np.zeros(1, operand.static.dtype)).dtype
    operand = cast(operand, wanted)
    return cumsum(reshape(operand, [-1]), 0) if axis is None else cumsum(operand, axis)


def cumsum(
    x: Any,
    axis: Any = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the running sums along an axis.

    `exclusive` leaves the element itself out; `reverse` adds from the end.
    """
    attrs = {"axis": number(axis, "the axis")}
    attrs |= {"exclusive": bool(exclusive), "reverse": bool(reverse)}
    return make("Cumsum", tensor(x), name=name, **attrs)


def _infer_cumsum(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    shape, dtype = inputs[0].shape, inputs[0].dtype
    if kind_of(dtype) not in "iufc":
        raise TypeError(f"{name_of(dtype)} cannot be added up; cast it first.")
    if shape is not None:
        axis_of(attrs["axis"], len(shape))
    return [Static(shape, dtype)]


def _cumulated(function: str, neutral: int) -> Bind:
    def bind(xp: ModuleType, attrs: Attrs) -> Callable[..., Any]:
        axis, is_exclusive = attrs["axis"], attrs["exclusive"]
        cumulate = getattr(xp, function)

        def forwards(x: Any) -> Any:
            sums = cumulate(x, axis=axis, dtype=x.dtype)
            if not is_exclusive or not sums.shape[axis]:
                return sums
            # Not found - x: what is infinite or rounded off would stay in it.
            shifted, whole = xp.full_like(sums, neutral), [slice(None)] * sums.ndim
            from_second, to_last = list(whole), list(whole)
            from_second[axis], to_last[axis] = slice(1, None), slice(None, -1)
            shifted[tuple(from_second)] = sums[tuple(to_last)]
            return shifted

        if not attrs["reverse"]:
            return forwards
        return lambda x: xp.flip(forwards(xp.flip(x, axis)), axis)

    return bind


def _cumsum_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    attrs = {**op.attrs, "reverse": not op.attrs["reverse"]}
    return [make("Cumsum", gradients[0], **attrs)]


def _cumprod_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    (x,), (product,) = op.inputs, op.outputs
    (terms,) = _cumsum_gradient(op, [make("Mul", gradients[0], conj(product))])
    return [make("RealDiv", terms, conj(x))]  # not a number where x is 0


_BIND_SUM, _BIND_PRODUCT = _cumulated("cumsum", 0), _cumulated("cumprod", 1)
_enter_running = partial(register_bound, infer=_infer_cumsum, takes="iufc")
_enter_running("Cumsum", bind=_BIND_SUM, gradient=_cumsum_gradient)
_enter_running("Cumprod", bind=_BIND_PRODUCT, gradient=_cumprod_gradient)
