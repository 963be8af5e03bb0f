"""One member of a group of tasks: memory, links, what it counts, how it is ended.

A training stands on it, and so do the groups that users make. It knows neither: whoever
makes it says with whom links are needed, which plans are carried out, and what it was
ended with.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from kit import machine
from kit.errors import KitError
from kit.exchange.execution.bound_operations import Update
from kit.exchange.execution.program import Program
from kit.exchange.group.links import Links, OpenStreams
from kit.exchange.layout import Layout
from kit.exchange.plan import Plan
from kit.exchange.ports.connect import Joining, OwnArena
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.port import Stamp
from kit.trace.traffic import Meter
from kit.wire.local.arena import Arena
from kit.wire.shaping import LineIn, LineOut, LinkSettings

_SPINS = 100  # looks at what is waited for, before the processor is given to others


class LinkedMember:
    """A member's arena, endpoint and links; one thread uses it, any may abort it."""

    def __init__(
        self,
        names: Sequence[str],
        me: int,
        layout: Layout,
        *,
        label: str,
        meter: Meter,
        streams: OpenStreams,
        cluster: int,
        deadline_s: float,
        checksum: bool = True,
        native: bool = True,
        hosts: Sequence[object] = (),
        most_bytes: int | None = None,
        on_loss: Callable[[], None] = lambda: None,
        stack: ExitStack,
    ) -> None:
        """Make it, with no links yet; `stack` closes them and the endpoint.

        The arenas stay until `release`: what was exchanged may still be read. `hosts`
        has the host of each member, or is empty if there is only one. What is exchanged
        has `most_bytes`, by default those of the layout; see `Joining.suit`.
        """
        n_here = hosts.count(hosts[me]) if hosts else len(names)
        n_cores = machine.cores() / n_here
        self.me, self.meter = me, meter
        own = OwnArena(label, layout, len(names))
        self.memory = own.memory
        self.arenas: dict[int, Arena] = {me: own.arena}  # ours and the neighbours'
        self.endpoint = Endpoint(
            names,
            me,
            Stamp(),
            deadline_s=deadline_s,
            # Where tasks share cores, the one that is waited for needs ours.
            spins=_SPINS if n_cores >= 1 else 0,
            native=native,
            asleep=own.control.asleep,
            on_loss=on_loss,
        )
        stack.callback(self.endpoint.close)
        self.joining = Joining(
            *(self.endpoint, own, cluster, checksum),
            pumps=native and n_cores >= 2,
            most_bytes=most_bytes,
        )
        self.links = Links(me, self.joining, streams, self.arenas, stack)

    def program(self, plan: Plan, update: Update | None = None, **how: Any) -> Program:
        """Bind a plan to what this member has; see `Program`."""
        parts = self.endpoint, self.memory, self.meter
        return Program(plan, *parts, update=update, **how)

    def abort(self, error: KitError) -> None:
        """End every wait, now and later; from any thread."""
        self.endpoint.abort(error)
        self.links.abort()

    def release(self) -> None:
        """Let go of the memory, once nobody uses it any more."""
        for arena in self.arenas.values():
            arena.close()
        self.arenas.clear()


def deadline_in(seconds: float) -> float:
    """Return the moment in so many seconds, by the clock of deadlines."""
    return time.monotonic() + seconds


def shape(
    endpoint: Endpoint, settings: LinkSettings, hosts: Sequence[int] = ()
) -> None:
    """Slow a member's links to other hosts; where all are on one host, all links.

    `hosts` has the host of each member, or is empty if there is only one.
    """
    shaped = settings.is_shaped
    # Seeded by the member: the jitter of a run can be repeated.
    dice: Callable[[], float] = random.Random(endpoint.me).random
    line_out = LineOut(settings, dice) if shaped else None
    endpoint.line_in = LineIn(settings) if shaped else None
    is_one = len(set(hosts)) < 2
    for peer, port in endpoint.ports.items():
        is_slow = is_one or hosts[peer] != hosts[endpoint.me]
        port.line_out = line_out if is_slow else None
