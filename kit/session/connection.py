"""A client's way to its master: a direct call within a process, or links to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from kit.errors import KitError, UnavailableError, from_plain
from kit.graph.dtypes import Array
from kit.graph.node import Edge, Node
from kit.graph.node import to_plain as nodes_to_plain
from kit.session.channel import recv_parcel, send_parcel
from kit.session.devices import Device
from kit.session.master import Master
from kit.session.peers import Peers
from kit.session.step import Records
from kit.task import Task

# An answer may come a little after the deadline that it tells of.
_GRACE_S = 5.0


class Kind(NamedTuple):
    """What distinguishes one kind of run from another: it gets a plan of its own."""

    feeds: tuple[Edge, ...]
    fetches: tuple[Edge, ...]
    targets: tuple[str, ...]


class Connection(Protocol):
    """One session at its master."""

    def extend(self, version: int, nodes: Sequence[Node]) -> int:
        """Add nodes to a graph of `version` nodes; returns the new number."""

    def prepare(self, kind: Kind, deadline_s: float) -> int:
        """Return the number of the plan for a kind of run."""

    def run(
        self, plan: int, feeds: Sequence[Array], deadline_s: float, traced: bool
    ) -> tuple[list[Any], Records | None]:
        """Run a plan once."""

    def devices(self, deadline_s: float) -> list[tuple[Device, int]]:
        """Return all devices with the incarnation of their task."""

    def reset(self, containers: Sequence[str], deadline_s: float) -> None:
        """Clear containers on all tasks and end all sessions of the master."""

    def close(self) -> None:
        """End the session; its runs under way are cancelled."""


class Direct(Connection):
    """A master in this process: its methods, called."""

    def __init__(self, master: Master, soft: bool, filters: Sequence[str]) -> None:
        self._master = master
        self._filters = tuple(filters)
        self._handle = master.create(soft=soft, filters=filters)

    def extend(self, version: int, nodes: Sequence[Node]) -> int:
        """See `Connection`."""
        return self._master.session(self._handle).extend(version, nodes)

    def prepare(self, kind: Kind, deadline_s: float) -> int:
        """See `Connection`."""
        return self._master.session(self._handle).prepare(*kind, deadline_s)

    def run(
        self, plan: int, feeds: Sequence[Array], deadline_s: float, traced: bool
    ) -> tuple[list[Any], Records | None]:
        """See `Connection`."""
        session = self._master.session(self._handle)
        return session.run(plan, feeds, deadline_s, traced=traced)

    def devices(self, deadline_s: float) -> list[tuple[Device, int]]:
        """See `Connection`."""
        members = self._master.members
        found = members.devices(deadline_s, self._filters)
        return [(one, members.incarnations[one.task]) for one in found]

    def reset(self, containers: Sequence[str], deadline_s: float) -> None:
        """See `Connection`."""
        self._master.reset(containers, deadline_s)

    def close(self) -> None:
        """See `Connection`."""
        self._master.end(self._handle)


class Remote(Connection):
    """A master behind links; it is dialled at the first question."""

    def __init__(
        self, task: Task, dial: Callable[[], Any], soft: bool, filters: Sequence[str]
    ) -> None:
        self._task = task
        self._peers = Peers(lambda _: dial())
        self._soft, self._filters = soft, list(filters)
        self._handle = ""

    def extend(self, version: int, nodes: Sequence[Node]) -> int:
        """See `Connection`."""
        plain, arrays = nodes_to_plain(nodes)
        meta = {"op": "extend", "version": version, "nodes": plain}
        return int(self._ask(meta, _GRACE_S, arrays)[0]["version"])

    def prepare(self, kind: Kind, deadline_s: float) -> int:
        """See `Connection`."""
        meta = {"op": "prepare", "deadline_s": deadline_s, **kind._asdict()}
        return int(self._ask(meta, deadline_s + _GRACE_S)[0]["plan"])

    def run(
        self, plan: int, feeds: Sequence[Array], deadline_s: float, traced: bool
    ) -> tuple[list[Any], Records | None]:
        """See `Connection`."""
        meta = {"op": "run", "plan": plan, "deadline_s": deadline_s}
        if traced:
            meta["traced"] = True
        reply, found = self._ask(meta, deadline_s + _GRACE_S, feeds)
        if not traced:
            return found, None
        nodes, moves = reply["nodes"], reply["moves"]
        return found, Records(
            [tuple(one) for one in nodes], [tuple(one) for one in moves]
        )

    def devices(self, deadline_s: float) -> list[tuple[Device, int]]:
        """See `Connection`."""
        meta = {"op": "devices", "deadline_s": deadline_s, "filters": self._filters}
        reply, _ = self._ask(meta, deadline_s + _GRACE_S)
        return [
            (Device(Task.parse(task), kind, index), incarnation)
            for task, kind, index, incarnation in reply["devices"]
        ]

    def reset(self, containers: Sequence[str], deadline_s: float) -> None:
        """See `Connection`."""
        meta = {"op": "cluster_reset", "names": list(containers)}
        self._ask({**meta, "deadline_s": deadline_s}, deadline_s + _GRACE_S)

    def close(self) -> None:
        """See `Connection`."""
        try:
            if self._handle:
                self._ask({"op": "close"}, _GRACE_S)
        except UnavailableError:
            pass  # it is gone, and the session with it
        except KitError:
            pass
        finally:
            self._peers.close()

    def _ask(
        self, meta: dict[str, Any], deadline_s: float, arrays: Sequence[Array] = ()
    ) -> tuple[dict[str, Any], list[Any]]:
        with self._peers.lent(self._task) as link:
            if not self._handle:
                about = {"op": "create", "soft": self._soft, "filters": self._filters}
                send_parcel(link, about, (), deadline_s)
                self._handle = str(recv_parcel(link, deadline_s)[0]["session"])
            meta["session"] = self._handle
            send_parcel(link, meta, arrays, deadline_s)
            reply, found = recv_parcel(link, deadline_s)
        if "error" in reply:
            raise from_plain(reply["error"])
        return reply, found
