"""Sums of all elements up to each one."""

from __future__ import annotations

from typing import Any

from kit.errors import InvalidArgumentError
from kit.graph.op import Tensor
from kit.tf1.ops.write import ints
from kit.tf1.tensor.allowed import check_allowed
from kit.tf1.tensor.convert import argument, create, op_scope


def cumsum(
    x: Any,
    axis: Any = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Return the running sums along an axis.

    `exclusive` leaves the element itself out; `reverse` adds from the end. Raises
    `InvalidArgumentError` for an axis that `x` does not have.
    """
    with op_scope(name, "Cumsum", [x]) as scope:
        found = argument("Cumsum", "x", x)
        check_allowed("Cumsum", [found])
        place = ints("Cumsum", "axis", axis)
        if isinstance(place, Tensor):
            raise ValueError(
                f"cumsum needs to know its axis when the line is written, not {axis!r}."
            )
        rank = found.shape.ndims
        if isinstance(place, list) or (rank is not None and not -rank <= place < rank):
            raise InvalidArgumentError(
                None, None, f"cumsum along {axis!r}: the tensor has {rank} axes."
            )
        attrs = {"exclusive": bool(exclusive), "reverse": bool(reverse)}
        return create("Cumsum", found, name=scope, axis=place, **attrs)
