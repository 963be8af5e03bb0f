"""The memory that shards are taken into, and who may still look into it.

A large buffer for another process is an arena, so that on one host that process keeps
the shard without copying it once more. It and our own process hold the two newest
shards of a member. As soon as that process has confirmed two later ones, nobody looks
into a buffer any more, and it is written again: new pages would cost the training more
than the copy itself. So a process keeps what is free for the next generation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

import numpy as np

from kit.exchange.layout import Range
from kit.exchange.ports.memory import Array
from kit.training.job import Job
from kit.training.snapshot.shard import CopyPoint, n_bytes_of
from kit.wire.local.arena import Arena

#: How many shards of a member a process keeps: of a whole snapshot, and of the next.
N_KEPT: Final = 2
_ROOM: Final = 1 << 17  # bytes for the newest rows, and what a step function keeps
_LEAST_SHARED: Final = 1 << 20  # less is sent as fast


class Buffer(NamedTuple):
    """Room for a shard; `arena` is where it is, if others may look into it."""

    data: Array
    arena: Arena | None = None

    def close(self) -> None:
        """Let go of the arena; processes that have mapped it still can read it."""
        if self.arena is not None:
            self.arena.close()


def private(n_bytes: int) -> Buffer:
    """Return memory of this process; its pages are taken as they are touched."""
    return Buffer(np.empty(n_bytes, np.uint8))


def shared(n_bytes: int) -> Buffer:
    """Return memory that another process may look into, if that is worth it."""
    if n_bytes < _LEAST_SHARED:
        return private(n_bytes)
    arena = Arena.create("copies", n_bytes)
    return Buffer(np.frombuffer(arena.view(), np.uint8), arena)


class Buffers:
    """The buffers of one member. Every method may be called from any thread.

    >>> buffers = Buffers(8, private)
    >>> taken = [buffers.take(8) for step in range(3)]
    >>> for step, one in enumerate(taken):
    ...     buffers.kept(one, CopyPoint(step, 0, 0), "worker:1")
    >>> buffers.take(8) is taken[0]
    True
    """

    def __init__(self, n_bytes: int, new: Callable[[int], Buffer]) -> None:
        """Begin without any; each has at least `n_bytes`, and room behind them."""
        self._new, self._n_bytes, self._room = new, n_bytes, _ROOM
        self._free: list[Buffer] = []
        # By moment, those that are held here and in the process that is named.
        self._held: dict[CopyPoint, Buffer] = {}
        self._where = ""
        self._since = CopyPoint(0)
        self._is_closed = False
        self._guard = threading.Lock()

    def begin(self, since: CopyPoint) -> None:
        """Begin another epoch, in this generation or the next one."""
        with self._guard:
            self._since = since
            # Where steps are done again, all that take part drop the shards of later
            # steps; but a process that was stopped may still read one, so the buffers
            # are not written again.
            if any(moment.step > since.step for moment in self._held):
                self._forget_held()

    def prepare(self) -> None:
        """Make sure that one is free: its pages are there before they are needed."""
        if not self._free:
            buffer = self._new(self._n_bytes + self._room)
            buffer.data.fill(0)  # without the lock: it touches every page
            self.give_back(buffer)

    def take(self, n_bytes: int) -> Buffer:
        """Return one of so many bytes into which nobody looks."""
        with self._guard:
            buffer = self._free.pop() if self._free else None
        if buffer is not None and len(buffer.data) >= n_bytes:
            return buffer
        if buffer is not None:
            buffer.close()
        # The rows grow: not anew each time.
        self._room = max(self._room, 2 * (n_bytes - self._n_bytes))
        return self._new(self._n_bytes + self._room)

    def give_back(self, *buffers: Buffer) -> None:
        """Take back buffers into which nobody looks any more."""
        with self._guard:
            self._give_back(buffers)

    def kept(self, buffer: Buffer, moment: CopyPoint, where: str) -> None:
        """Note that a process has the shard that is in a buffer.

        `where` is a name that no other process has, nor one that took its place.
        """
        with self._guard:
            # Confirmed late, in a newer epoch: who reads it is not known any more.
            if moment[1:] < self._since[1:]:
                buffer.close()
                return
            if where != self._where:
                # Nor is what the process before this one holds, and for how long.
                self._forget_held()
                self._where = where
            # Another shard of the same moment takes the place of the first.
            old = [self._held.pop(moment)] if moment in self._held else []
            self._held[moment] = buffer
            # The process that keeps the shards keeps as many: older buffers are free.
            old += [self._held.pop(one) for one in sorted(self._held)[:-N_KEPT]]
            self._give_back(old)

    def lost(self, buffer: Buffer) -> None:
        """Note that it is unknown which process has the shard that is in a buffer."""
        with self._guard:
            buffer.close()
            self._forget_held()

    def close(self) -> None:
        """Let go of all, but for one that is out: it goes when it comes back."""
        with self._guard:
            self._is_closed, free, self._free = True, self._free, []
            self._give_back(free)
            self._forget_held()

    def _give_back(self, buffers: Collection[Buffer]) -> None:
        if not self._is_closed:
            self._free += buffers
            return
        for buffer in buffers:
            buffer.close()

    def _forget_held(self) -> None:
        held, self._held = self._held, {}
        for buffer in held.values():
            buffer.close()


class BuffersByMember:
    """The buffers of a process's members, from one generation to the next."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[tuple[Range, ...], Buffers]] = {}
        self._guard = threading.Lock()

    def of(self, member: int, job: Job, ranges: Sequence[Range]) -> Buffers:
        """Return those that a member had for the same ranges, or else new ones."""
        wanted = tuple(ranges)
        with self._guard:
            if member in self._held and self._held[member][0] != wanted:
                self._held.pop(member)[1].close()
            if member not in self._held:
                buffers = Buffers(n_bytes_of(wanted, len(job.slots)), shared)
                self._held[member] = wanted, buffers
            return self._held[member][1]

    def keep_only(self, members: Collection[int]) -> None:
        """Close the buffers of all other members."""
        with self._guard:
            for member in self._held.keys() - {*members}:
                self._held.pop(member)[1].close()
