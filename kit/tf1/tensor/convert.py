"""From Python values to tensors as in the original: strict, without promotion.

All functions of `kit.tf1` that make ops are built like this:

    with op_scope(name, "add", [x, y]) as scope:
        x, y = arguments("Add", x=x, y=y)
        return create("Add", x, y, name=scope)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from kit.graph.array_protocol import ArrayProtocol, tensor_of
from kit.graph.convert import holds_tensor
from kit.graph.gradients import dense
from kit.graph.op import IndexedSlices, Op
from kit.graph.op import Tensor as NativeTensor
from kit.graph.table import lookup
from kit.tf1.graph.graph import Graph, get_default_graph
from kit.tf1.tensor.allowed import check_allowed
from kit.tf1.tensor.constant import to_constant
from kit.tf1.tensor.dtypes import DType, as_dtype, numpy_of
from kit.tf1.tensor.shape import Dimension, TensorShape
from kit.tf1.tensor.tensor import Tensor


def graph_for(values: Any) -> Graph:
    """Return the graph that tensors, variables and ops among `values` belong to.

    That is the default graph if there are none. Raises `ValueError` if they belong to
    several.
    """
    common: Graph | None = None
    for value in _flat(values):
        graph = (
            getattr(value, "graph", None) if isinstance(value, _OF_A_GRAPH) else None
        )
        if not isinstance(graph, Graph):
            continue
        if common is not None and graph is not common:
            raise ValueError(
                f"{value!r} must be from the same graph as the other inputs; build all "
                f"of them inside one graph.as_default()."
            )
        common = graph
    return get_default_graph() if common is None else common


@contextmanager
def op_scope(
    name: str | None, default_name: str | None, values: Any = ()
) -> Iterator[str]:
    """Enter the graph of `values` and a new name scope; yields the scope's name.

    The name ends in a slash: as the name of an op it stands for the scope itself, so
    that an op `add` has its constants below `add/`.
    """
    graph = graph_for(values)
    with graph.as_default(), graph.name_scope(name or default_name) as scope:
        yield scope


def create_op(op_type: str, *inputs: Any, name: str | None, **attrs: Any) -> Any:
    """Add an op of the table to the graph of its inputs and return the op.

    An op that takes a variable itself goes where that is. Raises `TypeError` for a
    dtype that the op does not take.
    """
    check_allowed(op_type, inputs)
    graph = graph_for(inputs)
    with ExitStack() as stack:
        for number in lookup(op_type).refs:
            stack.enter_context(graph.colocate_with(inputs[number].op))
        return graph.create(op_type, *inputs, name=name, **attrs)


def create(op_type: str, *inputs: Any, name: str | None, **attrs: Any) -> Any:
    """Add an op and return its output; several outputs as a list."""
    outputs = create_op(op_type, *inputs, name=name, **attrs).outputs
    return outputs[0] if len(outputs) == 1 else list(outputs)


def convert_to_tensor(
    value: Any,
    dtype: Any = None,
    name: str | None = None,
    preferred_dtype: Any = None,
    dtype_hint: Any = None,
) -> Any:
    """Return `value` as a tensor: itself, a variable's value, or a new constant.

    A constant takes `dtype`, else `preferred_dtype` if it fits into it, else its own:
    an int is int32, a float is float32, a numpy array keeps its dtype. Raises
    `ValueError` for a tensor of another dtype than `dtype` and for None, `TypeError`
    for Python values that `dtype` cannot hold.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    hint = preferred_dtype if dtype_hint is None else dtype_hint
    if wanted is None and hint is not None and not isinstance(value, ArrayProtocol):
        try:
            return _converted(value, as_dtype(hint).base_dtype, name)
        except (TypeError, ValueError):
            pass  # it is only a hint
    return _converted(value, wanted, name)


def arguments(op_type: str, **values: Any) -> list[Any]:
    """Return the arguments of an op that must have the same dtype, as tensors.

    The first one decides, the others follow; the constants among them are named like
    the arguments. Raises `TypeError` when one is of another dtype.
    """
    tensors: list[Any] = []
    for name, value in values.items():
        dtype = tensors[0].dtype.base_dtype if tensors else None
        tensors.append(argument(op_type, name, value, dtype))
    return tensors


def argument(op_type: str, name: str, value: Any, dtype: Any = None) -> Any:
    """Return one argument of an op as a tensor; `TypeError` if it is not of `dtype`."""
    try:
        return convert_to_tensor(value, dtype, name)
    except ValueError as exc:
        if not isinstance(value, ArrayProtocol):
            raise
        tensor = convert_to_tensor(value)
        raise TypeError(
            f"Input {name!r} of {op_type!r} Op has type {tensor.dtype.name} that does "
            f"not match the expected type of {as_dtype(dtype).name}."
        ) from exc


def convert_to_tensor_or_indexed_slices(
    value: Any, dtype: Any = None, name: str | None = None
) -> Any:
    """Return sparse rows unchanged and anything else as a tensor."""
    if isinstance(value, IndexedSlices):
        return value
    return convert_to_tensor(value, dtype, name)


def _converted(value: Any, dtype: DType | None, name: str | None) -> Any:
    if isinstance(value, ArrayProtocol):
        return _checked(tensor_of(value), dtype)
    if isinstance(value, IndexedSlices):
        return _checked(dense(value), dtype)
    if holds_tensor(value):
        first_dtype = _first_dtype(value)
        if dtype is not None and dtype != first_dtype:
            value = _cast(value, dtype)
        return _packed(value, dtype or first_dtype, name or "packed")
    if isinstance(value, TensorShape | Dimension):
        return _shape_constant(value, dtype, name or "shape_as_tensor")
    if isinstance(value, Op):
        raise TypeError(
            f"Can't convert Operation {value.name!r} to Tensor; use one of its outputs."
        )
    array = to_constant(value, dtype)
    graph = get_default_graph()
    return graph.create("Const", name=name or "Const", value=array).outputs[0]


def _checked(tensor: NativeTensor, dtype: DType | None) -> Any:
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"{tensor!r} is of a graph of kit itself; a program of kit.tf1 uses "
            f"tensors of a tf.Graph."
        )
    if dtype is not None and not dtype.is_compatible_with(tensor.dtype):
        raise ValueError(
            f"Tensor conversion requested dtype {dtype.name} for Tensor with dtype "
            f"{tensor.dtype.name}: {tensor!r}"
        )
    return tensor


def _cast(values: Any, dtype: DType) -> Any:
    """Return nested lists with the tensors in them cast to a type."""
    if isinstance(values, list | tuple):
        return [_cast(value, dtype) for value in values]
    if not isinstance(values, ArrayProtocol):
        return values
    tensor = _checked(tensor_of(values), None)
    if tensor.dtype.base_dtype == dtype.base_dtype:
        return tensor
    return create("Cast", tensor, name="Cast", dtype=numpy_of(dtype))


def _packed(values: Any, dtype: DType | None, name: str) -> Any:
    with op_scope(name, None, values) as scope:
        parts = [
            _packed(value, dtype, str(i))
            if holds_tensor(value)
            else argument("Pack", str(i), value, dtype)
            for i, value in enumerate(values)
        ]
        return create("Pack", *parts, name=scope, axis=0)


def _shape_constant(value: Any, dtype: DType | None, name: str) -> Any:
    if isinstance(value, Dimension):
        sizes: Any = value.value
        is_whole = sizes is not None
    else:
        is_whole = value.is_fully_defined()
        sizes = value.as_list() if is_whole else None
    if not is_whole:
        raise ValueError(
            f"Cannot convert a partially known {type(value).__name__} to a Tensor: "
            f"{value}"
        )
    if dtype is not None and dtype.name not in ("int32", "int64"):
        raise TypeError(
            f"Cannot convert a {type(value).__name__} to dtype {dtype.name}"
        )
    most = max(sizes, default=0) if isinstance(sizes, list) else sizes
    if dtype is not None and dtype.name == "int32" and most >= 2**31:
        raise ValueError(f"Cannot convert to int32: a dimension is too large ({most}).")
    if dtype is None:
        dtype = as_dtype("int32" if most < 2**31 else "int64")
    return _converted(sizes, dtype, name)


def _first_dtype(values: Any) -> DType | None:
    return next(
        (
            as_dtype(tensor_of(value).static.dtype)
            for value in _flat(values)
            if isinstance(value, ArrayProtocol)
        ),
        None,
    )


def _flat(values: Any) -> Iterator[Any]:
    if isinstance(values, list | tuple):
        for value in values:
            yield from _flat(value)
    else:
        yield values


_OF_A_GRAPH = (ArrayProtocol, IndexedSlices, Op)
