"""How the functions of this package add an operation to a graph.

Arguments are converted inside the operation's own name scope, as the original does, so
that `tf.add(x, 1.0)` makes `Add` and the constant `Add/y`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from kit.graph.array_protocol import ArrayProtocol
from kit.graph.table import TABLE, OpDef
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.signature import arguments_of
from kit.tf1.tensor.convert import (
    argument,
    arguments,
    convert_to_tensor,
    create,
    create_op,
    op_scope,
)
from kit.tf1.tensor.dtypes import int32
from kit.tf1.tensor.operators import entry
from kit.tf1.tensor.tensor import Tensor

# Integers that are known when the graph is built, or the tensor that will hold them.
Ints: TypeAlias = Any

_WHOLE = ("int32", "int64")


def functions_of_the_table(module: str, part: str = "") -> dict[str, Any]:
    """Return the functions of `tf`, or of a part of it, that are one op of the table.

    They are as if defined in `module`: name, arguments and documentation are the op's.
    """
    functions = {}
    for op in TABLE.values():
        call = _CALL.fullmatch(op.call)
        if call is not None and call[1] == part:
            function = _function(op, call[2], call[3].split(", "))
            function.__module__ = module
            functions[call[2]] = function
    return functions


_CALL = re.compile(r"((?:\w+\.)*)(\w+)\((.*)\)")


def _function(op: OpDef, title: str, arguments: list[str]) -> Callable[..., Any]:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(item, kind) for item in arguments]
    parameters.append(inspect.Parameter("name", kind, default=None))
    signature = inspect.Signature(parameters)

    def function(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and len(args) == len(arguments):  # the usual call, in less time
            return entry(op.name, None, **dict(zip(arguments, args, strict=True)))
        bound = {"name": None, **arguments_of(title, signature, args, kwargs)}
        return entry(op.name, bound.pop("name"), **bound)

    function.__name__ = function.__qualname__ = title
    function.__doc__ = f"Return {op.doc}."
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def write(
    op_type: str,
    name: str | None,
    default: str | None = None,
    attrs: dict[str, Any] | None = None,
    **values: Any,
) -> Any:
    """Add an operation whose inputs are all of one dtype, and return its output.

    Constants among the inputs are named like the arguments in `values`.
    """
    with op_scope(name, default or op_type, list(values.values())) as scope:
        inputs = arguments(op_type, **values)
        return create(op_type, *inputs, name=scope, **(attrs or {}))


def index(op_type: str, name: str, value: Any, kinds: tuple[str, ...] = _WHOLE) -> Any:
    """Return an argument of integers as a tensor; `TypeError` for other types."""
    tensor = argument(op_type, name, hinted(value, name))
    if tensor.dtype.base_dtype.name not in kinds:
        raise TypeError(
            f"Value passed to parameter {name!r} of {op_type!r} Op has type "
            f"{tensor.dtype.base_dtype.name}; it must be one of {', '.join(kinds)}."
        )
    return tensor


def hinted(value: Any, name: str) -> Any:
    """Return a value as a tensor, an empty list as one of int32."""
    is_empty = isinstance(value, list | tuple) and not value
    return convert_to_tensor(value, int32 if is_empty else None, name=name)


def ints(op_type: str, name: str, value: Any) -> Ints:
    """Return an argument of sizes or axes, as integers if it is given as such.

    A tensor stays one, also if its value is known: a run may feed another.
    """
    tensor = index(op_type, name, value)
    static_value = None if isinstance(value, ArrayProtocol) else tensor.static.value
    return tensor if static_value is None else static_value.tolist()


def settled(op_type: str, name: str, value: Any) -> Ints:
    """Return integers that must be known now, where an operation takes no tensor.

    Nothing of which they are computed can be fed any more. `ValueError` if they are
    not known.
    """
    tensor = index(op_type, name, value)
    if tensor.static.value is None:
        raise ValueError(
            f"{op_type} needs to know {name} when the line is written; {value!r} is "
            f"known in a run only."
        )
    return value_now(tensor).tolist()


def value_now(tensor: Tensor) -> Any:
    """Return the value of a tensor, None if it is not known now.

    Nothing of which it is computed can be fed any more: that would change nothing.
    """
    stack = [tensor]
    while stack:
        current: Any = stack.pop()
        if current.static.value is not None and current.graph.is_feedable(current):
            current.graph.prevent_feeding(current)
            stack += current.op.inputs
    return tensor.static.value


def whole(op_type: str, name: str, value: Any) -> int:
    """Return one number that must be known now; `ValueError` if it is not."""
    number = settled(op_type, name, value)
    if not isinstance(number, int):
        raise ValueError(
            f"{op_type} needs one {name}, known when the line is written, not "
            f"{value!r}."
        )
    return number


def along(
    op_type: str,
    xs: Sequence[Any],
    axis: Any,
    name: str,
    rank: int | None,
    **attrs: Any,
) -> Any:
    """Add an operation along an axis, of results that have so many axes.

    Where only a run knows the axis, their sizes are unknown and there is no gradient.
    """
    position = index(op_type, "axis", axis)
    if position.static.value is not None:
        number = whole(op_type, "axis", position)
        return create_op(op_type, *xs, name=name, axis=number, **attrs)
    sizes = None if rank is None else (None,) * rank
    return fed(op_type, xs, position, name, sizes, **attrs)


def fed(
    op_type: str, xs: Sequence[Any], axis: Any, name: str, shape: Any, **attrs: Any
) -> Any:
    """Add an operation along an axis that only a run knows, with results of a shape."""
    more = {"op": op_type, "n": int(attrs.get("num", 1)), "shape": shape}
    return create_op("AlongAxis", *xs, axis, name=name, **more, **attrs)


def axes(op_type: str, name: str, value: Any) -> tuple[int, ...]:
    """Return one number or several that must be known now; `ValueError` otherwise."""
    numbers = settled(op_type, name, value)
    if np.ndim(numbers) > 1:
        raise ValueError(f"{name} of {op_type} is {value!r}, which is not a list.")
    return tuple(numbers) if isinstance(numbers, list) else (numbers,)


def vector(op_type: str, name: str, value: Any) -> Ints:
    """Return integers as `ints` does; `ValueError` unless they are a vector."""
    numbers = ints(op_type, name, value)
    rank = numbers.shape.ndims if isinstance(numbers, Tensor) else np.ndim(numbers)
    if rank not in (1, None):
        raise ValueError(f"{name} of {op_type} must be rank 1 but is rank {rank}.")
    return numbers


def reserve(*names: str) -> None:
    """Use up the names in the current scope that the original gives to constants.

    What is an attribute here is a constant there, which shifts later names.
    """
    graph = get_default_graph()
    for name in names:
        graph.unique_name(name)


def one_of(name: str, value: Any, old_name: str, old: Any) -> Any:
    """Return an argument that has an older name; `ValueError` if both are given."""
    if old is None:
        return value
    if value is not None:
        raise ValueError(f"Cannot specify both {old_name!r} and {name!r}")
    return old
