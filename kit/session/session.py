"""A session: runs fetches of a graph on a target, any task of a cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from typing import Any

import numpy as np

from kit.errors import KitError
from kit.graph.default import default_graph
from kit.graph.dtypes import STRING
from kit.graph.graph import Graph
from kit.graph.node import node_of
from kit.graph.op import Op, Tensor
from kit.session.connection import Connection, Kind
from kit.session.devices import Device
from kit.session.feeds import read_feeds
from kit.session.fetches import Fetches
from kit.session.metadata import RunMetadata
from kit.session.targets import connect
from kit.settings import current


class Session:
    """Runs a graph.

        with kit.Session(cluster) as session:
            session.run(kit.initialize_all())
            loss = session.run(loss_tensor, {x: images})

    `target` is a `kit.Cluster` (its first worker), a `kit.Server`, a server's `target`
    text, or None for this process alone. `graph` is the default graph unless given.
    With `soft_placement` a device that does not exist is replaced by another of the
    same task; `device_filters` names the only tasks to use besides the target.

    Nothing is sent until the first run. Runs may come from many threads. Variables
    live on their tasks, longer than the session.
    """

    def __init__(
        self,
        target: Any = None,
        graph: Graph | None = None,
        *,
        soft_placement: bool = False,
        device_filters: Sequence[str] = (),
    ) -> None:
        self.graph = default_graph() if graph is None else graph
        self._connection: Connection = connect(target, soft_placement, device_filters)
        self._sent = 0
        self._plans: dict[Kind, int] = {}
        self._extending = threading.Lock()
        self._is_closed = False
        self._entered: list[tuple[Any, Token[tuple[Session, ...]]]] = []

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        *,
        deadline_s: float | None = None,
        metadata: RunMetadata | None = None,
    ) -> Any:
        """Compute `fetches` and return their values in the same structure.

        A tensor gives its value (a numpy scalar if it has no axes), an op None. Fed
        values replace tensors for this run. `metadata` is filled with what ran where.

        Raises `RuntimeError` on a closed session or an empty graph, `TypeError` and
        `ValueError` for what cannot be fetched or fed, and errors of `kit.errors` for
        what goes wrong while running: the op's name, place and task are in them.
        """
        self._check_open()
        wanted = Fetches(self.graph, fetches)
        feeds = read_feeds(self.graph, feed_dict)
        return wanted.rebuild(self.values(wanted.elements, feeds, deadline_s, metadata))

    def values(
        self,
        elements: Sequence[Tensor | Op],
        feeds: Mapping[Tensor, Any],
        deadline_s: float | None = None,
        metadata: RunMetadata | None = None,
    ) -> list[Any]:
        """Return the values of tensors (of ops: None), given checked feeds."""
        asked = [
            one for one in elements if isinstance(one, Tensor) and one not in feeds
        ]
        kind = Kind(
            tuple([(one.op.name, one.index) for one in feeds]),
            tuple([(one.op.name, one.index) for one in asked]),
            tuple([one.name for one in elements if isinstance(one, Op)]),
        )
        found: dict[Tensor, Any] = dict(feeds)
        if kind.fetches or kind.targets:
            results = self._run(kind, list(feeds.values()), deadline_s, metadata)
            found.update(zip(asked, map(_unwrapped, results), strict=True))
        return [found[one] if isinstance(one, Tensor) else None for one in elements]

    def _run(
        self,
        kind: Kind,
        feeds: list[Any],
        deadline_s: float | None,
        metadata: RunMetadata | None,
    ) -> list[Any]:
        limit = current().run_deadline_s if deadline_s is None else deadline_s
        try:
            plan = self._plans.get(kind)
            if plan is None:
                plan = self._prepare(kind, limit)
            traced = metadata is not None
            results, records = self._connection.run(plan, feeds, limit, traced)
        except KitError as error:
            raise self._with_op(error) from None
        if metadata is not None and records is not None:
            metadata.fill(records)
        return results

    def _prepare(self, kind: Kind, deadline_s: float) -> int:
        with self._extending:
            ops = self.graph.ops
            if len(ops) > self._sent:
                new = [node_of(op) for op in ops[self._sent :]]
                self._sent = self._connection.extend(self._sent, new)
        plan = self._plans[kind] = self._connection.prepare(kind, deadline_s)
        return plan

    def list_devices(self, deadline_s: float | None = None) -> list[tuple[Device, int]]:
        """Return the devices of all tasks, the target's first, with incarnations."""
        self._check_open()
        limit = current().run_deadline_s if deadline_s is None else deadline_s
        return self._connection.devices(limit)

    def callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None
    ) -> Callable[..., Any]:
        """Return a function of the values for `feed_list` that runs `fetches`."""
        keys = list(feed_list or ())

        def call(*values: Any) -> Any:
            if len(values) != len(keys):
                raise ValueError(
                    f"this callable takes {len(keys)} values, one for each of its "
                    f"feed_list, and got {len(values)}."
                )
            return self.run(fetches, dict(zip(keys, values, strict=True)))

        return call

    def close(self) -> None:
        """End the session; runs under way are cancelled. May be called twice."""
        if not self._is_closed:
            self._is_closed = True
            self._connection.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("the session is closed; make a new one.")
        if not self.graph.version:
            raise RuntimeError("the graph is empty; there is nothing to run.")

    def _with_op(self, error: KitError) -> KitError:
        return error

    def __enter__(self) -> Session:
        graph = self.graph.as_default()
        graph.__enter__()
        token = _sessions.set((*_sessions.get(), self))
        self._entered.append((graph, token))
        return self

    def __exit__(self, *exc_info: Any) -> None:
        graph, token = self._entered.pop()
        _sessions.reset(token)
        graph.__exit__(*exc_info)
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return f"<session of {self.graph!r} {state}>"


_sessions: ContextVar[tuple[Session, ...]] = ContextVar("sessions", default=())


def default_session() -> Session | None:
    """Return the innermost session that was entered with `with`, None if there is none."""
    stack = _sessions.get()
    return stack[-1] if stack else None


def _unwrapped(value: Any) -> Any:
    """Return a value of rank 0 as a scalar, everything else as it is."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value.item() if value.dtype == STRING else value[()]
    return value
