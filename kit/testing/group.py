"""A group of members in one process: threads over shared memory or over streams.

What a training does between processes, without processes: ports, programs and waits are
real. For tests, and for stepping through an exchange.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations

from kit.errors import KitError
from kit.exchange.layout import Layout
from kit.exchange.ports.connect import Joining, OwnArena
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.memory import Memory
from kit.exchange.ports.port import Stamp
from kit.exchange.ports.shared_port import SharedPort
from kit.testing.streams import memory_pair
from kit.trace.traffic import Meter
from kit.wire.stream import Stream


@dataclass
class LocalMember:
    """One member: its memory, its links and its meter."""

    number: int
    memory: Memory
    endpoint: Endpoint
    meter: Meter


@contextmanager
def local_group(
    layout: Layout,
    n_members: int,
    *,
    in_place: bool = True,
    hosts: Sequence[int] = (),
    native: bool = True,
    deadline_s: float = 10.0,
    trace_rows: int = 200_000,
    pair: Callable[[], tuple[Stream, Stream]] = memory_pair,
) -> Iterator[list[LocalMember]]:
    """Make members that are linked to each other, and close them at the end.

    Parameters
    ----------
    layout : Layout
        What their memory holds.
    n_members : int
        How many.
    in_place : bool, default True
        Let them read each other's arenas; otherwise every range travels as a frame over
        a stream that `pair` makes.
    hosts : sequence of int, optional
        The host of each member: those of one host read each other's arenas, all others
        have streams. Overrides `in_place`.
    native : bool, default True
        Use the compiled loop, where it was built.
    deadline_s : float, default 10.0
        Seconds that a wait for another member may take.
    trace_rows : int, default 200,000
        How many rows each meter keeps. The first 8192 of them take memory, and half a
        millisecond, at once.
    pair : callable, default memory_pair
        Makes the two ends of a stream.

    Yields
    ------
    list of LocalMember
    """
    names = [f"/job:member/task:{number}" for number in range(n_members)]
    own_arenas = [OwnArena(f"member-{n}", layout, n_members) for n in range(n_members)]
    members = [
        LocalMember(
            number,
            own.memory,
            Endpoint(
                names,
                number,
                Stamp(),
                deadline_s=deadline_s,
                native=native,
                asleep=own.control.asleep,
            ),
            Meter(number, limit=trace_rows),
        )
        for number, own in enumerate(own_arenas)
    ]
    try:
        for first, other in combinations(range(n_members), 2):
            is_near = hosts[first] == hosts[other] if hosts else in_place
            _link(members, own_arenas, (first, other), pair(), is_near)
        yield members
    finally:
        for member in members:
            member.endpoint.close()
        for own in own_arenas:
            own.arena.close()


def _link(
    members: Sequence[LocalMember],
    own_arenas: Sequence[OwnArena],
    numbers: tuple[int, int],
    streams: tuple[Stream, Stream],
    in_place: bool,
) -> None:
    for me, peer, stream in zip(numbers, reversed(numbers), streams, strict=True):
        endpoint = members[me].endpoint
        if not in_place:
            Joining(endpoint, own_arenas[me], cluster=7).join({peer: stream}, 0.0)
            continue
        endpoint.add(
            SharedPort(
                me=me,
                peer=peer,
                ours=own_arenas[me].control,
                theirs=own_arenas[peer].control,
                memory=own_arenas[peer].memory,
                doorbell=os.dup(members[peer].endpoint.doorbell.handle),
                stream=stream,
                stamp=endpoint.stamp,
                clock=endpoint.clock,
            )
        )


def run_together(
    members: Sequence[LocalMember], work: Callable[[LocalMember], None]
) -> None:
    """Run `work` for every member, each in its own thread; raise the first error.

    An error of one ends the waits of all others.

    Parameters
    ----------
    members : sequence of LocalMember
        Those of `local_group`.
    work : callable
        Takes a member.
    """
    errors: list[BaseException] = []

    def run(member: LocalMember) -> None:
        try:
            work(member)
        except BaseException as error:
            errors.append(error)
            for other in members:
                other.endpoint.abort(KitError(f"member {member.number}: {error}"))

    threads = [
        threading.Thread(target=run, args=(member,), name=f"member-{member.number}")
        for member in members
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
