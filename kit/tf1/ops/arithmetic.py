"""Elementwise functions, casts, and products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kit.errors import InvalidArgumentError, UnimplementedError
from kit.graph.array_protocol import ArrayProtocol, tensor_of
from kit.graph.dtypes import STRING
from kit.graph.op import IndexedSlices
from kit.tf1.ops.write import functions_of_the_table, write
from kit.tf1.tensor.convert import (
    argument,
    convert_to_tensor,
    convert_to_tensor_or_indexed_slices,
    create,
    op_scope,
)
from kit.tf1.tensor.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    complex64,
    complex128,
    float32,
    float64,
    int32,
    int64,
    numpy_of,
)
from kit.tf1.tensor.operators import (
    absolute,
    binary,
    exclusive_or,
    true_divide,
    unary,
)
from kit.tf1.tensor.shape import TensorShape
from kit.tf1.tensor.sparse import SparseTensor
from kit.tf1.tensor.tensor import Tensor


def bitcast(input: Any, type: Any, name: str | None = None) -> Any:
    """Return the same bits as numbers of another dtype.

    Of a smaller one there are several for each, along a new last axis; for a larger one
    the last axis has as many as make one. Raises `ValueError` where it has not,
    `TypeError` for texts.
    """
    with op_scope(name, "Bitcast", [input]) as scope:
        tensor = convert_to_tensor(input, name="input")
        return create("Bitcast", tensor, name=scope, dtype=numpy_of(type))


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """Return `x` in another dtype; floating point numbers lose their fraction.

    A tensor of that dtype is returned as it is. Raises `UnimplementedError` for texts.
    """
    wanted: DType = as_dtype(dtype).base_dtype
    if isinstance(x, Tensor) and x.dtype == wanted:
        return x
    with op_scope(name, "Cast", [x]) as scope:
        if isinstance(x, IndexedSlices | SparseTensor):
            values = cast(x.values, wanted, scope)
            if isinstance(x, SparseTensor):
                return SparseTensor(x.indices, values, x.dense_shape)
            return IndexedSlices(values, x.indices, x.dense_shape)
        tensor = convert_to_tensor(x, name="x")
        if tensor.dtype.base_dtype == wanted:
            return tensor
        if STRING in (tensor.static.dtype, numpy_of(wanted)):
            raise UnimplementedError(
                f"Cast {tensor.dtype.name} to {wanted.name} is not supported"
            )
        return create("Cast", tensor, name=scope, dtype=numpy_of(wanted))


def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Any:
    """Return `value` in another dtype, clipped to its range."""
    wanted = as_dtype(dtype).base_dtype
    with op_scope(name, "saturate_cast", [value]) as scope:
        tensor = convert_to_tensor(value, name="value")
        here = tensor.dtype.base_dtype
        for op_type, too_far, bound in (
            ("Maximum", here.min < wanted.min, wanted.min),
            ("Minimum", here.max > wanted.max, wanted.max),
        ):
            if too_far:
                limit = convert_to_tensor(here.as_numpy_dtype(bound))
                tensor = create(op_type, tensor, limit, name=op_type)
        return cast(tensor, wanted, scope)


def to_float(x: Any, name: str | None = "ToFloat") -> Any:
    """Return `x` as float32."""
    return cast(x, float32, name)


def to_double(x: Any, name: str | None = "ToDouble") -> Any:
    """Return `x` as float64."""
    return cast(x, float64, name)


def to_bfloat16(x: Any, name: str | None = "ToBFloat16") -> Any:
    """Return `x` as bfloat16."""
    return cast(x, bfloat16, name)


def to_complex64(x: Any, name: str | None = "ToComplex64") -> Any:
    """Return `x` as complex64."""
    return cast(x, complex64, name)


def to_complex128(x: Any, name: str | None = "ToComplex128") -> Any:
    """Return `x` as complex128."""
    return cast(x, complex128, name)


def to_int32(x: Any, name: str | None = "ToInt32") -> Any:
    """Return `x` as int32."""
    return cast(x, int32, name)


def to_int64(x: Any, name: str | None = "ToInt64") -> Any:
    """Return `x` as int64."""
    return cast(x, int64, name)


abs = absolute
globals().update(functions_of_the_table(__name__))
mod = globals()["floormod"]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def complex(real: Any, imag: Any, name: str | None = None) -> Any:
    """Return complex numbers with these parts, both float32 or both float64."""
    with op_scope(name, "Complex", [real, imag]) as scope:
        left = convert_to_tensor(real, name="real")
        right = convert_to_tensor(imag, name="imag")
        if (left.dtype, right.dtype) not in ((float32, float32), (float64, float64)):
            raise TypeError(
                f"real and imag have incorrect types: {left.dtype.name} "
                f"{right.dtype.name}; give float32 or float64 for both."
            )
        return create("Complex", left, right, name=scope)


def conj(x: Any, name: str | None = None) -> Any:
    """Return the complex conjugate, element by element; real numbers as they are."""
    tensor = convert_to_tensor(x)
    if not (
        tensor.dtype.is_complex or tensor.dtype.is_floating or tensor.dtype.is_integer
    ):
        raise TypeError(f"Expected numeric tensor, got dtype {tensor.dtype!r}")
    return _of_complex("Conj", tensor, name, lambda item: item)


def real(input: Any, name: str | None = None) -> Any:
    """Return the real parts; real numbers as they are."""
    return _of_complex("Real", input, name, lambda x: x)


def imag(input: Any, name: str | None = None) -> Any:
    """Return the imaginary parts, which are zeros for real numbers."""
    return _of_complex("Imag", input, name, _zeros)


def angle(input: Any, name: str | None = None) -> Any:
    """Return the arguments of complex numbers, from -pi to pi; zeros for real ones."""
    return _of_complex("Angle", input, name, _zeros)


def _zeros(x: Any) -> Any:
    return create("ZerosLike", x, name="zeros_like")


def _of_complex(
    op_type: str, x: Any, name: str | None, of_real: Callable[[Any], Any]
) -> Any:
    with op_scope(name, op_type, [x]) as scope:
        tensor = convert_to_tensor(x)
        is_complex = tensor.dtype.is_complex
        return create(op_type, tensor, name=scope) if is_complex else of_real(tensor)


def logical_xor(x: Any, y: Any, name: str | None = "LogicalXor") -> Any:
    """Return whether exactly one is true, element by element."""
    return exclusive_or(x, y, name)


def reciprocal(x: Any, name: str | None = None) -> Any:
    """Return 1 / x, element by element, of floating point numbers."""
    value = convert_to_tensor(x) if isinstance(x, ArrayProtocol) else x
    if isinstance(value, ArrayProtocol) and value.dtype.is_integer:  # type: ignore[attr-defined]
        raise InvalidArgumentError(
            f"whole numbers such as {value!r} have no reciprocal; cast them."
        )
    return unary("Reciprocal", value, name)


def round(x: Any, name: str | None = None) -> Any:
    """Return the nearest whole numbers, even ones at halves."""
    tensor = convert_to_tensor(x, name="x")
    if tensor.dtype.is_integer:
        return tensor
    return _nearest(tensor, name, "Round")


def rint(x: Any, name: str | None = None) -> Any:
    """Return the nearest whole numbers, even ones at halves, of floating point ones."""
    return _nearest(x, name, "Rint")


def _nearest(x: Any, name: str | None, default: str) -> Any:
    with op_scope(name, default, [x]) as scope:
        rounded = create("Rint", argument("Rint", "x", x), name="Rint")
        # The original has no gradient here, where the op's own is zero.
        return create("StopGradient", rounded, name=scope)


def divide(x: Any, y: Any, name: str | None = None) -> Any:
    """Return x / y; whole numbers give a floating point number."""
    with op_scope(name, "truediv", [x, y]) as scope:
        if isinstance(y, ArrayProtocol) and not isinstance(x, ArrayProtocol):
            x = argument("RealDiv", "x", x, tensor_of(y).static.dtype)
        return true_divide(x, y, scope)


def truediv(x: Any, y: Any, name: str | None = None) -> Any:
    """Return x / y; whole numbers are cast to floating point ones first."""
    return true_divide(x, y, name)


def div(x: Any, y: Any, name: str | None = None) -> Any:
    """Return x / y as Python 2 did: whole numbers give a whole number."""
    with op_scope(name, "div", [x, y]) as scope:
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, x.dtype.base_dtype, name="y")
        op_type = "FloorDiv" if x.dtype.is_integer else "RealDiv"
        return create(op_type, x, y, name=scope)


def floordiv(x: Any, y: Any, name: str | None = None) -> Any:
    """Return x // y, rounded down."""
    return write("FloorDiv", name, "floordiv", x=x, y=y)


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """Return a number times a tensor, or times sparse rows.

    Raises `ValueError` for a `scalar` that has axes.
    """
    rows = convert_to_tensor_or_indexed_slices(x)
    factor = convert_to_tensor(scalar, rows.dtype.base_dtype, name="scalar")
    if factor.shape.ndims != 0:
        raise ValueError(f"Only scalar multiply works, got shape {factor.shape}")
    if hasattr(rows, "indices"):
        values = binary("Mul", factor, rows.values, name)
        return type(rows)(values, rows.indices, rows.dense_shape)
    return binary("Mul", factor, rows, name)


def add_n(inputs: Any, name: str | None = None) -> Any:
    """Return the sum of tensors of one shape and dtype.

    One tensor alone is returned as it is. Raises `ValueError` for an empty list,
    `TypeError` for anything that is not a list.
    """
    problem = (
        "inputs must be a list of at least one Tensor with the same dtype and shape"
    )
    if not isinstance(inputs, list | tuple):
        raise TypeError(f"{problem}, not {inputs!r}")
    if not inputs:
        raise ValueError(problem)
    terms = [convert_to_tensor_or_indexed_slices(tensor) for tensor in inputs]
    dtypes = {term.dtype.base_dtype.name for term in terms}
    if len(dtypes) > 1:
        raise TypeError(f"{problem}, not of {', '.join(sorted(dtypes))}")
    if len(terms) == 1:
        (only,) = terms
        alone = convert_to_tensor(only)
        return unary("Identity", alone, name) if name else alone
    with op_scope(name, "AddN", terms) as scope:
        return create("AddN", *map(convert_to_tensor, terms), name=scope)


def accumulate_n(
    inputs: Any,
    shape: Any = None,
    tensor_dtype: Any = None,
    name: str | None = None,
) -> Any:
    """Return the sum of tensors of one shape and dtype, as `add_n`.

    Raises `ValueError` for another shape than `shape`, and for what is not a list of
    tensors; `TypeError` for another dtype than `tensor_dtype`.
    """
    if not isinstance(inputs, list | tuple) or not inputs:
        raise ValueError("inputs must be a list of at least one tensor")
    parts = [convert_to_tensor(item) for item in inputs]
    dtype = parts[0].dtype.base_dtype if tensor_dtype is None else tensor_dtype
    if any(part.dtype.base_dtype != dtype for part in parts):
        raise TypeError(f"tensor_dtype is {tensor_dtype}, but input is of another.")
    for tensor in parts:
        tensor.shape.assert_is_compatible_with(TensorShape(shape))
    return add_n(parts, name)


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """Return the product of matrices; axes before the last two are broadcast.

    The hints about sparsity change nothing. Raises `ValueError` for vectors and for
    sizes that do not match, `TypeError` for different dtypes.
    """
    if (transpose_a and adjoint_a) or (transpose_b and adjoint_b):
        raise ValueError("Only one of transpose and adjoint can be True.")
    with op_scope(name, "MatMul", [a, b]) as scope:
        left = convert_to_tensor(a, name="a")
        right = convert_to_tensor(b, name="b", dtype_hint=left.dtype.base_dtype)
        left = conj(left) if adjoint_a else left
        right = conj(right) if adjoint_b else right
        turns = {
            "transpose_a": bool(transpose_a or adjoint_a),
            "transpose_b": bool(transpose_b or adjoint_b),
        }
        return create("MatMul", left, right, name=scope, **turns)
