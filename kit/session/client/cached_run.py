"""A session's requests: each is worked out once, and run as often as it is asked.

    cached = CachedRun(sent, Fetches(graph, [y, op]), [x])
    cached.run([value_of_x])

`SentGraph` is what all runs of a session share: how much of the graph its master has,
and which plans it has made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from typing import Any, NamedTuple

import numpy as np

from kit.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    KitError,
)
from kit.graph.array_protocol import ArrayProtocol
from kit.graph.dtypes import STRING, Array
from kit.graph.graph import Graph
from kit.graph.node import node_of
from kit.graph.op import IndexedSlices, Op, Tensor
from kit.session.client.cancelling import CLOSED
from kit.session.client.connection import Connection
from kit.session.client.metadata import RunMetadata
from kit.session.master.plan import RunSignature
from kit.settings import current

# --------------------------------------------------------------------------------------
# Fetches of a run: tensors and ops, nested in any way, and results in the same way.
#
# Pure. A structure is flattened once, and the results are put back into its shape:
# lists, tuples, named tuples, dicts and records keep their types.


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


def mapping_like(mapping: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    """Return other values for the same keys, in a mapping of the same type."""
    kind: Any = type(mapping)
    if hasattr(kind, "__missing__") and hasattr(mapping, "default_factory"):
        return kind(mapping.default_factory, parts)
    return kind(parts.items())


def field_names(record: Any) -> list[str]:
    """Return the names of a record's fields, none for anything else."""
    if hasattr(type(record), "__attrs_attrs__"):
        return [attribute.name for attribute in type(record).__attrs_attrs__]
    if is_dataclass(record) and not isinstance(record, type):
        return [field.name for field in dataclass_fields(record)]
    return []


def element_of(graph: Graph, fetch: Any) -> Tensor | Op:
    """Return the tensor or op that a fetch means: itself, a variable's, or by name."""
    if isinstance(fetch, str | bytes):
        return _by_name(graph, fetch.decode() if isinstance(fetch, bytes) else fetch)
    element = getattr(fetch, "ref", fetch)
    if not isinstance(element, Tensor | Op):
        raise TypeError(
            f"{fetch!r} of type {type(fetch).__name__} cannot be fetched; give a "
            f"tensor, an op, a variable, a name such as 'add:0', or lists and dicts "
            f"of them."
        )
    if element.graph is not graph:
        raise ValueError(
            f"{fetch!r} belongs to another graph than the session; make the session "
            f"with graph=..., or build it in the session's graph."
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


# --------------------------------------------------------------------------------------
# The graph that the master knows, and the runs of it.


class SentGraph:
    """A session's graph as its master knows it, by way of a connection."""

    def __init__(self, graph: Graph, connection: Connection) -> None:
        self.graph, self.connection = graph, connection
        self.is_closed = False
        # What lets any of its runs take longer, where it is not what a request says.
        self.allow = ""
        self.n_sent = 0
        self.plans: dict[RunSignature, int] = {}
        self._extending = threading.Lock()

    def plan_of(self, signature: RunSignature, deadline_s: float) -> int:
        """Return the number of the plan for a signature, and make it the first time."""
        plan = self.plans.get(signature)
        if plan is None:
            self._send_new_ops(deadline_s)
            # No lock: if two threads ask at once, the master still makes one plan.
            plan = self.connection.prepare(signature, deadline_s)
            self.plans[signature] = plan
        return plan

    def _send_new_ops(self, deadline_s: float) -> None:
        with self._extending:
            new = self.graph.ops[self.n_sent :]
            if new:
                nodes = [node_of(op) for op in new]
                self.n_sent = self.connection.extend(self.n_sent, nodes, deadline_s)
                for op in new:
                    op.seal()  # a change would have no effect

    def explain(self, error: KitError, allow: str) -> None:
        """Add the op to an error of a run, and after a deadline what allows more.

        Raises `CancelledError` if the session was closed: of a closed session the
        master only says that it does not know it.
        """
        if isinstance(error, DeadlineExceededError):
            error.message += f" Allow more with {self.allow or allow}."
        if self.is_closed and isinstance(error, AbortedError):
            raise CancelledError(CLOSED) from error
        if error.node is not None and error.op is None:
            try:
                error.op = self.graph.op(error.node)
            except KeyError:
                return  # a node that the master added


class CachedRun:
    """One request: what the tasks are asked for, and how their answers are returned.

    A fetched tensor that is fed has its fed value; the tasks are not asked for it.
    """

    def __init__(
        self,
        sent: SentGraph,
        fetches: Fetches,
        feeds: Sequence[Tensor],
        done: Iterable[Op] = (),
        allow: str = "the run's deadline_s, or with the setting run_deadline_s",
    ) -> None:
        """`done` are ops that have run in an earlier part of the same run.

        `allow` is what lets it take longer, for the error at its deadline.
        """
        self._sent, self._rebuild, self._allow = sent, fetches.rebuild, allow
        fed, elements = set(feeds), fetches.elements
        asked = [
            element
            for element in elements
            if isinstance(element, Tensor) and element not in fed
        ]
        self.signature = RunSignature(
            tuple((feed.op.name, feed.index) for feed in feeds),
            tuple((tensor.op.name, tensor.index) for tensor in asked),
            tuple(element.name for element in elements if isinstance(element, Op)),
            tuple(op.name for op in done),
        )
        position: dict[Any, int] = {
            value: i for i, value in enumerate((*asked, *feeds))
        }
        self._places = [
            position[element] if isinstance(element, Tensor) else None
            for element in elements
        ]
        self._plan: int | None = None  # kept, as hashing a signature takes long

    def run(
        self,
        feeds: Sequence[Any],
        deadline_s: float | None = None,
        metadata: RunMetadata | None = None,
    ) -> Any:
        """Run once, with a value for each fed tensor; see `Session.run`."""
        results: Sequence[Any] = ()
        if self.signature.fetches or self.signature.targets:
            results = self._results(feeds, limit_s(deadline_s), metadata)
        values_now = [*map(unwrapped, results), *feeds]
        values = [None if at is None else values_now[at] for at in self._places]
        late = self._sent.connection.late
        return self._rebuild(values if late is None else late.here(values))

    def _results(
        self, feeds: Sequence[Any], deadline_s: float, metadata: RunMetadata | None
    ) -> Sequence[Any]:
        sent, is_traced = self._sent, metadata is not None
        try:
            if self._plan is None:
                self._plan = sent.plan_of(self.signature, deadline_s)
            results, records = sent.connection.run(
                self._plan, feeds, deadline_s, is_traced
            )
        except KitError as error:
            sent.explain(error, self._allow)
            raise
        if metadata is not None and records is not None:
            metadata.fill(records)
        return results


def limit_s(deadline_s: float | None) -> float:
    """Return how long a run may wait: what was given, or else the setting."""
    return current().run_deadline_s if deadline_s is None else deadline_s


def key_of(fetches: Any, feeds: Mapping[Any, Any] | None) -> Any:
    """Return what identifies an equal request; None for a nested structure."""
    if isinstance(fetches, list | tuple):
        if not all(isinstance(fetch, _SIMPLE) for fetch in fetches):
            return None
        what: Any = (type(fetches), *fetches)
    elif isinstance(fetches, _SIMPLE):
        what = fetches
    else:
        return None
    if not feeds:
        return what, ()
    if type(feeds) is not dict or not all(isinstance(feed, Tensor) for feed in feeds):
        return None
    return what, tuple(feeds)


_SIMPLE = (ArrayProtocol, Op)  # tensors, variables and ops are equal to themselves only


def unwrapped(value: Any) -> Any:
    """Return a value of rank 0 as a scalar, everything else as it is."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value.item() if value.dtype == STRING else value[()]
    return value
