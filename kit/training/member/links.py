"""A member's data links: opened along the plans, before they are needed.

Two members have a link when the plan of one names the other, or when something moves
between them as an epoch begins. Theory of operation:

    start     the links of the first epoch's plan, and of what moves before its first
              step: the coordinator hands out the parameters, or a member with a copy
    prepare   a switch: each member dials what it lacks to lower numbers, and says a
              first word; it waits for no other that does the same
    adopt     all have prepared, so all links are there: take those that were dialled
              here, exchange the arenas, make the ports

Links that no plan needs any more stay, for the next switch. What was dialled for an
epoch that was abandoned stays too: the other end has it and would take it first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from kit.exchange.ports.connect import Joining
from kit.exchange.ports.port import Port
from kit.training.coordination.membership import Epoch
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
        # Half of what the others wait for us: a link that cannot be opened is to refuse
        # the epoch in words, before they give us up.
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
        # Set first: `_join` reads it after it has listed its streams, so one of the two
        # always shuts them down.
        self._is_aborted = True
        for stream in self._opening:
            stream.shutdown()

    def _join(self, streams: dict[int, Stream], deadline: float) -> None:
        self._keep(streams.values())
        self._opening = list(streams.values())
        if self._is_aborted:
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


# --------------------------------------------------------------------------------------
# A worker that was lost takes part again: new links, made while an epoch is prepared.
#
# Only a worker that a step can do without (`aggregate=R`) can come back, so its links
# are those to the parameter servers. Its new process has an incarnation, a number that
# counts up; whatever an earlier one says or opens is refused.
#
#     new process   come_back, dial the servers, offer the arena, ask to rejoin
#     all           halt; the proposed epoch names who joins, with its incarnation
#     servers       take the link and the arena, offer theirs        both prepare, and
#     new process   takes the servers' arenas                        change nothing yet
#     all           the epoch begins: the ports are in, the newcomer gets the parameters


@dataclass
class Rejoining:
    """One member's links to those that come back, or its own when it does."""

    job: Job
    me: int
    joining: Joining
    services: Services
    arenas: dict[int, Arena]  # the neighbours', by member; owned by the member
    _ports: list[Port] = field(default_factory=list)
    _fresh: dict[int, Arena] = field(default_factory=dict)
    _offered: Mapping[int, Stream] = field(default_factory=dict)

    def offer(self, streams: Mapping[int, Stream], deadline: float) -> None:
        """Offer our arena to the servers, before we ask to rejoin."""
        self._offered = streams
        self.joining.offer(streams, deadline)

    def prepare(self, epoch: Epoch) -> None:
        """Make the ports that the epoch needs; they are not used yet."""
        deadline = time.monotonic() + self.job.settings.connect_deadline_s
        if any(member == self.me for member, _ in epoch.joined):
            self._take(self._offered, deadline)
        elif self.me in self.job.ps:
            for member, incarnation in epoch.joined:
                stream = self.services.stream_of(self.job, member, incarnation)
                streams = {member: stream}
                try:
                    self.joining.offer(streams, deadline)
                    self._take(streams, deadline)
                except BaseException:
                    stream.close()
                    raise

    def _take(self, streams: Mapping[int, Stream], deadline: float) -> None:
        ports, arenas = self.joining.take(streams, deadline)
        self._ports += ports
        self._fresh |= arenas

    def adopt(self, epoch: Epoch) -> None:
        """Use the ports from now on, in place of those to earlier processes."""
        # Not while preparing: if the epoch is abandoned, the old ports stay in use.
        for port in self._ports:
            self.joining.endpoint.readmit(port, epoch.number)
        for peer, arena in self._fresh.items():
            if peer in self.arenas:
                self.arenas[peer].close()  # arrays may look into it a little longer
            self.arenas[peer] = arena
        self._ports, self._fresh = [], {}

    def give_up(self) -> None:
        """Let go of what was prepared and is not used."""
        for port in self._ports:
            port.close()
        for arena in self._fresh.values():
            arena.close()
        self._ports, self._fresh = [], {}
