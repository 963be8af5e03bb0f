"""The same elements in another shape, and shapes as values."""

from __future__ import annotations

from typing import Any

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.op import Tensor
from kit.graph.ops.array import broadcast
from kit.graph.ops.array import shape as native
from kit.graph.ops.array.pad import pad as native_pad
from kit.graph.static import axis_of, is_known, n_elements, text
from kit.tf1.ops.arithmetic import cast, conj
from kit.tf1.ops.write import axes, fed, index, one_of, value_now, vector
from kit.tf1.tensor.convert import argument, convert_to_tensor, create, op_scope
from kit.tf1.tensor.dtypes import int32, numpy_of
from kit.tf1.tensor.sparse import SparseTensor, SparseTensorValue


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Any:
    """Return the elements, row by row, in another shape; one size may be -1.

    Raises `ValueError` if the number of elements does not fit.
    """
    with op_scope(name, "Reshape", [tensor, shape]) as scope:
        operand = argument("Reshape", "tensor", tensor)
        sizes = vector("Reshape", "shape", shape)
        if isinstance(sizes, list) and sizes.count(-1) > 1:
            # The original finds this out in the run: the shape must stay unknown now.
            sizes_fed = convert_to_tensor(shape, name="shape", dtype_hint=int32)
            sizes = create(
                "PlaceholderWithDefault", sizes_fed, name=None, shape=(len(sizes),)
            )
        if isinstance(sizes, list) and -1 not in sizes:
            _check_count(operand.static.shape, sizes)
        return native.reshape(operand, sizes, name=scope)


def _check_count(shape: Any, sizes: list[int]) -> None:
    """Raise `ValueError` if no size fits where `shape` has an unknown one."""
    fixed_sizes = [size for size in shape or () if size is not None]
    each, wanted = int(np.prod(fixed_sizes)), int(np.prod(sizes))
    if (wanted % each if each else wanted) and shape is not None:
        raise ValueError(
            f"Cannot reshape a tensor of {text(shape)} to shape {sizes} ({wanted} "
            f"elements)."
        )


def transpose(
    a: Any, perm: Any = None, name: str | None = "transpose", conjugate: bool = False
) -> Any:
    """Return the tensor with its axes in the order `perm`, or reversed.

    Raises `ValueError` unless `perm` has one number for each axis.
    """
    with op_scope(name, "transpose", [a, perm]) as scope:
        operand = convert_to_tensor(a, name="a")
        operand = conj(operand) if conjugate else operand
        order = None if perm is None else axes("Transpose", "perm", perm)
        if order is not None and len(set(order)) != len(order):
            raise InvalidArgumentError(
                f"{order} is missing one of the axes of {operand!r}."
            )
        return native.transpose(operand, order, name=scope)


def matrix_transpose(
    a: Any, name: str | None = "matrix_transpose", conjugate: bool = False
) -> Any:
    """Return the tensor with its last two axes exchanged.

    Raises `ValueError` for a tensor that has fewer, or an unknown number of axes.
    """
    with op_scope(name, "matrix_transpose", [a]):
        operand = convert_to_tensor(a, name="a")
        shape = operand.static.shape
        if shape is None or len(shape) < 2:
            raise ValueError(
                f"Argument 'a' should be a (batch) matrix, with rank >= 2. Found: "
                f"{text(shape)}"
            )
        n = len(shape)
        return transpose(operand, [*range(n - 2), n - 1, n - 2], conjugate=conjugate)


def expand_dims(
    input: Any,
    axis: Any = None,
    name: str | None = None,
    dim: Any = None,
) -> Any:
    """Return the tensor with a new axis of size 1; `dim` is an older name of `axis`."""
    axis = one_of("axis", axis, "dim", dim)
    if axis is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    with op_scope(name, "ExpandDims", [input, axis]) as scope:
        operand = argument("ExpandDims", "input", input)
        places = axes("ExpandDims", "dim", axis)
        if len(places) != 1:
            raise ValueError(f"'dim' must be a tensor with a single value, not {axis}.")
        return native.expand_dims(operand, places, name=scope)


def squeeze(
    input: Any,
    axis: Any = None,
    name: str | None = None,
    squeeze_dims: Any = None,
) -> Any:
    """Return the tensor without these axes of size 1, or without all such axes."""
    axis = one_of("axis", axis, "squeeze_dims", squeeze_dims)
    with op_scope(name, "Squeeze", [input]) as scope:
        operand = argument("Squeeze", "input", input)
        gone = None if axis is None else axes("Squeeze", "squeeze_dims", axis)
        return native.squeeze(operand, gone or None, name=scope)


def tile(input: Any, multiples: Any, name: str | None = None) -> Any:
    """Return the tensor repeated a number of times along each axis."""
    with op_scope(name, "Tile", [input, multiples]) as scope:
        operand = argument("Tile", "input", input)
        return broadcast.tile(
            operand, vector("Tile", "multiples", multiples), name=scope
        )


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Any:
    """Return the tensor repeated so that it has this shape."""
    with op_scope(name, "BroadcastTo", [input, shape]) as scope:
        operand = argument("BroadcastTo", "input", input)
        return broadcast.broadcast_to(
            operand, vector("BroadcastTo", "shape", shape), name=scope
        )


def shape(
    input: Any,
    name: str | None = None,
    out_type: Any = int32,
) -> Any:
    """Return the shape as a tensor; a constant if it is already known."""
    if isinstance(input, SparseTensor | SparseTensorValue):
        return cast(input.dense_shape, out_type, name)
    with op_scope(name, "Shape", [input]) as scope:
        operand = convert_to_tensor(input)
        sizes = operand.static.shape
        value = list(sizes) if is_known(sizes) else None
        return _constant_or_op("Shape", operand, value, out_type, scope)


def guarantee_const(input: Any, name: str | None = None) -> Any:
    """Return the tensor, of which a run may believe that it does not change."""
    with op_scope(name, "GuaranteeConst", [input]) as scope:
        return create("Identity", convert_to_tensor(input), name=scope)


def shape_n(input: Any, out_type: Any = int32, name: str | None = None) -> Any:
    """Return the shapes of several tensors as a list of tensors."""
    with op_scope(name, "ShapeN", list(input)):
        return [shape(tensor, out_type=out_type) for tensor in input]


def size(
    input: Any,
    name: str | None = None,
    out_type: Any = int32,
) -> Any:
    """Return the number of elements as a tensor; a constant if already known."""
    if isinstance(input, SparseTensor | SparseTensorValue):
        sizes = convert_to_tensor(input.dense_shape)
        total = create("Prod", sizes, name=None, axis=None, keepdims=False)
        return cast(total, out_type, name)
    with op_scope(name, "Size", [input]) as scope:
        operand = convert_to_tensor(input)
        return _constant_or_op(
            "Size", operand, n_elements(operand.static.shape), out_type, scope
        )


def rank(input: Any, name: str | None = None) -> Any:
    """Return the number of axes as a tensor; a constant if it is already known."""
    if isinstance(input, SparseTensor | SparseTensorValue):
        return size(input.dense_shape, name)
    with op_scope(name, "Rank", [input]) as scope:
        operand = convert_to_tensor(input)
        sizes = operand.static.shape
        return _constant_or_op(
            "Rank", operand, None if sizes is None else len(sizes), int32, scope
        )


def _constant_or_op(op_type: str, x: Any, value: Any, out_type: Any, name: str) -> Any:
    dtype = numpy_of(out_type)
    if value is None:
        return create(op_type, x, name=name, dtype=dtype)
    try:
        array = np.array(value, dtype)
    except OverflowError as exc:
        raise ValueError(
            f"{value} does not fit into {dtype.name}; give out_type=tf.int64."
        ) from exc
    return x.graph.create("Const", name=name, value=array).outputs[0]


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Any:
    """Return the tensor with its elements in reverse order along some axes."""
    with op_scope(name, "ReverseV2", [tensor, axis]) as scope:
        operand = argument("ReverseV2", "tensor", tensor)
        places, sizes = vector("ReverseV2", "axis", axis), operand.static.shape
        if isinstance(places, Tensor) and places.static.value is None:
            return fed("ReverseV2", [operand], places, scope, sizes).outputs[0]
        turned = axes("ReverseV2", "axis", places)
        if sizes is not None:
            turned = tuple(axis_of(number, len(sizes)) for number in turned)
        return create("ReverseV2", operand, name=scope, axis=turned)


def pad(
    tensor: Any,
    paddings: Any,
    mode: str = "CONSTANT",
    name: str | None = None,
    constant_values: Any = 0,
) -> Any:
    """Return the tensor with more elements before and after it along each axis.

    `paddings` has a row (before, after) for each axis; `mode` is CONSTANT, REFLECT
    (without the edge) or SYMMETRIC (with the edge). Raises `ValueError` for others.
    """
    kind = mode.upper()
    if kind not in ("CONSTANT", "REFLECT", "SYMMETRIC"):
        raise ValueError(f"Unknown padding mode: {mode}")
    is_zero = not isinstance(constant_values, Tensor) and np.all(constant_values == 0)
    default = ("Pad" if is_zero else "PadV2") if kind == "CONSTANT" else "MirrorPad"
    with op_scope(name, default, [tensor, paddings]) as scope:
        operand = argument(default, "input", tensor)
        rows = index(default, "paddings", paddings)
        rows.shape.assert_has_rank(2)
        fixed_rows = rows.static.value
        static_rows = None if isinstance(paddings, Tensor) else fixed_rows
        if static_rows is not None and static_rows.shape[1] == 2:
            rows = static_rows.tolist()
        if fixed_rows is not None and (fixed_rows < 0).any():
            raise ValueError(f"paddings must be non-negative, not {paddings!r}.")
        fill = 0 if is_zero else _fill_of(constant_values, operand)
        if kind == "CONSTANT":
            return native_pad(operand, rows, "constant", fill, name=scope)
        try:
            return native_pad(operand, rows, kind.lower(), name=scope)
        except ValueError as exc:
            raise InvalidArgumentError(str(exc)) from exc


def _fill_of(fill_value: Any, x: Any) -> Any:
    value = value_now(
        argument("PadV2", "constant_values", fill_value, x.dtype.base_dtype)
    )
    if value is None:
        raise ValueError("pad needs to know constant_values when the line is written.")
    return value
