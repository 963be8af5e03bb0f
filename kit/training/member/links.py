"""A member's data links: opened along the plans, before they are needed.

Two members have a link when the plan of one names the other, or when something moves
between them as an epoch begins. Theory of operation:

    start     the links of the first epoch's plan, and of what moves before its first
              step: the coordinator hands out the parameters, or a member with a copy
    prepare   a switch: each member dials what it lacks to lower numbers, and says a
              first word; it waits for nobody who does the same
    adopt     all have prepared, so all links are there: take those that were dialled
              here, exchange the arenas, make the ports

Links that no plan needs any more stay, for the next switch. What was dialled for an
epoch that was abandoned stays too: the other end has it and would take it first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack

from kit.exchange.ports.connect import Joining
from kit.training.job import Job
from kit.training.member.moves import first_partners
from kit.training.member.services import Services
from kit.wire.local.arena import Arena
from kit.wire.stream import Stream


class Links:
    """One member's data links and the neighbours' arenas."""

    def __init__(
        self,
        job: Job,
        me: int,
        joining: Joining,
        services: Services,
        arenas: dict[int, Arena],
        stack: ExitStack,
    ) -> None:
        """`arenas` belong to the member; `stack` closes the links."""
        self._job, self._me = job, me
        self._joining, self._services = joining, services
        self._arenas, self._stack = arenas, stack
        self._dialled: dict[int, Stream] = {}  # that are not ports yet
        # Whom the epoch that is prepared needs links to: dialled here, and there.
        self._lower: list[int] = []
        self._higher: list[int] = []
        self._opening: list[Stream] = []  # that wait for the other side's arena
        self._is_aborted = False

    def open(self) -> None:
        """Open the links of the first epoch; all members do so at the same time."""
        deadline = time.monotonic() + self._job.settings.start_deadline_s
        lower, higher = self._split(first_partners(self._job, self._me))
        streams = self._services.streams(self._job, lower, higher, deadline)
        self._join(streams, deadline)

    def dial(self, peers: Iterable[int]) -> dict[int, Stream]:
        """Dial as one that comes back; the links are not used yet."""
        deadline = time.monotonic() + self._job.settings.start_deadline_s
        found = dict(self._services.streams(self._job, tuple(peers), (), deadline))
        self._keep(found.values())
        return found

    def prepare(self, partners: Iterable[int]) -> None:
        """Dial what an epoch needs besides the links that exist."""
        job = self._job
        if job.has_backups:  # its servers have all links; a lost one is not dialled
            return
        missing = {one for one in partners if one not in self._joining.endpoint.ports}
        self._lower, self._higher = self._split(missing)
        deadline = time.monotonic() + job.settings.step_deadline_s / 2
        for peer in self._lower:
            if peer not in self._dialled:
                found = self._services.streams(job, (peer,), (), deadline)
                self._keep(found.values())
                self._dialled |= found

    def adopt(self) -> None:
        """Make ports of what all have dialled for the epoch that begins."""
        deadline = time.monotonic() + self._job.settings.step_deadline_s / 2
        streams = self._services.streams(self._job, (), self._higher, deadline)
        streams |= {peer: self._dialled.pop(peer) for peer in self._lower}
        self._lower, self._higher = [], []
        if streams:
            self._join(streams, deadline)

    def abort(self) -> None:
        """End the wait for the neighbours' arenas, now and later; from any thread."""
        self._is_aborted = True
        for stream in self._opening:
            stream.shutdown()

    def _join(self, streams: dict[int, Stream], deadline: float) -> None:
        self._keep(streams.values())
        self._opening = list(streams.values())
        if self._is_aborted:  # before there was anything to shut down
            self.abort()
        self._arenas |= self._joining.join(streams, deadline)
        self._opening = []

    def _keep(self, streams: Iterable[Stream]) -> None:
        for stream in streams:
            self._stack.callback(stream.close)

    def _split(self, peers: Iterable[int]) -> tuple[list[int], list[int]]:
        """Return those that we dial, and those that dial us."""
        ordered = sorted(peers)
        lower = [peer for peer in ordered if peer < self._me]
        return lower, ordered[len(lower) :]
