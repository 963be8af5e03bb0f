"""Tensors from values: constants, fills, placeholders, ranges, one-hot rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kit.bfloat16 import kind_of
from kit.graph.array_protocol import ArrayProtocol, tensor_of
from kit.graph.dtypes import STRING, name_of
from kit.graph.static import is_known, known_shape
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.ops.arithmetic import cast
from kit.tf1.ops.reduce import reduce_max
from kit.tf1.ops.shape import expand_dims
from kit.tf1.ops.write import index, ints, reserve, vector, whole
from kit.tf1.tensor.constant import spread, to_constant
from kit.tf1.tensor.convert import argument, convert_to_tensor, create, op_scope
from kit.tf1.tensor.dtypes import as_dtype, float32, int32, numpy_of
from kit.tf1.tensor.shape import TensorShape, static_of

# From this many elements on, zeros and ones are filled in a run, not sent in the graph.
_MANY = 1000


def constant(
    value: Any,
    dtype: Any = None,
    shape: Any = None,
    name: str | None = "Const",
    verify_shape: bool = False,
) -> Any:
    """Return a tensor with a fixed value.

    With `shape` the last value fills what is missing. Raises `ValueError` for more
    values than `shape` has room for, `TypeError` for anything that is not a value of
    `dtype` and, with `verify_shape`, for a value of another shape.
    """
    if isinstance(value, ArrayProtocol):
        raise TypeError(f"a constant is made of values, not of the tensor {value!r}.")
    array = to_constant(value, None if dtype is None else as_dtype(dtype))
    if shape is not None:
        wanted = tuple(TensorShape(shape).as_list())
        if verify_shape and array.shape != wanted:
            raise TypeError(f"Expected Tensor's shape: {wanted}, got {array.shape}.")
        array = spread(array, known_shape(wanted))
    return _const(array, "Const" if name is None else name)


def _const(array: Any, name: str) -> Any:
    graph = get_default_graph()
    with graph.as_default():
        return graph.create("Const", name=name, value=array).outputs[0]


def zeros(shape: Any, dtype: Any = float32, name: str | None = None) -> Any:
    """Return a tensor of zeros; texts are empty."""
    return _all(0, shape, dtype, name, "zeros")


def ones(shape: Any, dtype: Any = float32, name: str | None = None) -> Any:
    """Return a tensor of ones."""
    return _all(1, shape, dtype, name, "ones")


def _all(number: int, shape: Any, dtype: Any, name: str | None, default: str) -> Any:
    wanted = numpy_of(dtype)
    if number and wanted == STRING:
        raise TypeError(
            f"{default} makes numbers, not strings; use tf.fill for a dtype of string."
        )
    value = np.array(number if wanted != STRING else b"", wanted)
    with op_scope(name, default, [shape]) as scope:
        small = _few(shape)
        if small is not None:
            return _const(np.full(small, value, wanted), scope)
        has_tensors = isinstance(shape, list | tuple) and any(
            isinstance(size, ArrayProtocol) for size in shape
        )
        sizes = _sizes(shape, "packed" if has_tensors else "shape_as_tensor")
        return _fill(sizes, _const(value, "Const"), scope)


def _few(shape: Any) -> list[int] | None:
    """Return the sizes of a shape that holds few elements, None of any other."""
    try:
        static_shape = None if isinstance(shape, ArrayProtocol) else TensorShape(shape)
    except (TypeError, ValueError):
        return None
    if static_shape is None or not static_shape.is_fully_defined():
        return None
    sizes = [size or 0 for size in static_shape.as_list()]
    return sizes if np.prod(sizes) < _MANY else None


def _sizes(shape: Any, name: str = "shape_as_tensor") -> Any:
    """Return sizes as a list if they are known now, else as a tensor."""
    sizes = ints("Fill", name, shape)
    return [sizes] if isinstance(sizes, int) else sizes


def _fill(sizes: Any, value: Any, name: str) -> Any:
    if isinstance(sizes, list):
        return create("Fill", value, name=name, shape=tuple(sizes))
    return create("Fill", value, sizes, name=name, shape=None)


def fill(dims: Any, value: Any, name: str | None = None) -> Any:
    """Return a tensor with one value everywhere.

    Raises `ValueError` for a value that has axes and for sizes below zero.
    """
    with op_scope(name, "Fill", [dims, value]) as scope:
        sizes = vector("Fill", "dims", dims)
        return _fill(sizes, argument("Fill", "value", value), scope)


def zeros_like(
    tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True
) -> Any:
    """Return zeros in the shape of a tensor, and in its dtype or another."""
    return _like(0, "ZerosLike", tensor, dtype, name, "zeros_like")


def ones_like(
    tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True
) -> Any:
    """Return ones in the shape of a tensor, and in its dtype or another."""
    return _like(1, "OnesLike", tensor, dtype, name, "ones_like")


def _like(
    number: int, op_type: str, tensor: Any, dtype: Any, name: str | None, default: str
) -> Any:
    with op_scope(name, default, [tensor]) as scope:
        like = convert_to_tensor(tensor, name="tensor")
        wanted = like.dtype if dtype is None else as_dtype(dtype)
        shape = like.static.shape
        if is_known(shape):
            return _all(number, list(shape), wanted, scope, default)
        return create(op_type, like, name=scope, dtype=numpy_of(wanted))


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Any:
    """Return a tensor whose value each run is fed; None in `shape` is any size."""
    base = numpy_of(dtype)
    graph = get_default_graph()
    attrs: dict[str, Any] = {"dtype": base, "shape": static_of(shape)}
    with graph.as_default():
        return graph.create("Placeholder", name=name or None, **attrs).outputs[0]


def placeholder_with_default(
    input: Any,
    shape: Any,
    name: str | None = None,
) -> Any:
    """Return a tensor that has the value of `input` unless another one is fed.

    Raises `ValueError` if `input` cannot have this shape.
    """
    wanted = static_of(shape)
    with op_scope(name, "PlaceholderWithDefault", [input]) as scope:
        value = argument("PlaceholderWithDefault", "input", input)
        return create("PlaceholderWithDefault", value, name=scope, shape=wanted)


def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: Any = float32,
    name: str | None = None,
) -> Any:
    """Return a matrix with ones on the diagonal, repeated for `batch_shape`."""
    rows, columns = (
        size if isinstance(size, int) else whole("Eye", "num_rows", size)
        for size in (num_rows, num_rows if num_columns is None else num_columns)
    )
    wanted = numpy_of(dtype)
    with op_scope(name, "eye", [num_rows, num_columns, batch_shape]):
        last = "diag" if rows == columns else "set_diag"
        batch = [] if batch_shape is None else _sizes(batch_shape)
        first = "ones" if batch else last
        matrix = create("Eye", name=first, shape=(rows, columns), dtype=wanted)
        if not batch:
            return matrix
        shape = (*batch, rows, columns)
        return create("BroadcastTo", matrix, name=last, shape=shape)


_RANKED = ("int32", "int64", "float32", "float64")


def range(
    start: Any,
    limit: Any = None,
    delta: Any = 1,
    dtype: Any = None,
    name: str | None = "range",
) -> Any:
    """Return start, start + delta, ... below limit; with one bound it begins at 0.

    Raises `ValueError` for a delta that does not lead from start to limit.
    """
    if limit is None:
        start, limit = 0, start
    wanted = None if dtype is None else as_dtype(dtype)
    with op_scope(name, "range", [start, limit, delta]) as scope:
        parts = {"start": start, "limit": limit, "delta": delta}
        common = wanted or _highest(parts.values())
        bounds = [_bound(bound, common, part) for part, bound in parts.items()]
        return create("Range", *bounds, name=scope)


def _highest(bounds: Iterable[Any]) -> Any:
    names = [
        name_of(
            tensor_of(bound).static.dtype
            if isinstance(bound, ArrayProtocol)
            else to_constant(bound).dtype
        )
        for bound in bounds
    ]
    for name in names:
        if name not in _RANKED:
            raise TypeError(f"a range is of {', '.join(_RANKED)}, not of {name}.")
    return as_dtype(max(names, key=_RANKED.index))


def _bound(bound: Any, dtype: Any, name: str) -> Any:
    if not isinstance(bound, ArrayProtocol):
        value = to_constant(bound)
        # Not from a float32, which would be another number in float64.
        value = np.asarray(bound) if kind_of(value.dtype) == "f" else value
        return convert_to_tensor(value.astype(dtype.as_numpy_dtype), name=name)
    tensor = convert_to_tensor(bound)
    if tensor.dtype.base_dtype == dtype:
        return tensor
    return create("Cast", tensor, name="Cast", dtype=numpy_of(dtype))


def linspace(start: Any, stop: Any, num: Any, name: str | None = None) -> Any:
    """Return `num` numbers from start to stop, both included, equally far apart."""
    with op_scope(name, "LinSpace", [start, stop, num]) as scope:
        first = argument("LinSpace", "start", start)
        last = argument("LinSpace", "stop", stop, first.dtype.base_dtype)
        count = whole("LinSpace", "num", num)
        return create("LinSpace", first, last, name=scope, num=count)


lin_space = linspace  # an older name


def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Any:
    """Return `on_value` at each index along a new axis of size `depth`, else the other.

    They are 1 and 0 if left out. Raises `TypeError` when their dtypes, and `dtype`,
    differ.
    """
    with op_scope(name, "one_hot", [indices, depth, on_value, off_value]) as scope:
        wanted = None if dtype is None else as_dtype(dtype)
        on, off = (
            None if value is None else argument("OneHot", what, value)
            for what, value in (("on_value", on_value), ("off_value", off_value))
        )
        wanted = _common(wanted, on, off)
        on = argument("OneHot", "on_value", 1, wanted) if on is None else on
        off = argument("OneHot", "off_value", 0, wanted) if off is None else off
        places = index("OneHot", "indices", indices, ("uint8", "int32", "int64"))
        count = ints("OneHot", "depth", depth)
        if isinstance(count, list):
            raise ValueError(f"depth must be one number, not {count}.")
        attrs: dict[str, Any] = {"axis": -1 if axis is None else axis}
        if isinstance(count, int):
            return create("OneHot", places, on, off, name=scope, depth=count, **attrs)
        return create("OneHot", places, on, off, count, name=scope, depth=None, **attrs)


def _common(wanted: Any, on: Any, off: Any) -> Any:
    for value in (on, off):
        if value is None:
            continue
        dtype = value.dtype.base_dtype
        if wanted is not None and dtype != wanted:
            raise TypeError(
                f"dtype {dtype.name} of on_value or off_value does not match "
                f"{wanted.name}."
            )
        wanted = dtype
    return float32 if wanted is None else wanted


def sequence_mask(
    lengths: Any, maxlen: Any = None, dtype: Any = None, name: str | None = None
) -> Any:
    """Return for each length a row that is true in its first `lengths` places."""
    with op_scope(name, "SequenceMask", [lengths, maxlen]):
        tensor = convert_to_tensor(lengths, dtype_hint=int32)
        most = reduce_max(tensor) if maxlen is None else convert_to_tensor(maxlen)
        places = range(0, cast(most, tensor.dtype), 1, dtype=tensor.dtype.base_dtype)
        mask = create("Less", places, expand_dims(tensor, -1), name="Less")
        reserve("Cast")
        return mask if dtype is None else cast(mask, dtype)
