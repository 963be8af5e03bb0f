"""Turn the links between the members of a training into ports.

On one host both sides hand each other their arena and their doorbell over the unix
socket and map them; elsewhere, and where shared memory would need a fence that was not
compiled, the socket itself carries the ranges.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter

from kit.errors import FailedPreconditionError, LinkLost, PeerLost
from kit.exchange.layout import Layout
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.memory import Memory, memory_bytes
from kit.exchange.ports.port import Port
from kit.exchange.ports.pumped_port import PumpedPort, can_pump
from kit.exchange.ports.shared_port import Control, SharedPort
from kit.exchange.ports.stream_port import StreamPort
from kit.memory_order import can_share
from kit.wire.frame import Bounds
from kit.wire.local.arena import Arena
from kit.wire.local.descriptors import recv_fds, send_fds
from kit.wire.stream import ENCRYPTED, Stream, parallel

_PAGE = 4096
_MAX_HOLD_US = 2**32 - 1
_PEER = itemgetter(0)


class OwnArena:
    """A member's own arena: control words, then the regions of its `Memory`."""

    def __init__(self, name: str, layout: Layout, n_members: int) -> None:
        """Make the arena. Untouched pages cost nothing."""
        self.layout, self.n_members = layout, n_members
        # More notes than a step has messages between two members: a sender may be a
        # whole step ahead, and must not overwrite a note that was not read. A power of
        # 2, so that a place in the ring is found by a mask.
        n_buckets = sum(len(part.buckets) for part in (layout, *layout.stages))
        most = 4 * n_buckets * layout.n_chunks
        self.depth = max(1024, 1 << most.bit_length())
        words = Control.n_words(n_members, self.depth)
        self._control_bytes = -(-8 * words // _PAGE) * _PAGE
        self.size = self._control_bytes + memory_bytes(layout)
        self.arena = Arena.create(name, self.size)
        self.control, self.memory = self.open(self.arena)

    def open(self, arena: Arena) -> tuple[Control, Memory]:
        """Return the parts of an arena of this form."""
        words = arena.view(0, self._control_bytes).cast("Q")
        memory = arena.view(self._control_bytes, memory_bytes(self.layout))
        return Control(words, self.n_members, self.depth), Memory(self.layout, memory)


@dataclass
class Joining:
    """Makes ports of streams, given our endpoint and arena and the form of frames.

    `pumps`: there are cores for threads that carry what does not lie in shared memory,
    which pays if it has enough bytes: `most_bytes`.
    """

    endpoint: Endpoint
    own: OwnArena
    cluster: int
    checksum: bool = True
    pumps: bool = False
    most_bytes: int | None = None  # as the layout has

    def join(self, streams: Mapping[int, Stream], deadline: float) -> dict[int, Arena]:
        """Make a port of each stream; returns the neighbours' arenas.

        Blocks until every neighbour on this host has sent its arena: both ends of each
        stream do this at the same time. All offers go out before the first one is
        waited for, so no two members wait for each other.
        """
        ordered = sorted(streams.items(), key=_PEER)
        ours = [self.own.arena.fd, self.endpoint.doorbell.handle]
        for peer, stream in ordered:
            if _shares(stream):
                with self._blaming(peer):
                    send_fds(stream, ours, deadline)
        ports: list[Port] = []
        arenas: dict[int, Arena] = {}
        try:
            for peer, stream in ordered:
                if _shares(stream):
                    port, arenas[peer] = self._attach(peer, stream, deadline)
                else:
                    port = self._carry(peer, stream)
                ports.append(port)
        except BaseException:
            for arena in arenas.values():
                arena.close()
            for port in ports:
                port.close()
            raise
        for port in ports:
            self.endpoint.add(port)
        return arenas

    def suit(self, n_bytes: int) -> bool:
        """Let threads carry links from now on, if for so many bytes they pay.

        Only between two calls, with nothing under way. On the wire nothing changes, so
        the other end may do so or not. Returns whether there are other ports now.
        """
        self.most_bytes = max(self.most_bytes or 0, n_bytes)
        ports = list(self.endpoint.ports.values())
        slow = [port for port in ports if isinstance(port, StreamPort)]
        changed = [port for port in slow if self._may_pump(port.stream)]
        for port in changed:
            self.endpoint.add(self._pumped(port.peer, port.stream, port))
        return bool(changed)

    @contextmanager
    def _blaming(self, peer: int) -> Iterator[None]:
        name = self.endpoint.names[peer]
        try:
            yield
        except LinkLost as error:
            raise PeerLost(
                f"{name} closed its link before it was used: {error.message}",
                task=name,
            ) from error

    def _attach(self, peer: int, stream: Stream, deadline: float) -> tuple[Port, Arena]:
        with self._blaming(peer):
            fd, doorbell = recv_fds(stream, 2, deadline)
        try:
            arena = Arena.attach(fd, self.own.size, writable=True)
        except BaseException:
            os.close(doorbell)  # `attach` has closed the other one
            raise
        control, memory = self.own.open(arena)
        port = SharedPort(
            me=self.endpoint.me,
            peer=peer,
            ours=self.own.control,
            theirs=control,
            memory=memory,
            doorbell=doorbell,
            stream=stream,
            stamp=self.endpoint.stamp,
            clock=self.endpoint.clock,
        )
        return port, arena

    def _carry(self, peer: int, stream: Stream) -> Port:
        if self._may_pump(stream):
            return self._pumped(peer, stream)
        if (n := len(parallel(stream))) > 1:
            raise FailedPreconditionError(
                f"streams={n} needs compiled code, which native=False leaves out, or "
                f"which was not built for this Python. Install psring where there is a "
                f"C compiler, or leave streams at 1."
            )
        return StreamPort(
            me=self.endpoint.me,
            peer=peer,
            memory=self.own.memory,
            stream=stream,
            stamp=self.endpoint.stamp,
            bounds=self._bounds,
            clock=self.endpoint.clock,
            checksum=self._is_checked(stream),
        )

    def _pumped(
        self, peer: int, stream: Stream, before: StreamPort | None = None
    ) -> PumpedPort:
        return PumpedPort(
            peer=peer,
            memory=self.own.memory,
            stream=stream,
            endpoint=self.endpoint,
            bounds=self._bounds,
            depth=self.own.depth,
            checksum=self._is_checked(stream),
            before=before,
        )

    def _may_pump(self, stream: Stream) -> bool:
        n_bytes, layout = self.most_bytes, self.own.layout
        most = layout.total_bytes if n_bytes is None else n_bytes
        # Who wants several streams has the cores for their threads.
        wants = self.pumps or (len(parallel(stream)) > 1 and self.endpoint.native)
        return wants and can_pump(stream, most)

    def _is_checked(self, stream: Stream) -> bool:
        return self.checksum and stream.kind not in ENCRYPTED  # checks better

    @property
    def _bounds(self) -> Bounds:
        return Bounds(
            cluster=self.cluster,
            max_length=max(1, self.own.layout.total_bytes),
            max_sender=self.own.n_members,
            max_hold_us=_MAX_HOLD_US,
        )


def _shares(stream: Stream) -> bool:
    # Both ends answer alike: what is compiled is that of one installation.
    return stream.kind == "unix" and can_share()
