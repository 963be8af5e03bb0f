"""The collections of a graph: lists of values by name. Pure."""

from __future__ import annotations

from typing import Any

from kit.graph.graph import Graph


class Collected(Graph):
    """A graph with collections."""

    def __init__(self) -> None:
        super().__init__()
        self._of_collections: dict[Any, list[Any]] = {}

    @property
    def collections(self) -> list[Any]:
        """The names of all collections."""
        return list(self._of_collections)

    def get_all_collection_keys(self) -> list[Any]:
        """Return the names of all collections that are names."""
        return [one for one in self._of_collections if isinstance(one, str)]

    def add_to_collection(self, name: Any, value: Any) -> None:
        """Add a value to a collection; raises `RuntimeError` in a finalized graph."""
        self._check_open()
        self._of_collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Add a value to several collections, once to each."""
        chosen = [names] if isinstance(names, str) else dict.fromkeys(names)
        for name in chosen:
            self.add_to_collection(name, value)

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        """Return a copy of a collection; with `scope` what has names that begin so."""
        found = self._of_collections.get(name, [])
        if scope is None:
            return list(found)
        return [
            one for one in found if hasattr(one, "name") and one.name.startswith(scope)
        ]

    def get_collection_ref(self, name: Any) -> list[Any]:
        """Return a collection itself, which may be changed."""
        return self._of_collections.setdefault(name, [])

    def clear_collection(self, name: Any) -> None:
        """Empty a collection."""
        self._check_open()
        self._of_collections.pop(name, None)
