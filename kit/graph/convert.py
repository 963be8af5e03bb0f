"""From Python values, arrays and variables to tensors of a graph.

Pure. `tensor` takes anything; `operands` brings the operands of one operation to one
dtype in numpy's way, and `resolved` to the one in which a ufunc computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.graph.array_protocol import ArrayProtocol, tensor_of
from kit.graph.default import default_graph, graph_of
from kit.graph.dtypes import STRING, DType, dtype_of, on_host, to_array
from kit.graph.graph import Graph
from kit.graph.op import Op, Tensor


def tensor(
    x: Any, dtype: Any = None, name: str = "Const", graph: Graph | None = None
) -> Tensor:
    """Return `x` as a tensor: itself, a variable's value, or a constant.

    Lists that hold tensors are stacked. A constant enters `graph`, or the default
    graph. Raises `TypeError` when it is a tensor of another dtype than the one given,
    and as `to_array` does.
    """
    wanted = None if dtype is None else dtype_of(dtype)
    if isinstance(x, ArrayProtocol):
        result = tensor_of(x)
        if wanted is not None and result.static.dtype != wanted:
            raise TypeError(
                f"{result!r} is wanted as {wanted}; cast it with "
                f".astype({str(wanted)!r})."
            )
        return result
    if holds_tensor(x):
        like = wanted or _first_dtype(x)
        return make("Pack", *[tensor(part, like) for part in x], axis=0)
    if isinstance(x, Op):
        raise TypeError(f"{x!r} is an op and has no value; use one of its outputs.")
    value = to_array(x, wanted)
    chosen = graph or default_graph()
    made: Tensor = chosen.create("Const", name=name, value=value).outputs[0]
    return made


def make(
    op_type: str, *inputs: Tensor, name: str | None = None, **attrs: Any
) -> Tensor:
    """Add an op to the inputs' graph and return its first output."""
    made: Tensor = make_op(op_type, *inputs, name=name, **attrs).outputs[0]
    return made


def make_op(op_type: str, *inputs: Tensor, name: str | None = None, **attrs: Any) -> Op:
    """Add an op to the inputs' graph and return the op itself."""
    return graph_of(inputs).create(op_type, *inputs, name=name, **attrs)


def operands(*xs: Any) -> list[Tensor]:
    """Return the operands as tensors of one dtype, the one numpy would compute in.

    Python's own numbers take the dtype of the others where they can.
    """
    dtypes = [_dtype_or_value(x) for x in xs]
    if any(isinstance(dtype, np.dtype) and dtype == STRING for dtype in dtypes):
        common: DType = STRING
    elif all(not isinstance(dtype, np.dtype) for dtype in dtypes):
        common = np.result_type(*[to_array(x).dtype for x in xs])
    else:
        common = np.result_type(*dtypes)
    graph = graph_of(xs)
    return [_as(x, common, graph) for x in xs]


def resolved(ufunc: np.ufunc, *xs: Any) -> list[Tensor]:
    """Return the operands in the dtypes in which numpy would compute this function.

    Raises `TypeError` for dtypes that the function does not take.
    """
    dtypes = [_dtype_or_value(x) for x in xs]
    if any(isinstance(dtype, np.dtype) and dtype == STRING for dtype in dtypes):
        return operands(*xs)
    if all(not isinstance(dtype, np.dtype) for dtype in dtypes):
        dtypes = [to_array(x).dtype for x in xs]
    asked = [dtype if isinstance(dtype, np.dtype) else _weak(dtype) for dtype in dtypes]
    loop = ufunc.resolve_dtypes((*asked, *[None] * ufunc.nout))[: len(xs)]
    # A loop may take operands of different dtypes; our ops take one for all.
    common: DType = loop[0] if len(set(loop)) == 1 else np.result_type(*loop)
    graph = graph_of(xs)
    return [_as(x, common, graph) for x in xs]


def _weak(x: Any) -> Any:
    # numpy resolves Python's int, float and complex as weak, and bool as a dtype only.
    return np.dtype(bool) if isinstance(x, bool) else type(x)


def _as(x: Any, dtype: DType, graph: Graph) -> Tensor:
    if isinstance(x, ArrayProtocol):
        result = tensor_of(x)
        if result.static.dtype == dtype:
            return result
        return make("Cast", result, dtype=dtype)
    value = x if dtype == STRING or holds_tensor(x) else np.asarray(on_host(x), dtype)
    return tensor(value, dtype, graph=graph)


def _dtype_or_value(x: Any) -> Any:
    if isinstance(x, ArrayProtocol):
        return tensor_of(x).static.dtype
    if isinstance(x, bool | int | float | complex) and not isinstance(x, np.generic):
        return x
    if holds_tensor(x):
        return _first_dtype(x)
    dtype = getattr(x, "dtype", None)
    return dtype if isinstance(dtype, np.dtype) else to_array(x).dtype


def holds_tensor(x: Any) -> bool:
    """Whether `x` is a list or tuple with a tensor in it, at any depth."""
    return isinstance(x, list | tuple) and any(
        isinstance(part, ArrayProtocol) or holds_tensor(part) for part in x
    )


def _first_dtype(x: Sequence[Any]) -> DType | None:
    for part in x:
        if isinstance(part, ArrayProtocol):
            return tensor_of(part).static.dtype
        if isinstance(part, list | tuple) and (dtype := _first_dtype(part)) is not None:
            return dtype
    return None
