"""What may be minimised, and what may be applied to what.

Pure. The errors are those of the original.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.tf1.tensor.convert import convert_to_tensor_or_indexed_slices

_FLOATS = ("float16", "float32", "float64")


def variables_in(given: Any) -> list[Any]:
    """Return variables in nested lists, and the parts of those that are cut."""
    if isinstance(given, list | tuple):
        return [leaf for one in given for leaf in variables_in(one)]
    if isinstance(given, dict):
        return [leaf for key in sorted(given) for leaf in variables_in(given[key])]
    parts = getattr(given, "_get_variable_list", None)
    return [given] if parts is None else list(parts())


def check_floating(one: Any) -> None:
    """Raise `ValueError` unless a tensor or variable is of floating point numbers."""
    dtype = one.dtype.base_dtype
    if dtype.name not in _FLOATS:
        raise ValueError(
            f"Invalid type {dtype!r} for {one.name}, expected: {', '.join(_FLOATS)}."
        )


def gradient_of(given: Any) -> Any:
    """Return a gradient as a tensor or as rows; None stays. Raises `TypeError`."""
    if given is None:
        return None
    try:
        return convert_to_tensor_or_indexed_slices(given)
    except (TypeError, ValueError) as exc:
        raise TypeError(
            f"Gradient must be convertible to a Tensor or IndexedSlices, or None: "
            f"{given!r}"
        ) from exc


def variable_of(given: Any) -> Any:
    """Return a variable as it is; `NotImplementedError` for a mere tensor."""
    if given.op.type != "VariableV2":
        raise NotImplementedError(f"Trying to update a Tensor {given!r}")
    return given


def constrained(
    update: Any, variable: Any, constraint: Callable[[Any], Any] | None
) -> Any:
    """Return an update that is followed by the constraint of its variable, if any."""
    if constraint is None:
        return update
    with variable.graph.control_dependencies([update]):
        return variable.assign(constraint(variable.read_value()))
