"""Parts of layers without windows: biases, half the sum of squares, dropout."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.bfloat16 import kind_of
from kit.graph.array_protocol import ArrayProtocol
from kit.graph.convert import make, operands, resolved, tensor
from kit.graph.dtypes import name_of
from kit.graph.kernels.precision import widened
from kit.graph.op import Op, Tensor
from kit.graph.ops.array.shape import shape_of
from kit.graph.ops.math.arithmetic import divide, multiply, subtract
from kit.graph.ops.math.cast import cast
from kit.graph.ops.math.compare import greater_equal
from kit.graph.ops.math.elementwise import named
from kit.graph.ops.math.random import uniform
from kit.graph.ops.nn.activations import infer_real
from kit.graph.static import Static, is_known, same_dtype, text
from kit.graph.table import Attrs, enter, register_bound


def bias_add(x: Any, bias: Any, name: str | None = None) -> Tensor:
    """Return x with a bias added along its last axis.

    Parameters
    ----------
    x : Tensor or array
        [..., n], with at least two axes.
    bias : Tensor or array
        [n].
    name : str, optional
        The name of the op.

    Raises
    ------
    ValueError
        The shapes do not fit.
    """
    return make("BiasAdd", *operands(x, bias), name=name)


def l2_loss(x: Any, name: str | None = None) -> Tensor:
    """Return half the sum of the squares of all elements.

    Parameters
    ----------
    x : Tensor or array
        Integers are taken as floats.
    name : str, optional
        The name of the op.
    """
    return make("L2Loss", *resolved(np.exp, x), name=name)


def dropout(
    x: Any,
    rate: Any,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return x with random elements set to 0 and the others scaled up.

    Parameters
    ----------
    x : Tensor or array
        Floating point.
    rate : float or Tensor
        The fraction that is dropped, 0 <= rate < 1. The rest is divided by 1 - rate, so
        that sums stay the same on average.
    noise_shape : sequence of int, optional
        Elements along its axes of size 1 share one decision.
    seed : int, optional
        Makes the choice repeatable.
    name : str, optional
        The name of the op.

    Raises
    ------
    ValueError
        The rate is out of range.
    TypeError
        `x` holds whole numbers.
    """
    value = tensor(x)
    dtype = value.static.dtype
    if kind_of(dtype) != "f":
        raise TypeError(
            f"dropout scales what it keeps, and {value!r} holds whole numbers; cast it "
            f"to a floating dtype first."
        )
    is_known_rate = not isinstance(rate, ArrayProtocol)
    if is_known_rate and not 0 <= rate < 1:
        raise ValueError(
            f"rate is {rate!r}, the share of elements that is dropped; give 0 <= rate "
            f"< 1."
        )
    if is_known_rate and rate == 0:
        return value
    with value.graph.as_default(), value.graph.name_scope(name or "dropout"):
        rate = float(rate) if is_known_rate else cast(rate, dtype)
        noise = uniform(_noise_shape(value, noise_shape), dtype=dtype, seed=seed)
        is_kept = cast(greater_equal(noise, rate), dtype)
        scale = 1 / (1 - rate) if is_known_rate else divide(1.0, subtract(1.0, rate))
        return multiply(multiply(value, scale), is_kept)


def _noise_shape(x: Tensor, shape: Any) -> Any:
    if shape is None:
        return x.static.shape if is_known(x.static.shape) else shape_of(x)
    if isinstance(shape, ArrayProtocol) or None not in list(shape):
        return shape
    own = shape_of(x)
    return [own[i] if size is None else size for i, size in enumerate(shape)]


def _infer_bias(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    x, bias = inputs
    dtype = same_dtype(inputs, "bias_add")
    if kind_of(dtype) not in "iufc":
        raise TypeError(f"a bias is added to numbers, not to {name_of(dtype)}.")
    if bias.shape is not None and len(bias.shape) != 1:
        raise ValueError(f"a bias has one axis, not the shape {text(bias.shape)}.")
    if x.shape is None:
        return [Static(None, dtype)]
    if len(x.shape) < 2:
        raise ValueError(
            f"a bias is added to rows, so x needs two axes at least; it has the shape "
            f"{text(x.shape)}."
        )
    size, wanted = x.shape[-1], (bias.shape or (None,))[0]
    if None not in (size, wanted) and size != wanted:
        raise ValueError(
            f"a bias of {wanted} does not fit x of shape {text(x.shape)}, whose last "
            f"axis has {size}."
        )
    return [Static((*x.shape[:-1], wanted if size is None else size), dtype)]


def _bias_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [gradients[0], make("BiasAddGrad", gradients[0])]


def _infer_bias_grad(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    shape = inputs[0].shape
    return [Static(shape[-1:] if shape else (None,), inputs[0].dtype)]


def _bias_grad(_: ModuleType, g: Any) -> Any:
    while g.ndim > 1:  # one by one: numpy is four times as fast on long rows
        g = g.sum(axis=0, dtype=g.dtype)
    return g


def _bias_grad_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [make("BroadcastLike", gradients[0], op.inputs[0])]


def _infer_number(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    return [infer_real(inputs, attrs)[0]._replace(shape=())]


def _l2_loss(xp: ModuleType, x: Any) -> Any:
    flat = widened(xp, x).reshape(-1)
    return (xp.dot(flat, flat) / 2).astype(x.dtype)


def _l2_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [multiply(gradients[0], op.inputs[0])]


register_bound("BiasAdd", _infer_bias, named("add"), _bias_gradient)
enter("BiasAddGrad", _infer_bias_grad, _bias_grad, _bias_grad_gradient)
_HALF: dict[str, Any] = {
    "call": "nn.l2_loss(t)",
    "doc": "half the sum of the squares of all elements",
}
enter("L2Loss", _infer_number, _l2_loss, _l2_gradient, **_HALF)
