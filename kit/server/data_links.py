"""Open a member's data links: dial some other tasks, and await that others dial us.

The same for trainings and for groups, which say how they dial and what ends the wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kit.features import load
from kit.server.arrivals import announce
from kit.wire.link import Link
from kit.wire.stream import MPI, Stream


def open_streams(
    dialled: Sequence[int],
    awaited: Sequence[int],
    dial: Callable[[int], Link],
    arrived: Callable[[int], Link],
    deadline_s: float,
    transport: str,
) -> dict[int, Stream]:
    """Return a stream to each member that we dial, and from each that dials us.

    All are there, or none; raises what `dial` and `arrived` raise. A first word on what
    was dialled may take `deadline_s`. With `transport` "mpi" they are messages of MPI.
    """
    streams: dict[int, Stream] = {}
    try:
        # Dial all first: what arrives is kept until it is asked for, so no two members
        # can wait for each other.
        for peer in dialled:
            link = dial(peer)
            streams[peer] = link.stream
            announce(link, deadline_s)
        for peer in awaited:
            streams[peer] = arrived(peer).stream
        if transport == MPI:
            over_mpi = load("kit.wire.mpi:over_mpi")
            for peer, stream in streams.items():
                streams[peer] = over_mpi(stream, deadline_s)
    except BaseException:
        for stream in streams.values():
            stream.close()  # their other ends would wait for our arena
        raise
    return streams
