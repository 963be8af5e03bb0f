"""Constants as messages, and what is known of a tensor before a run.

Pure.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kit.graph.array_protocol import ArrayProtocol, tensor_of
from kit.graph.op import IndexedSlices
from kit.tf1.graph.graph_def import VALUES, TensorProto, tensor_proto
from kit.tf1.tensor.constant import spread, to_constant
from kit.tf1.tensor.dtypes import as_dtype, numpy_of
from kit.tf1.tensor.shape import TensorShape
from kit.tf1.tensor.sparse import SparseTensor


def make_tensor_proto(
    values: Any,
    dtype: Any = None,
    shape: Any = None,
    verify_shape: bool = False,
    allow_broadcast: bool = False,
) -> TensorProto:
    """Return values as a message; `spread` continues too few of them with the last.

    Raises `TypeError` and `ValueError` as `tf.constant` does.
    """
    if isinstance(values, TensorProto):
        return values
    if not isinstance(values, np.ndarray | np.generic | list | tuple | str | bytes):
        values = (
            np.asarray(values)
            if hasattr(values, "__array_interface__")
            else (values.__array__() if hasattr(values, "__array__") else values)
        )
    wanted = None if dtype is None else as_dtype(dtype).base_dtype
    array = to_constant(values, wanted)
    if shape is None:
        return tensor_proto(array)
    sizes = [int(size) for size in shape]
    if verify_shape and list(array.shape) != sizes:
        raise TypeError(f"Expected Tensor's shape: {sizes}, got {array.shape}.")
    whole = spread(array, sizes)
    if array.size == whole.size:
        return tensor_proto(whole)
    return tensor_proto(array.reshape(-1), sizes)


def make_ndarray(tensor: TensorProto) -> Any:
    """Return the values of a message; raises `TypeError` for a type without any."""
    shape = [dimension.size for dimension in tensor.tensor_shape.dim]
    dtype = as_dtype(tensor.dtype)
    base = numpy_of(dtype)
    if tensor.tensor_content:
        flat = np.frombuffer(tensor.tensor_content, base).copy()
        return flat.reshape(shape)
    field = VALUES.get(dtype.base_dtype.name)
    if field is None:
        raise TypeError(f"Unsupported tensor type: {tensor.dtype}")
    values = getattr(tensor, field)
    if dtype.is_complex:
        pairs = np.array(values, numpy_of(dtype.real_dtype))
        return spread(pairs.view(base), shape)
    if field == "half_val":
        return spread(np.array(values, np.uint16).view(base), shape)
    return spread(np.array(values, base), shape)


def get_static_value(tensor: Any, partial: bool = False) -> Any:
    """Return the value of a tensor as an array, None if only a run knows it.

    With `partial`, of a stack those parts that are known, and None for others. What is
    not a tensor is returned as it is.
    """
    as_graph_tensor = _as_tensor(tensor)
    if as_graph_tensor is None:
        return tensor
    op = as_graph_tensor.op
    if partial and op.type == "Pack" and op.attrs["axis"] == 0:
        parts = np.empty(len(op.inputs), object)
        for i, operand in enumerate(op.inputs):
            parts[i] = get_static_value(operand)
        if any(part is None for part in parts):
            return parts
    return _value(as_graph_tensor)


# Of what larger values are computed here too; the graph itself folds small ones only.
_FOLDED = ("Cast", "ConcatV2", "Fill", "Pack", "Equal", "NotEqual")


def _value(tensor: Any) -> Any:
    op, value = tensor.op, tensor.static.value
    if op.type == "Const":
        value = op.attrs["value"]
    elif value is None and op.type in _FOLDED and op.attrs.get("axis", 0) in (0, -1):
        values = [_value(operand) for operand in op.inputs]
        if not any(item is None for item in values):
            value = op.op_def.kernel(np, op.attrs)(*values)
    return None if value is None else np.array(value)


def constant_value_as_shape(tensor: Any) -> TensorShape:
    """Return the shape that a vector of sizes says, as far as it is known; -1 is not.

    Raises `ValueError` for what is not a vector.
    """
    static = tensor.static
    if static.shape is None:
        return TensorShape(None)
    if len(static.shape) != 1:
        raise ValueError(f"a shape is a vector, not {tensor!r}.")
    sizes = static.value if static.value is not None else static.partial
    if sizes is None and tensor.op.type == "Pack":
        sizes = [
            -1 if (value := _value(x)) is None else value for x in tensor.op.inputs
        ]
    if sizes is None:
        return TensorShape(
            None if static.shape[0] is None else [None] * static.shape[0]
        )
    return TensorShape(
        [None if size != size or size < 0 else int(size) for size in sizes]
    )


def is_tensor(x: Any) -> bool:
    """Return whether `x` is a tensor, a variable, or sparse."""
    return isinstance(x, ArrayProtocol | IndexedSlices | SparseTensor)


def _as_tensor(x: Any) -> Any:
    return tensor_of(x) if isinstance(x, ArrayProtocol) else None
