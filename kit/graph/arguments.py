"""Arguments of ops: numbers that are known when the graph is built, or tensors.

Pure. A number becomes an attribute of the op and costs nothing in a run; a tensor
becomes one more input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, TypeAlias

from kit.graph.array_protocol import ArrayProtocol, tensor_of
from kit.graph.convert import tensor
from kit.graph.op import Tensor

Ints: TypeAlias = tuple[int, ...]


def numbers(value: Any) -> Ints | None:
    """Return integers that are known now; None if only a run knows them.

    A single number is a list of one. Raises `TypeError` for anything that is not an
    integer.

    >>> numbers([2, -1]), numbers(3), numbers(())
    ((2, -1), (3,), ())
    """
    if isinstance(value, ArrayProtocol):
        return None
    value = value.as_list() if hasattr(value, "as_list") else value
    value = value.tolist() if hasattr(value, "tolist") else value
    parts = list(value) if isinstance(value, Iterable) else [value]
    if any(isinstance(part, ArrayProtocol) for part in parts):
        return None
    return tuple(_integer(part) for part in parts)


def numbers_or_input(value: Any, what: str) -> tuple[Ints | None, list[Tensor]]:
    """Return the integers and no input, or None and the input that will hold them."""
    result = numbers(value)
    if result is not None:
        return result, []
    made = tensor(value)
    if made.static.dtype.kind not in "iu":
        raise TypeError(f"{what} is {made!r}; it must be of integers.")
    return None, [made]


def number(axis: Any, what: str) -> int:
    """Return one integer that must be known now; it may be a small constant tensor."""
    if isinstance(axis, ArrayProtocol):
        value = tensor_of(axis).static.value
        if value is None or value.size != 1:
            raise ValueError(
                f"{what} is {axis!r}, but it must be known when the line is written; "
                f"give a Python int."
            )
        axis = value.reshape(()).item()
    return _integer(axis)


def axes(axis: Any) -> Ints | None:
    """Return axes that must be known now, None for None.

    >>> axes(-1), axes([0, 1]), axes(None)
    ((-1,), (0, 1), None)
    """
    if axis is None:
        return None
    if isinstance(axis, ArrayProtocol):
        value = tensor_of(axis).static.value
        if value is None:
            raise ValueError(
                f"the axis is {axis!r}, but it must be known when the line is "
                f"written; give Python ints."
            )
        axis = value
    return numbers(axis)


def given_or_input(attr: Ints | None, extra: Sequence[Any]) -> Ints:
    """Return, in a run, the integers of `numbers_or_input`: attribute or input."""
    return attr if attr is not None else tuple(extra[0].reshape(-1).tolist())


def _integer(value: Any) -> int:
    value = getattr(value, "value", value)
    if value is None:
        raise TypeError("None is not a number; write -1 for the size to be found.")
    return index(value)
