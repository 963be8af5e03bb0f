"""A client's way to its master, and the short one: a master in the same process."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from kit.errors import CancelledError
from kit.graph.dtypes import Array
from kit.graph.node import Node
from kit.session.client.cancelling import CLOSED
from kit.session.client.feeds_on_tasks import LazyFeeds
from kit.session.client.options import SessionOptions
from kit.session.master.devices import Device
from kit.session.master.master import Master
from kit.session.master.plan import RunSignature
from kit.session.worker.step import Records


class Connection(Protocol):
    """One session at its master; it begins with the first question.

    `late`, if there is one, lets the tasks themselves load what they are fed.
    """

    late: LazyFeeds | None = None

    def extend(self, version: int, nodes: Sequence[Node], deadline_s: float) -> int:
        """Add nodes to a graph of `version` nodes; returns the new number."""

    def prepare(self, kind: RunSignature, deadline_s: float) -> int:
        """Return the number of the plan for a kind of run."""

    def run(
        self, plan: int, feeds: Sequence[Array], deadline_s: float, traced: bool
    ) -> tuple[list[Any], Records | None]:
        """Run a plan once."""

    def devices(self, deadline_s: float) -> list[tuple[Device, int]]:
        """Return all devices with the incarnation of their task."""

    def waits(self, deadline_s: float) -> list[str]:
        """Return what runs without a limit wait for."""

    def reset(self, containers: Sequence[str], deadline_s: float) -> None:
        """Clear containers on all tasks and end all sessions of the master."""

    def close(self) -> None:
        """End the session; its runs under way are cancelled."""


class Direct(Connection):
    """A master in this process: its methods, called."""

    def __init__(
        self, master: Master, options: SessionOptions, *, owns: bool = False
    ) -> None:
        """`owns`: the master belongs to this session alone, and ends with it."""
        self._master, self._options, self._owns = master, options, owns
        self._creating = threading.Lock()
        self._known, self._is_closed = 0, False

    @property
    def _number(self) -> int:
        """The session's number; the session begins when this is first read."""
        if not self._known:
            with self._creating:
                if self._is_closed:
                    raise CancelledError(CLOSED)
                self._known = self._known or self._master.create(self._options)
        return self._known

    def extend(self, version: int, nodes: Sequence[Node], deadline_s: float) -> int:
        """See `Connection`."""
        return self._master.session(self._number).extend(version, nodes)

    def prepare(self, kind: RunSignature, deadline_s: float) -> int:
        """See `Connection`."""
        return self._master.session(self._number).prepare(kind, deadline_s)

    def run(
        self, plan: int, feeds: Sequence[Array], deadline_s: float, traced: bool
    ) -> tuple[list[Any], Records | None]:
        """See `Connection`."""
        session = self._master.session(self._number)
        # In this process no link copies them: a variable must not share the caller's
        # arrays.
        if feeds and session.keeps_feeds(plan):
            feeds = [np.array(value) for value in feeds]
        return session.run(plan, feeds, deadline_s, traced=traced)

    def devices(self, deadline_s: float) -> list[tuple[Device, int]]:
        """See `Connection`."""
        replies = self._master.session(self._number).devices(deadline_s)
        return [
            (device, incarnation)
            for devices_of, incarnation in replies.values()
            for device in devices_of
        ]

    def waits(self, deadline_s: float) -> list[str]:
        """See `Connection`."""
        return self._master.session(self._number).waits()

    def reset(self, containers: Sequence[str], deadline_s: float) -> None:
        """See `Connection`."""
        self._master.reset(containers, deadline_s)

    def close(self) -> None:
        """See `Connection`."""
        if sys.is_finalizing():  # other threads stand still, maybe with the locks
            return
        with self._creating:
            self._is_closed = True
        if self._known:
            self._master.end(self._known)
        if self._owns:
            self._master.worker.close()
