"""Products of matrices and vectors, diagonals, norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.bfloat16 import kind_of
from kit.graph.array_protocol import speaks
from kit.graph.convert import make, operands, resolved, tensor
from kit.graph.op import Op, Tensor
from kit.graph.ops.array.shape import expand_dims, reshape, squeeze
from kit.graph.ops.math.arithmetic import multiply
from kit.graph.ops.math.cast import cast
from kit.graph.ops.math.elementwise import conj, sum_like
from kit.graph.ops.math.reduce import reduce_max, reduce_sum
from kit.graph.ops.math.unary import absolute, sqrt, square
from kit.graph.static import Shape, Static, broadcast, same_dtype, text
from kit.graph.table import Attrs, enter, infer_like, missing, register_bound


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the matrix product over the last two axes, leading axes broadcast.

    With `transpose_a`, `transpose_b` the last two axes of an operand are exchanged
    first, without a copy. Raises `ValueError` when columns and rows differ in number,
    and for vectors; `product` takes those as well.
    """
    x, y = resolved(np.matmul, a, b)
    return make(
        "MatMul", x, y, name=name, transpose_a=transpose_a, transpose_b=transpose_b
    )


@speaks(np.matmul, np.dot)
def product(a: Any, b: Any, name: str | None = None) -> Tensor:
    """Return the product of matrices or vectors, as `a @ b` of numpy's arrays."""
    x, y = operands(a, b)
    if () in (x.static.shape, y.static.shape):
        return multiply(x, y, name=name)
    rows, columns = _is_vector(x), _is_vector(y)
    if rows and columns:
        return reduce_sum(multiply(x, y), name=name)
    if rows:
        return squeeze(matmul(expand_dims(x, 0), y), -2, name=name)
    if columns:
        return squeeze(matmul(x, expand_dims(y, -1)), -1, name=name)
    return matmul(x, y, name=name)


def _is_vector(x: Tensor) -> bool:
    return x.static.shape is not None and len(x.static.shape) == 1


@speaks(np.outer)
def outer(a: Any, b: Any, name: str | None = None) -> Tensor:
    """Return the matrix of all products of an element of `a` and one of `b`."""
    x, y = operands(a, b)
    return multiply(reshape(x, (-1, 1)), reshape(y, (1, -1)), name=name)


@speaks(np.diag)
def diag(x: Any, name: str | None = None) -> Tensor:
    """Return the matrix with a vector on its diagonal, or the diagonal of a matrix.

    Raises `ValueError` for other numbers of axes, also for an unknown one.
    """
    operand = tensor(x)
    rank = None if operand.static.shape is None else len(operand.static.shape)
    if rank not in (1, 2):
        raise ValueError(f"diag takes a vector or a matrix, not {operand!r}.")
    return make("Diag" if rank == 1 else "DiagPart", operand, name=name)


@speaks(np.linalg.norm)
def norm(
    x: Any,
    ord: Any = None,
    axis: Any = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the square root of the sum of squares along some axes.

    Other norms: `ord` 1 is the sum and np.inf the greatest of the absolute values, both
    along one axis or of a vector.
    """
    operand = tensor(x)
    if kind_of(operand.static.dtype) not in "fc":
        operand = cast(operand, np.float64)
    is_long = axis is None and operand.static.shape and len(operand.static.shape) > 1
    if ord in (None, 2, "fro", "euclidean") and not (ord == 2 and is_long):
        operand = absolute(operand) if operand.static.dtype.kind == "c" else operand
        return sqrt(reduce_sum(square(operand), axis, keepdims), name=name)
    if ord in (1, np.inf) and not is_long and not isinstance(axis, tuple | list):
        reduce = reduce_sum if ord == 1 else reduce_max
        return reduce(absolute(operand), axis, keepdims, name=name)
    raise TypeError(f"norm with ord={ord!r} cannot be written into a graph.")


def _infer(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    dtype = same_dtype(inputs, "matmul")
    a = _turned(inputs[0].shape, attrs["transpose_a"])
    b = _turned(inputs[1].shape, attrs["transpose_b"])
    if a is None or b is None:
        return [Static(None, dtype)]
    if len(a) < 2 or len(b) < 2:
        raise ValueError(
            f"matmul multiplies matrices, but got the shapes {text(a)} and {text(b)}; "
            f"reshape a vector to one row or one column first."
        )
    if a[-1] is not None and b[-2] is not None and a[-1] != b[-2]:
        raise ValueError(
            f"matmul of {text(a)} and {text(b)}: the first has {a[-1]} columns and the "
            f"second {b[-2]} rows."
        )
    lead = broadcast(a[:-2], b[:-2], "the leading axes of matmul")
    return [Static((*(lead or ()), a[-2], b[-1]), dtype)]


def _turned(shape: Shape, turn: bool) -> Shape:
    if shape is None or not turn or len(shape) < 2:
        return shape
    return (*shape[:-2], shape[-1], shape[-2])


def _bind(xp: ModuleType, attrs: Attrs) -> Callable[..., Any]:
    matmul: Callable[..., Any] = xp.matmul

    def multiply_out(a: Any, b: Any) -> Any:
        product = matmul(a, b)  # float32 of bfloat16
        return (
            product if product.dtype is a.dtype else product.astype(a.dtype, copy=False)
        )

    match attrs["transpose_a"], attrs["transpose_b"]:
        case False, False:
            return multiply_out
        case True, False:
            return lambda a, b: multiply_out(a.swapaxes(-1, -2), b)
        case False, True:
            return lambda a, b: multiply_out(a, b.swapaxes(-1, -2))
    return lambda a, b: multiply_out(a.swapaxes(-1, -2), b.swapaxes(-1, -2))


def _gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    g, a, b = gradients[0], *map(conj, op.inputs)
    match op.attrs["transpose_a"], op.attrs["transpose_b"]:
        case False, False:
            by_a, by_b = matmul(g, b, False, True), matmul(a, g, True, False)
        case False, True:
            by_a, by_b = matmul(g, b), matmul(g, a, True, False)
        case True, False:
            by_a, by_b = matmul(b, g, False, True), matmul(a, g)
        case _:
            by_a, by_b = matmul(b, g, True, True), matmul(g, a, True, True)
    slopes = [cast(by, x.static.dtype) for by, x in ((by_a, a), (by_b, b))]
    if all(
        operand.static.shape and len(operand.static.shape) == 2 for operand in (a, b)
    ):
        return slopes  # no leading axes that could have been broadcast
    return [sum_like(by, x) for by, x in zip(slopes, op.inputs, strict=True)]


def _infer_diag(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    shape = inputs[0].shape
    if shape is None or len(shape) != 1:
        raise ValueError(f"a diagonal is a vector, not {text(shape)}.")
    return [Static((shape[0], shape[0]), inputs[0].dtype)]


def _infer_part(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    shape = inputs[0].shape
    if shape is None or len(shape) != 2:
        raise ValueError(f"the diagonal is taken of a matrix, not of {text(shape)}.")
    rows, columns = shape
    unknown = rows is None or columns is None
    return [Static((None if unknown else min(rows, columns),), inputs[0].dtype)]  # type: ignore[type-var]


def _diag_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [make("DiagPart", gradients[0]), *[None] * (len(op.inputs) - 1)]


def _part_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [make("DiagLike", gradients[0], op.inputs[0])]


def _diag_like(xp: ModuleType, g: Any, x: Any) -> Any:
    out = xp.zeros(x.shape, g.dtype)
    each = xp.arange(g.shape[0])
    out[each, each] = g
    return out


def _orthogonal(xp: ModuleType, x: Any) -> Any:
    """Return a matrix with orthogonal columns, made of one that is not wide."""
    columns, rest = xp.linalg.qr(x)
    return (columns * xp.sign(xp.diag(rest))).astype(x.dtype)


enter("Orthogonal", infer_like(0), _orthogonal, missing)
register_bound("MatMul", _infer, _bind, _gradient, takes="iufc")
register_bound("Diag", _infer_diag, lambda xp, _: xp.diag, _diag_gradient)
register_bound("DiagPart", _infer_part, lambda xp, _: xp.diag, _part_gradient)
enter("DiagLike", infer_like(1), _diag_like, _diag_gradient)
