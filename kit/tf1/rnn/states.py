"""Structures of tensors: states of cells, which may be tuples of tuples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class LSTMStateTuple(NamedTuple):
    """The state of an LSTM cell: what it keeps, and its last output."""

    c: Any
    h: Any

    @property
    def dtype(self) -> Any:
        """The dtype of both."""
        return self.c.dtype


def like(structure: Any, parts: Any) -> Any:
    """Return parts in a tuple or list of the kind of `structure`."""
    if hasattr(structure, "_fields"):
        return type(structure)(*parts)
    return type(structure)(parts)


def mapped(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """Return a structure with the function's results for the tensors of structures."""
    if not isinstance(first, list | tuple):
        return function(first, *others)
    rows = zip(first, *others, strict=True)
    return like(first, [mapped(function, *row) for row in rows])
