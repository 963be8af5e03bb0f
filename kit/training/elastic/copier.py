"""One member's copies: made in the thread of its steps, sent from another thread.

A copy of a large state is in an arena, so that on one host the next process keeps it
without copying it once more. Both hold the two newest copies of a member. As soon as
that process has confirmed two later ones, nobody looks into a buffer any more, and it
is written again: new pages would cost the training more than the copy itself. So a
process keeps what is free for the next generation.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np

from kit.errors import KitError, NotEnoughMemory
from kit.exchange.layout import Layout, Range
from kit.exchange.plan import Owned
from kit.exchange.ports.memory import Array
from kit.training.checkpointing.member_state import OwnState, ranges_of, writers_of
from kit.training.elastic.copies import N_KEPT, StateCopy, ToldRows
from kit.training.elastic.generation import CopyPoint
from kit.training.job import Job
from kit.training.member.context import MemberContext
from kit.training.member.services import Services
from kit.training.member.step_events import StepObserver
from kit.wire.local.arena import Arena

_ROOM: Final = 1 << 17  # bytes for the newest rows, behind the state
_LEAST_SHARED: Final = 1 << 20  # less is sent as fast


class CopyBuffer(NamedTuple):
    """Room for a copy; `arena` is where it is, if others may look into it."""

    state: OwnState
    arena: Arena | None

    def close(self) -> None:
        """Let go of the arena; processes that have mapped it still can read it."""
        if self.arena is not None:
            self.arena.close()


class CopyBuffers:
    """The buffers of one member. Every method may be called from any thread.

    >>> from types import SimpleNamespace as Room
    >>> buffers = CopyBuffers(lambda room: CopyBuffer(Room(room=room), None))
    >>> copies = [buffers.take(room) for room in (1, 2, 3)]
    >>> for step, one in enumerate(copies):
    ...     buffers.kept(one, CopyPoint(step, 0, 0), "worker:1")
    >>> buffers.take(1) is copies[0]
    True
    """

    def __init__(self, new: Callable[[int], CopyBuffer]) -> None:
        """Begin without any; `new` makes one with so much room behind the state."""
        self._new, self._room = new, _ROOM
        self._free: list[CopyBuffer] = []
        # By moment, those that are held here and in the process that is named.
        self._held: dict[CopyPoint, CopyBuffer] = {}
        self._where = ""
        self._since = CopyPoint(0)
        self._is_closed = False
        self._guard = threading.Lock()

    @classmethod
    def of(
        cls, layout: Layout, ranges: Sequence[Range], slots: Sequence[str]
    ) -> CopyBuffers:
        """Return buffers for the parameters and slots of some ranges."""

        def new(room: int) -> CopyBuffer:
            arenas = list[Arena]()

            def shared(n_bytes: int) -> Array:
                if n_bytes < _LEAST_SHARED:
                    return np.empty(n_bytes, np.uint8)
                arenas.append(Arena.create("copies", n_bytes))
                return np.frombuffer(arenas[0].view(), np.uint8)

            state = OwnState(layout, ranges, slots, room, shared)
            return CopyBuffer(state, arenas[0] if arenas else None)

        return cls(new)

    def begin(self, since: CopyPoint) -> None:
        """Begin another epoch, in this generation or the next one."""
        with self._guard:
            self._since = since
            # Where steps are done again, all that take part drop the copies of later
            # steps; but a process that was stopped may still read one, so the buffers
            # are not written again.
            if any(moment.step > since.step for moment in self._held):
                self._forget_held()

    def prepare(self) -> None:
        """Make sure that one is free: its pages are there before they are needed."""
        if not self._free:
            one = self._new(self._room)  # without the lock: it touches every page
            with self._guard:
                self._give_back([one])

    def take(self, room: int) -> CopyBuffer:
        """Return one into whose copy nobody looks, with so much room."""
        with self._guard:
            found = self._free.pop() if self._free else None
        if found is not None and found.state.room >= room:
            return found
        if found is not None:
            found.close()
        self._room = max(self._room, 2 * room)  # the rows grow: not anew each time
        return self._new(self._room)

    def kept(self, buffer: CopyBuffer, moment: CopyPoint, where: str) -> None:
        """Note that a process has the copy that is in a buffer.

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
            # Another copy of the same moment takes the place of the first.
            old = [self._held.pop(moment)] if moment in self._held else []
            self._held[moment] = buffer
            # The process that keeps the copies keeps as many: older buffers are free.
            old += [self._held.pop(one) for one in sorted(self._held)[:-N_KEPT]]
            self._give_back(old)

    def lost(self, buffer: CopyBuffer) -> None:
        """Note that it is unknown which process has the copy that is in a buffer."""
        with self._guard:
            buffer.close()
            self._forget_held()

    def close(self) -> None:
        """Let go of all, but for one that is out: it goes when it comes back."""
        with self._guard:
            self._is_closed, free, self._free = True, self._free, []
            self._give_back(free)
            self._forget_held()

    def _give_back(self, buffers: Sequence[CopyBuffer]) -> None:
        if not self._is_closed:
            self._free += buffers
            return
        for one in buffers:
            one.close()

    def _forget_held(self) -> None:
        held, self._held = self._held, {}
        for one in held.values():
            one.close()


class BuffersByMember:
    """The buffers of a process's members, from one generation to the next."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[tuple[Range, ...], CopyBuffers]] = {}
        self._guard = threading.Lock()

    def of(self, member: int, job: Job, ranges: Sequence[Range]) -> CopyBuffers:
        """Return those that a member had for the same ranges, or else new ones."""
        wanted = tuple(ranges)
        with self._guard:
            if member in self._held and self._held[member][0] != wanted:
                self._held.pop(member)[1].close()
            if member not in self._held:
                found = CopyBuffers.of(job.layout, wanted, job.slots)
                self._held[member] = wanted, found
            return self._held[member][1]

    def keep_only(self, members: Collection[int]) -> None:
        """Close the buffers of all other members."""
        with self._guard:
            for member in self._held.keys() - {*members}:
                self._held.pop(member)[1].close()


class StateCopier(StepObserver):
    """One member's copies: made in the thread of its steps, sent from another."""

    def __init__(
        self,
        context: MemberContext,
        services: Services,
        confirm: Callable[[int], None],
        requests: Callable[[], dict[str, Any]],
    ) -> None:
        """`confirm` reports a copy that `services` has kept to the coordinator.

        `requests` returns what is asked of the training; the coordinator's member has
        it, for all others it is empty.
        """
        self._context, self._services, self._confirm = context, services, confirm
        self._requests = requests
        self._writers: tuple[int, ...] = ()
        self._ranges: tuple[Range, ...] = ()
        self._buffers: CopyBuffers | None = None
        self._n_epochs = 0
        self._made = queue.SimpleQueue[_Made | None]()
        self._thread = threading.Thread(
            target=self._send, name=f"kit-copier-{context.task.short}", daemon=True
        )
        self._thread.start()

    def adopted(self, owners: Sequence[Owned], step: int, synchronous: bool) -> None:
        """See `StepObserver`: prepare a buffer for what is ours from now on."""
        job, me = self._context.job, self._context.me
        generation = self._context.job.generation
        assert generation is not None, "only an elastic training copies"
        self._n_epochs += 1
        # A copy is whole when these have made theirs. Asynchronous workers hold nothing
        # that the servers lack, so their loss must not make it useless.
        all_of, coordinator = range(len(job.tasks)), job.coordinator
        some = sorted({*writers_of(owners, coordinator), coordinator})
        self._writers = tuple(all_of if synchronous else some)
        self._ranges = ranges_of(owners, me)
        self._buffers = self._services.copy_buffers(job, me, self._ranges)
        self._buffers.begin(CopyPoint(step, generation.number, self._n_epochs))
        self._buffers.prepare()  # now, while all wait anyway, not at the first copy

    def copy(self, step: int) -> None:
        """Copy the state before `step`; blocks for the copy alone."""
        context, buffers = self._context, self._buffers
        if buffers is None:
            return
        generation = context.job.generation
        assert generation is not None, "only an elastic training copies"
        more = (*ToldRows.of(context.meter), context.kept())
        rest = b"".join(more)
        buffer = buffers.take(len(rest))
        buffer.state.copy(context.memory, context.now)
        context.reach("copy.made", step)
        moment = CopyPoint(step, generation.number, self._n_epochs)
        sizes = buffer.state.n_bytes, *map(len, more)
        about = context.me, self._writers, self._ranges, self._requests(), sizes
        data = buffer.state.followed_by(rest)
        copy = StateCopy(moment, *about, data, buffer.arena)
        self._made.put(_Made(copy, buffer, buffers))

    def close(self) -> None:
        """End the thread; what it is sending may be lost."""
        self._made.put(None)

    def _send(self) -> None:
        while (made := self._made.get()) is not None:
            copy, buffer, buffers = made
            try:
                where = self._services.keep_copy(self._context.job, copy)
                buffers.kept(buffer, copy.moment, where)
                self._context.reach("copy.sent", copy.moment.step)
                self._confirm(copy.moment.step)
            except KitError:
                # Not reported: the process that would keep it is gone, and that ends
                # this generation anyway.
                buffers.lost(buffer)
                continue
            with suppress(NotEnoughMemory):  # raised by `copy`, if there is still none
                buffers.prepare()


class _Made(NamedTuple):
    copy: StateCopy
    buffer: CopyBuffer
    buffers: CopyBuffers
