"""Fetches of a run: tensors and ops, nested in any way, and results in the same way.

Pure. A structure is flattened once, and the results are put back into its shape: lists,
tuples, named tuples, dicts and records keep their types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from typing import Any, NamedTuple

from kit.graph.dtypes import Array
from kit.graph.graph import Graph
from kit.graph.op import IndexedSlices, Op, Tensor


class IndexedSlicesValue(NamedTuple):
    """The value of an `IndexedSlices`."""

    values: Array
    indices: Array
    dense_shape: Array | None


class Fetches:
    """A structure of fetches, flattened.

    `elements` are its tensors and ops, without repeats. Raises `TypeError` for what
    cannot be fetched, and `ValueError` for what is not in the graph.
    """

    def __init__(self, graph: Graph, structure: Any) -> None:
        self._graph = graph
        self._numbers: dict[Tensor | Op, int] = {}
        self._rebuild = self._flatten(structure)
        self.elements: list[Tensor | Op] = list(self._numbers)

    def rebuild(self, values: list[Any]) -> Any:
        """Return the structure with a value for each of `elements`."""
        return self._rebuild(values)

    def _flatten(self, fetch: Any) -> Callable[[list[Any]], Any]:
        if fetch is None:
            raise TypeError(
                "a fetch is None; give a tensor, an op, a variable, a name, or lists "
                "and dicts of them."
            )
        if isinstance(fetch, list | tuple):
            return self._sequence(fetch)
        if isinstance(fetch, Mapping):
            return self._mapping(fetch)
        if isinstance(fetch, IndexedSlices):
            return self._rows(fetch)
        if names := field_names(fetch):
            return self._record(fetch, names)
        number = self._number(element_of(self._graph, fetch))
        return lambda values: values[number]

    def _number(self, element: Tensor | Op) -> int:
        return self._numbers.setdefault(element, len(self._numbers))

    def _sequence(
        self, fetches: list[Any] | tuple[Any, ...]
    ) -> Callable[[list[Any]], Any]:
        parts = [self._flatten(fetch) for fetch in fetches]
        if isinstance(fetches, list):
            return lambda values: [part(values) for part in parts]
        if hasattr(fetches, "_fields"):
            kind: Any = type(fetches)
            return lambda values: kind(*[part(values) for part in parts])
        make = type(fetches)
        return lambda values: make([part(values) for part in parts])

    def _mapping(self, fetches: Mapping[Any, Any]) -> Callable[[list[Any]], Any]:
        parts = {key: self._flatten(fetch) for key, fetch in fetches.items()}
        return lambda values: mapping_like(
            fetches, {key: part(values) for key, part in parts.items()}
        )

    def _rows(self, rows: IndexedSlices) -> Callable[[list[Any]], Any]:
        parts = [self._flatten(rows.values), self._flatten(rows.indices)]
        if rows.dense_shape is not None:
            parts.append(self._flatten(rows.dense_shape))
        rest = [None] * (3 - len(parts))
        return lambda values: IndexedSlicesValue(*[p(values) for p in parts], *rest)

    def _record(self, fetch: Any, names: list[str]) -> Callable[[list[Any]], Any]:
        parts = {name: self._flatten(getattr(fetch, name)) for name in names}
        kind = type(fetch)
        return lambda values: kind(**{k: part(values) for k, part in parts.items()})


def mapping_like(given: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    """Return other values for the same keys, in a mapping of the same type."""
    kind: Any = type(given)
    if hasattr(kind, "__missing__") and hasattr(given, "default_factory"):
        return kind(given.default_factory, parts)
    return kind(parts.items())


def field_names(one: Any) -> list[str]:
    """Return the names of a record's fields, none for anything else."""
    if hasattr(type(one), "__attrs_attrs__"):
        return [attribute.name for attribute in type(one).__attrs_attrs__]
    if is_dataclass(one) and not isinstance(one, type):
        return [field.name for field in dataclass_fields(one)]
    return []


def element_of(graph: Graph, one: Any) -> Tensor | Op:
    """Return the tensor or op that a fetch means: itself, a variable's, or by name."""
    if isinstance(one, str | bytes):
        return _by_name(graph, one.decode() if isinstance(one, bytes) else one)
    element = getattr(one, "ref", one)
    if not isinstance(element, Tensor | Op):
        raise TypeError(
            f"{one!r} of type {type(one).__name__} cannot be fetched; give a tensor, "
            f"an op, a variable, a name such as 'add:0', or lists and dicts of them."
        )
    if element.graph is not graph:
        raise ValueError(
            f"{one!r} belongs to another graph than the session; make the session with "
            f"graph=..., or build it in the session's graph."
        )
    return element


def _by_name(graph: Graph, name: str) -> Tensor | Op:
    try:
        return graph.tensor(name) if ":" in name else graph.op(name)
    except (KeyError, ValueError) as exc:
        raise ValueError(
            f"the graph has nothing called {name!r}: {exc}. A tensor is 'add:0', "
            f"an op 'add'."
        ) from exc
