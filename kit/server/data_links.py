"""Open a member's data links: dial some other tasks, and await that others dial us.

The same for trainings and for groups, which say how they dial and what ends the wait.
Between hosts a data link may have several streams, if both tasks want as many. Each is
a link of its own, authenticated and encrypted like any other; its ping says which one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kit.errors import FailedPreconditionError
from kit.features import load
from kit.server.arrivals import announce
from kit.wire.frame import Header
from kit.wire.link import Link
from kit.wire.stream import MPI, OVER_TCP, ParallelStreams, Stream


def open_streams(
    dialled: Sequence[int],
    awaited: Sequence[int],
    dial: Callable[[int], Link],
    arrived: Callable[[int], tuple[Link, Header]],
    deadline_s: float,
    transport: str,
    n: int = 1,
) -> dict[int, Stream]:
    """Return a stream to each member that we dial, and from each that dials us.

    All are there, or none; raises what `dial` and `arrived` raise. A first word on what
    was dialled may take `deadline_s`. With `transport` "mpi" they are messages of MPI.
    Between hosts each is `n` streams side by side.
    """
    opened: dict[int, dict[int, Stream]] = {}
    try:
        # Dial all first: what arrives is kept until it is asked for, so no two members
        # can wait for each other.
        for peer in dialled:
            _dial(opened.setdefault(peer, {}), partial(dial, peer), deadline_s, n)
        for peer in awaited:
            _await(opened.setdefault(peer, {}), partial(arrived, peer), n)
        streams = {peer: _joined(parts) for peer, parts in opened.items()}
        if transport == MPI:
            over_mpi = load("kit.wire.mpi:over_mpi")
            for peer, stream in streams.items():
                streams[peer] = over_mpi(stream, deadline_s)
    except BaseException:
        for parts in opened.values():
            for stream in parts.values():
                stream.close()  # their other ends would wait for our arena
        raise
    return streams


def _dial(
    parts: dict[int, Stream], dial: Callable[[], Link], deadline_s: float, most: int
) -> None:
    n = 1
    while len(parts) < n:
        link = dial()
        n = _number_of(link, most)
        parts[len(parts)] = link.stream
        announce(link, deadline_s, len(parts) - 1, n)


def _await(
    parts: dict[int, Stream], arrived: Callable[[], tuple[Link, Header]], most: int
) -> None:
    n = 1
    while len(parts) < n:
        link, ping = arrived()
        n = _number_of(link, most)
        before, parts[ping.chunk] = parts.get(ping.chunk), link.stream
        if before is not None:
            before.close()
        if ping.tensor + 1 != n or ping.chunk >= n:
            raise FailedPreconditionError(
                f"{link.peer.short} has the setting streams={ping.tensor + 1}, and "
                f"{link.local.short} streams={n}. Give all tasks the same.",
                task=str(link.peer),
            )


def _number_of(link: Link, most: int) -> int:
    """Return how many streams a link has: on a host one is enough."""
    return most if link.transport in OVER_TCP else 1


def _joined(parts: dict[int, Stream]) -> Stream:
    streams = [parts[number] for number in range(len(parts))]
    return streams[0] if len(streams) == 1 else ParallelStreams(streams)
