"""Nested results of branches and loops, in which a list is a structure too.

Pure. In an element of a dataset it is none (`kit.tf1.data.structure`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kit.tf1.data.structure import flatten_up_to, packed_like


def _tupled(nest: Any) -> Any:
    if isinstance(nest, list):
        return tuple(map(_tupled, nest))
    if isinstance(nest, tuple):
        parts = [_tupled(part) for part in nest]
        return type(nest)(*parts) if hasattr(nest, "_fields") else tuple(parts)
    if isinstance(nest, Mapping):
        return {key: _tupled(part) for key, part in nest.items()}
    return nest


def parts(nest: Any) -> list[Any]:
    """Return the parts of a structure."""
    return flatten_up_to(_tupled(nest), _tupled(nest))


def same_parts(nest: Any, other: Any, what: str) -> list[Any]:
    """Return the parts of `other`; raise `TypeError` if it has another structure."""
    try:
        other_parts = flatten_up_to(_tupled(nest), _tupled(other))
    except TypeError as exc:
        raise TypeError(f"Incompatible {what}: {exc}") from exc
    if any(isinstance(part, tuple | dict) for part in other_parts):
        raise TypeError(f"Incompatible {what}: {nest!r} and {other!r}")
    return other_parts


def packed(nest: Any, components: list[Any]) -> Any:
    """Return parts in the form of `nest`."""
    return _as_lists(nest, packed_like(_tupled(nest), components))


def _as_lists(nest: Any, values: Any) -> Any:
    if isinstance(nest, list):
        return [_as_lists(a, b) for a, b in zip(nest, values, strict=True)]
    if isinstance(nest, tuple):
        parts = [_as_lists(a, b) for a, b in zip(nest, values, strict=True)]
        return type(nest)(*parts) if hasattr(nest, "_fields") else tuple(parts)
    if isinstance(nest, Mapping):
        return {key: _as_lists(nest[key], values[key]) for key in nest}
    return values
