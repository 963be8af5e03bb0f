"""Shards of a training's snapshots, in the memory of other processes than its own.

At a boundary that the coordinator calls, every member takes its shard (see
`kit.training.core.snapshot`); the training waits for this alone. A thread then sends
it to the next process, and reports to the coordinator when it is there. One snapshot is
on its way at a time, so the two newest shards of each member are enough: one that is
whole, and one that may become so. A generation that begins with them has each member
read what it updates from then on, most often from its own process's memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np

from kit.errors import KitError, NotEnoughMemory
from kit.exchange.layout import Range
from kit.exchange.plan import Owned
from kit.trace.log import Log
from kit.trace.traffic import MEASURE, STEP, MeasureRow, Meter
from kit.training.core.axes import ranges_of
from kit.training.core.context import MemberContext, Services
from kit.training.core.job import Job
from kit.training.core.snapshot import (
    N_KEPT,
    Buffer,
    Buffers,
    CopyPoint,
    Held,
    Shard,
    Sink,
    n_bytes_of,
    private,
    take,
)
from kit.wire.local.arena import Arena

_LEAST_SHARED: Final = 1 << 20  # less is sent as fast
_N_ROWS: Final = 512  # of each kind, that go with a shard


class ToldRows(NamedTuple):
    """What a member has recorded lately of its steps, packed.

    Nobody may have read it yet. It is in the shards, so that a loss does not leave a
    gap in the curves.
    """

    steps: bytes = b""
    measures: bytes = b""

    @classmethod
    def of(cls, meter: Meter) -> ToldRows:
        """Return the newest rows of a meter."""
        return cls(_newest(meter.steps), _newest(meter.measures))

    def put_into(self, meter: Meter) -> None:
        """Let the meter of the same member report them, in another generation."""
        steps = np.frombuffer(self.steps, STEP).copy()
        steps["epoch"] = 0  # of the generation before
        meter.steps.extend_packed(steps.tobytes())
        for row in np.frombuffer(self.measures, MEASURE).tolist():
            meter.measured(MeasureRow(*row))


def _newest(log: Log | None) -> bytes:
    return log.newest(_N_ROWS).tobytes() if log is not None else b""


class Copies:
    """The shards that a process holds. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._held: dict[tuple[CopyPoint, int], Shard] = {}
        self._guard = threading.Lock()

    def keep(self, shard: Shard) -> None:
        """Keep a shard, and let go of all but the two newest of its member."""
        with self._guard:
            self._held[shard.moment, shard.member] = shard
            moments = sorted(
                made for made, held_member in self._held if held_member == shard.member
            )
            for made in moments[:-N_KEPT]:
                del self._held[made, shard.member]

    def drop_after(self, step: int) -> None:
        """Let go of the shards of later steps, which will be done again.

        They would count as newer than the shards that follow, and push those out.
        """
        with self._guard:
            for key in [key for key in self._held if key[0].step > step]:
                del self._held[key]

    def held(self) -> list[Held]:
        """Return what there is."""
        with self._guard:
            return [Held(*shard[:3]) for shard in self._held.values()]

    def find(self, moment: CopyPoint, member: int) -> Shard:
        """Return a shard; `KeyError` if it is not here."""
        with self._guard:
            return self._held[moment, member]


# --------------------------------------------------------------------------------------
# The memory that copies are taken into, which other processes may look into.


def shared(n_bytes: int) -> Buffer:
    """Return memory that another process may look into, if that is worth it."""
    if n_bytes < _LEAST_SHARED:
        return private(n_bytes)
    arena = Arena.create("copies", n_bytes)
    return Buffer(np.frombuffer(arena.view(), np.uint8), arena)


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


# --------------------------------------------------------------------------------------
# The sink of an elastic training: shards go to the memory of other processes.


class Copier(Sink):
    """One member's shards for the processes that outlive this one."""

    def __init__(
        self,
        context: MemberContext,
        services: Services,
        confirm: Callable[[int], None],
        log: Callable[[], dict[str, Any]],
    ) -> None:
        """`confirm` reports a shard that the process has kept to the coordinator.

        `log` returns what is decided; the coordinator's member has
        it, for all others it is empty.
        """
        self._training = services.elastic(context.job.generation.origin)
        self._confirm, self._log = confirm, log
        self._writers: tuple[int, ...] = ()
        self._buffers: Buffers | None = None
        super().__init__(context, "copier")

    def adopted(self, owners: Sequence[Owned], step: int, synchronous: bool) -> None:
        """See `StepCallback`: prepare a buffer for what is ours from now on."""
        context, job = self._context, self._context.job
        # Workers that servers serve hold nothing that these lack, so their loss must
        # not make a snapshot useless.
        n_needed = 0 if context.schedule.is_served else len(job.tasks)
        self._writers = self.writers((*range(n_needed), job.coordinator))
        ranges, epoch = ranges_of(owners, context.me), context.endpoint.stamp.epoch
        self._buffers = self._training.buffers.of(context.me, job, ranges)
        self._buffers.begin(CopyPoint(step, job.generation.number, epoch))
        self._buffers.prepare()  # now, while all wait anyway, not at the first copy

    def take_part(self, step: int, boundary: int) -> None:
        """See `Sink`."""
        context, buffers = self._context, self._buffers
        if buffers is None:
            return
        rows, log = ToldRows.of(context.meter), self._log()
        shard = take(context, step, self._writers, buffers.take, rows, log)
        context.reach("copy.made", step)
        self.beside(self._send, shard, buffers)

    def _send(self, shard: Shard, buffers: Buffers) -> None:
        assert shard.buffer is not None, "it was taken here"
        try:
            where = self._training.keep_copy(shard)
            buffers.kept(shard.buffer, shard.moment, where)
            self._context.reach("copy.sent", shard.moment.step)
            self._confirm(shard.moment.step)
        except KitError:
            # Not reported: the process that would keep it is gone, and that ends this
            # generation anyway.
            buffers.lost(shard.buffer)
            return
        with suppress(NotEnoughMemory):  # raised by `take_part`, if there is still none
            buffers.prepare()
