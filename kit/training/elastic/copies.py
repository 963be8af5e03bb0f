"""Copies of a training's state, in the memory of other processes than its own.

At a boundary that the coordinator calls, every member that updates parameters copies
them, with their slots. The training waits for this alone. A thread then sends the copy
to the next process, and reports to the coordinator when it is there. One copy is on its
way at a time, so the two newest of each member are enough: one that is whole, and one
that may become so. A generation that begins with them has each member read what it
updates from then on (`read_own`), most often from its own process's memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from kit.errors import InternalError
from kit.exchange.layout import Layout, Range, intersect
from kit.exchange.plan import SLOT
from kit.exchange.ports.memory import Array, Memory
from kit.trace.log import Log
from kit.trace.traffic import MEASURE, STEP, MeasureRow, Meter
from kit.training.checkpointing.member_state import OwnState
from kit.training.elastic.generation import CopyPoint, Held
from kit.wire.local.arena import Arena

#: How many copies of a member a process keeps: a whole one, and the next.
N_KEPT: Final = 2
_N_ROWS: Final = 512  # of each kind, that go with a copy


class StateCopy(NamedTuple):
    """What one member had before a step.

    Attributes:
        moment: when that was.
        writers: the members whose copies make the whole state.
        ranges: the bytes of the parameters that the member updates.
        requests: what is asked of the training, from the coordinator.
        sizes: bytes of the parts of `data`: the ranges of the parameters and of each
            slot; the newest rows of its steps; those of its measures; what its step
            function keeps.
        arena: where `data` is, if another process of this host may look into it.
    """

    moment: CopyPoint
    member: int
    writers: tuple[int, ...]
    ranges: tuple[Range, ...]
    requests: dict[str, Any]
    sizes: tuple[int, ...]
    data: Any
    arena: Arena | None = None

    @property
    def parts(self) -> tuple[Any, ...]:
        """The parts of the data, as in `sizes`."""
        view, ends = memoryview(self.data), [0, *accumulate(self.sizes)]
        return tuple(view[lo:hi] for lo, hi in pairwise(ends))

    @property
    def told(self) -> ToldRows:
        """What the member had recorded."""
        return ToldRows(*self.parts[1:3])

    @property
    def kept(self) -> Any:
        """What the member's step function keeps, packed."""
        return self.parts[3]

    def about(self) -> dict[str, Any]:
        """Return all but the memory, as JSON can carry it."""
        ranges = [[part.lo, part.hi] for part in self.ranges]
        names = "moment", "writers", "sizes"
        lists = {name: list(getattr(self, name)) for name in names}
        found = {**self._asdict(), **lists, "ranges": ranges}
        del found["data"], found["arena"]
        return found

    @classmethod
    def from_plain(cls, about: dict[str, Any], data: Any) -> StateCopy:
        """Rebuild it from `about` and the data."""
        ranges = tuple(Range(lo, hi) for lo, hi in about["ranges"])
        given = {**about, "ranges": ranges, "moment": CopyPoint(*about["moment"])}
        given |= {name: tuple(about[name]) for name in ("writers", "sizes")}
        return cls(**given, data=data)


class ToldRows(NamedTuple):
    """What a member has recorded lately of its steps, packed.

    Nobody may have read it yet. It is in the copies, so that a loss does not leave a
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


class Beginning(NamedTuple):
    """With what a member begins in a generation.

    Attributes:
        step: before which step all begin.
        requests: what is asked of the training, for the coordinator's member; for all
            others it is empty.
        copies: yields copies of the state before `step`, the member's own first. It may
            have to fetch one, and raises what that does.
        told: what the member has recorded in another process.
        kept: what its step function keeps, packed.
    """

    step: int
    requests: dict[str, Any]
    copies: Callable[[], Iterator[StateCopy]]
    told: ToldRows | None = None
    kept: Any = b""


class Copies:
    """The copies that a process holds. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._held: dict[tuple[CopyPoint, int], StateCopy] = {}
        self._guard = threading.Lock()

    def keep(self, copy: StateCopy) -> None:
        """Keep a copy, and let go of all but the two newest of its member."""
        with self._guard:
            self._held[copy.moment, copy.member] = copy
            moments = sorted(made for made, one in self._held if one == copy.member)
            for made in moments[:-N_KEPT]:
                del self._held[made, copy.member]

    def drop_after(self, step: int) -> None:
        """Let go of the copies of later steps, which will be done again.

        They would count as newer than the copies that follow, and push those out.
        """
        with self._guard:
            for key in [key for key in self._held if key[0].step > step]:
                del self._held[key]

    def held(self) -> list[Held]:
        """Return what there is."""
        with self._guard:
            return [
                Held(one.moment, one.member, one.writers) for one in self._held.values()
            ]

    def find(self, moment: CopyPoint, member: int) -> StateCopy:
        """Return a copy; `KeyError` if it is not here."""
        with self._guard:
            return self._held[moment, member]


def read_own(
    memory: Memory,
    now: int,
    n_slots: int,
    own: Sequence[Range],
    copies: Iterator[StateCopy],
) -> None:
    """Write parameters and slots of some ranges into a member's memory.

    `now` is the physical region of the parameters. Takes no more copies than it needs;
    raises `InternalError` if all of them do not cover the ranges.
    """
    # The member's own copy comes first and mostly holds all of it: the others, which
    # may have to be fetched from other processes, are then not asked for.
    missing = sum(part.size for part in own)
    while missing:
        copy = next(copies, None)
        if copy is None:
            raise InternalError(f"no copy has {missing} bytes of the parameters.")
        shared = [
            (at - part.lo, both)
            for at, part in zip(_places(copy.ranges), copy.ranges, strict=True)
            for both in (intersect(part, mine) for mine in own)
            if both
        ]
        data, size = memoryview(copy.parts[0]), sum(map(OwnState.stride, copy.ranges))
        for number in range(1 + n_slots if shared else 0):
            region = SLOT + number - 1 if number else now
            for offset, both in shared:
                begin = number * size + offset + both.lo
                memory.raw(region, both)[:] = data[begin : begin + both.size]
        missing -= sum(both.size for _, both in shared)


def _places(ranges: Iterable[Range]) -> list[int]:
    """Return where the ranges of a region begin in a copy of them."""
    return [0, *accumulate(map(OwnState.stride, ranges))][:-1]


def put_together(
    layout: Layout, slots: Sequence[str], copies: Iterable[StateCopy]
) -> dict[str, Array]:
    """Return parameters and slots by name, as a checkpoint has them."""
    n_regions = 1 + len(slots)
    flat = [np.zeros(layout.n_bytes, np.uint8) for _ in range(n_regions)]
    for copy in copies:
        data, at = np.frombuffer(copy.parts[0], np.uint8), 0
        for region in flat:
            for part in copy.ranges:
                region[part.lo : part.hi] = data[at : at + part.size]
                at += OwnState.stride(part)
    return {
        f"{leaf.spec.name}/{slot}" if slot else leaf.spec.name: region[
            leaf.range.lo : leaf.range.hi
        ]
        .view(leaf.spec.dtype)
        .reshape(leaf.spec.shape)
        for slot, region in zip(("", *slots), flat, strict=True)
        for leaf in layout.leaves
    }
