"""A worker that was lost takes part again: new links, made while an epoch is prepared.

Only a worker that a step can do without (`aggregate=R`) can come back, so its links
are those to the parameter servers. Its new process has an incarnation, a number that
counts up; whatever an earlier one says or opens is refused.

    new process   come_back, dial the servers, offer the arena, ask to rejoin
    all           halt; the proposed epoch names who joins, with its incarnation
    servers       take the link and the arena, offer theirs        both prepare, and
    new process   takes the servers' arenas                        change nothing yet
    all           the epoch begins: the ports are in, the newcomer gets the parameters
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from kit.exchange.ports.connect import Joining
from kit.exchange.ports.port import Port
from kit.training.core.context import Services
from kit.training.core.job import Job
from kit.training.core.log import Epoch
from kit.wire.local.arena import Arena
from kit.wire.stream import Stream


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
