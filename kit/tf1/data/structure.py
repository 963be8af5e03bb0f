"""Nested elements: tuples, named tuples and dicts of components.

Pure. A list is no structure: it is converted to a tensor, as in the original.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def flatten(nest: Any) -> list[Any]:
    """Return the components, those of a dict in the order of its sorted keys.

    >>> flatten(({"b": 1, "a": 2}, 3))
    [2, 1, 3]
    """
    if isinstance(nest, tuple):
        return [leaf for part in nest for leaf in flatten(part)]
    if isinstance(nest, Mapping):
        return [leaf for key in sorted(nest) for leaf in flatten(nest[key])]
    return [nest]


def packed_like(nest: Any, components: Any) -> Any:
    """Return components in the form of `nest`.

    >>> packed_like(({"b": 1, "a": 2}, 3), "xyz")
    ({'b': 'y', 'a': 'x'}, 'z')
    """
    return _packed(nest, iter(components))


def _packed(nest: Any, components: Iterator[Any]) -> Any:
    if isinstance(nest, tuple):
        parts = [_packed(part, components) for part in nest]
        return type(nest)(*parts) if hasattr(nest, "_fields") else tuple(parts)
    if isinstance(nest, Mapping):
        by_key = {key: _packed(nest[key], components) for key in sorted(nest)}
        return type(nest)((key, by_key[key]) for key in nest)  # type: ignore[call-arg]
    return next(components)


def mapped(change: Callable[[Any], Any], nest: Any) -> Any:
    """Return the same form with each component changed."""
    return packed_like(nest, map(change, flatten(nest)))


def flatten_up_to(nest: Any, elements: Any) -> list[Any]:
    """Return the parts of `elements` that stand where `nest` has its components.

    Raises `TypeError` or `ValueError` where the forms differ.
    """
    if isinstance(nest, tuple):
        if not isinstance(elements, tuple | list) or len(elements) != len(nest):
            raise _differ(nest, elements)
        pairs = zip(nest, elements, strict=True)
        return [leaf for a, b in pairs for leaf in flatten_up_to(a, b)]
    if isinstance(nest, Mapping):
        if not isinstance(elements, Mapping) or set(elements) != set(nest):
            raise _differ(nest, elements)
        return [
            leaf for k in sorted(nest) for leaf in flatten_up_to(nest[k], elements[k])
        ]
    return [elements]


def _differ(nest: Any, other: Any) -> Exception:
    return TypeError(
        f"The two structures don't have the same nested structure. First structure: "
        f"{nest!r}; second structure: {other!r}"
    )
