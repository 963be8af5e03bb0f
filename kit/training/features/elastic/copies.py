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
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import numpy as np

from kit.exchange.layout import Range
from kit.trace.log import Log
from kit.trace.traffic import MEASURE, STEP, MeasureRow, Meter
from kit.training.core.job import Job
from kit.training.core.snapshot import (
    N_KEPT,
    Buffer,
    Buffers,
    CopyPoint,
    Held,
    Shard,
    n_bytes_of,
    private,
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
