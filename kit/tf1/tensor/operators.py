"""The operations that Python's operators add, with the original's names.

a + 1       op `add`, constant `add/y`
1 + a       op `add`, constant `add/x`
a < 1       op `Less`, constant `Less/y`
1 < a       Python asks for `a > 1`: op `Greater`
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from kit.graph.array_protocol import ArrayProtocol, tensor_of
from kit.graph.dtypes import STRING
from kit.graph.ops.array.slicing import strided_slice
from kit.graph.table import lookup
from kit.tf1.tensor.convert import (
    argument,
    convert_to_tensor,
    create,
    op_scope,
)
from kit.tf1.tensor.dtypes import DType, bool_, float32, float64, numpy_of
from kit.tf1.tensor.operator_table import OPERATORS
from kit.tf1.tensor.shape import dimension_value
from kit.tf1.tensor.sparse import SparseTensor

_Function = Callable[[Any, Any, str], Any]


def entry(op_type: str, name: str | None, **values: Any) -> Any:
    """Add an op of tensors of one dtype; the first decides which.

    An op of one takes a `SparseTensor` too.
    """
    (first, x), *others = values.items()
    if not others and isinstance(x, SparseTensor):
        made = entry(op_type, name, **{first: x.values})
        return SparseTensor(x.indices, made, x.dense_shape)
    with op_scope(name, op_type, list(values.values())) as scope:
        of_truth = lookup(op_type).takes == "b"
        inputs = [argument(op_type, first, x, bool_ if of_truth else None)]
        for other, y in others:
            inputs.append(argument(op_type, other, y, inputs[0].dtype.base_dtype))
        if op_type == "Add" and inputs[0].static.dtype == STRING:
            return create("StringJoin", *inputs, separator="", name=scope)
        return create(op_type, *inputs, name=scope)


def binary(op_type: str, x: Any, y: Any, name: str | None) -> Any:
    """Add an op of two tensors of one dtype; the first decides which."""
    return entry(op_type, name, x=x, y=y)


def unary(op_type: str, x: Any, name: str | None = None) -> Any:
    """Add an op of one tensor."""
    return entry(op_type, name, x=x)


def absolute(x: Any, name: str | None = None) -> Any:
    """Return |x|, element by element; of complex numbers these are real."""
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, absolute(x.values, name), x.dense_shape)
    with op_scope(name, "Abs", [x]) as scope:
        tensor = argument("Abs", "x", x)
        return create(
            "ComplexAbs" if tensor.dtype.is_complex else "Abs", tensor, name=scope
        )


def exclusive_or(x: Any, y: Any, name: str | None) -> Any:
    """Return whether exactly one of two bools is true."""
    either, both = (
        binary(op_type, x, y, None) for op_type in ("LogicalOr", "LogicalAnd")
    )
    return binary("LogicalAnd", either, unary("LogicalNot", both), name)


def _of(op_type: str) -> _Function:
    return lambda x, y, name: binary(op_type, x, y, name)


def true_divide(x: Any, y: Any, name: str | None) -> Any:
    """Divide; whole numbers are cast to floating point ones first."""
    with op_scope(name, "truediv", [x, y]) as scope:
        x = argument("RealDiv", "x", x)
        y = argument("RealDiv", "y", y, x.dtype.base_dtype)
        dtype = _quotient(x.dtype.base_dtype)
        if dtype != x.dtype.base_dtype:
            x, y = (_cast(value, dtype) for value in (x, y))
        return create("RealDiv", x, y, name=scope)


def _quotient(dtype: DType) -> DType:
    if not dtype.is_integer:
        return dtype
    return float32 if dtype.size <= 2 else float64


def _cast(x: Any, dtype: DType) -> Any:
    with op_scope("Cast", None, [x]) as scope:
        return create("Cast", x, name=scope, dtype=numpy_of(dtype))


def matrix_multiply(x: Any, y: Any, name: str | None) -> Any:
    """Multiply matrices, leading axes broadcast."""
    with op_scope(name, "MatMul", [x, y]) as scope:
        x = argument("MatMul", "a", x)
        y = argument("MatMul", "b", y, x.dtype.base_dtype)
        return create("MatMul", x, y, name=scope, transpose_a=False, transpose_b=False)


def _enter(method: str, name: str, function: _Function) -> None:
    """Register an operator for a tensor on the left, and for one on the right."""

    def of_left(x: Any, y: Any) -> Any:
        if isinstance(y, _FOREIGN):
            return NotImplemented
        with op_scope(None, name, [x, y]) as scope:
            x = convert_to_tensor(x)
            y = convert_to_tensor(y, dtype_hint=x.dtype.base_dtype, name="y")
            return function(x, y, scope)

    def of_right(y: Any, x: Any) -> Any:
        with op_scope(None, name, [x, y]) as scope:
            y = convert_to_tensor(y)
            x = argument(name, "x", x, y.dtype.base_dtype)
            return function(x, y, scope)

    OPERATORS[method] = of_left
    OPERATORS[f"r{method}"] = of_right


# With these Python asks the other operand, and then raises its own `TypeError`.
_FOREIGN = (dict, set)

for _method, _name, _function in (
    ("add", "add", _of("Add")),
    ("sub", "sub", _of("Sub")),
    ("mul", "mul", _of("Mul")),
    ("truediv", "truediv", true_divide),
    ("floordiv", "floordiv", _of("FloorDiv")),
    ("mod", "mod", _of("FloorMod")),
    ("pow", "pow", _of("Pow")),
    ("matmul", "matmul", matrix_multiply),
    ("and", "and", _of("LogicalAnd")),
    ("or", "or", _of("LogicalOr")),
    ("xor", "xor", exclusive_or),
):
    _enter(_method, _name, _function)

for _method, _op_type in {
    "lt": "Less",
    "le": "LessEqual",
    "gt": "Greater",
    "ge": "GreaterEqual",
}.items():
    OPERATORS[_method] = lambda x, y, op_type=_op_type: binary(op_type, x, y, None)

for _method, _op_type in {"neg": "Neg", "invert": "LogicalNot"}.items():
    OPERATORS[_method] = lambda x, op_type=_op_type: unary(op_type, x)

OPERATORS["abs"] = absolute


def get_item(x: Any, key: Any) -> Any:
    """Return a part of a tensor by slices, integers, None and `...`, or by a mask.

    Raises `TypeError` for anything else: rows by a list are `tf.gather`.
    """
    if _is_mask(key):
        return OPERATORS["mask"](x, key)
    parts = list(key) if isinstance(key, tuple) else [key]
    parts = [_index(part) for part in parts]
    with op_scope(None, "strided_slice", [x, *parts]) as scope:
        made: Any = strided_slice(convert_to_tensor(x), tuple(parts), name=scope)
    made.assign = partial(_assign_slice, x, made.op)
    return made


def _assign_slice(x: Any, op: Any, value: Any, name: str | None = None) -> Any:
    """Return a tensor that sets a part of a variable when it is run: the whole."""
    ref = getattr(x, "ref", None)
    if ref is None:
        raise ValueError(f"Sliced assignment is only supported for variables, not {x}.")
    with op_scope(name, f"{op.name.split('/')[-1]}_assign", [ref, value]) as scope:
        values = argument("StridedSliceAssign", "value", value, ref.dtype.base_dtype)
        bounds, how = op.inputs[1:], {"spec": op.attrs["spec"]}
        return create("StridedSliceAssign", ref, values, *bounds, name=scope, **how)


def _is_mask(key: Any) -> bool:
    if isinstance(key, ArrayProtocol):
        static = tensor_of(key).static
        return bool(static.dtype == bool and static.shape != ())
    return isinstance(key, np.ndarray) and key.dtype == bool and key.ndim > 0


def _index(index: Any) -> Any:
    if isinstance(index, slice):
        return slice(*[_number(part) for part in (index.start, index.stop, index.step)])
    if index is None or index is Ellipsis:
        return index
    return _number(index, needed=True)


def _number(number: Any, needed: bool = False) -> Any:
    number = dimension_value(number)
    if isinstance(number, ArrayProtocol) or (number is None and not needed):
        return number
    if isinstance(number, bool) or not hasattr(number, "__index__") or np.ndim(number):
        raise TypeError(
            f"Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and "
            f"scalar integer tensors are valid indices, got {number!r}."
        )
    return int(number.__index__())


OPERATORS["getitem"] = get_item
