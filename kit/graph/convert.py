"""From Python values, arrays and variables to tensors of a graph.

Pure. `tensor` takes anything; `operands` brings the operands of one operation to one
dtype in numpy's way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.graph.default import graph_of
from kit.graph.dtypes import STRING, DType, dtype_of, to_array
from kit.graph.op import Op, Tensor
from kit.graph.speak import Speaker


def tensor(x: Any, dtype: Any = None, name: str = "Const") -> Tensor:
    """Return `x` as a tensor: itself, a variable's value, or a constant.

    Lists that hold tensors are stacked. Raises `TypeError` when it is a tensor of
    another dtype than the one given, and as `to_array` does.
    """
    wanted = None if dtype is None else dtype_of(dtype)
    if isinstance(x, Speaker):
        found = x._as_tensor()
        if wanted is not None and found.static.dtype != wanted:
            raise TypeError(
                f"{found!r} is wanted as {wanted}; cast it with .astype({str(wanted)!r})."
            )
        return found
    if isinstance(x, list | tuple) and _holds_tensor(x):
        like = wanted or _first_dtype(x)
        return make("Pack", *[tensor(one, like) for one in x], axis=0)
    if isinstance(x, Op):
        raise TypeError(f"{x!r} is an op and has no value; use one of its outputs.")
    return make("Const", name=name, value=to_array(x, wanted))


def make(op_type: str, *inputs: Tensor, name: str | None = None, **attrs: Any) -> Any:
    """Add an op to the inputs' graph and return its output; several as a tuple."""
    outputs = graph_of(inputs).create(op_type, *inputs, name=name, **attrs).outputs
    return outputs[0] if len(outputs) == 1 else outputs


def make_op(op_type: str, *inputs: Tensor, name: str | None = None, **attrs: Any) -> Op:
    """Add an op to the inputs' graph and return the op itself."""
    return graph_of(inputs).create(op_type, *inputs, name=name, **attrs)


def operands(*xs: Any) -> list[Tensor]:
    """Return the operands as tensors of one dtype, the one numpy would compute in.

    Python's own numbers take the dtype of the others where they can.
    """
    dtypes = [_dtype_or_value(x) for x in xs]
    if any(isinstance(one, np.dtype) and one == STRING for one in dtypes):
        common: DType = STRING
    elif all(not isinstance(one, np.dtype) for one in dtypes):
        common = np.result_type(*[to_array(x).dtype for x in xs])
    else:
        common = np.result_type(*dtypes)
    return [_as(x, common) for x in xs]


def _as(x: Any, dtype: DType) -> Tensor:
    if isinstance(x, Speaker):
        found = x._as_tensor()
        if found.static.dtype == dtype:
            return found
        cast: Tensor = make("Cast", found, dtype=dtype)
        return cast
    return tensor(np.asarray(x, dtype) if dtype != STRING else x)


def _dtype_or_value(x: Any) -> Any:
    if isinstance(x, Speaker):
        return x._as_tensor().static.dtype
    if isinstance(x, bool | int | float | complex) and not isinstance(x, np.generic):
        return x
    return to_array(x).dtype if not hasattr(x, "dtype") else np.asarray(x).dtype


def _holds_tensor(x: Sequence[Any]) -> bool:
    return any(
        isinstance(one, Speaker)
        or (isinstance(one, list | tuple) and _holds_tensor(one))
        for one in x
    )


def _first_dtype(x: Sequence[Any]) -> DType | None:
    for one in x:
        if isinstance(one, Speaker):
            return one._as_tensor().static.dtype
        if isinstance(one, list | tuple) and (found := _first_dtype(one)) is not None:
            return found
    return None
