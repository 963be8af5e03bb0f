"""Plans bound to the memory of a GPU.

Where a neighbour's memory is open (`neighbours`), a range is announced once the GPU has
computed it, and read in place. All that was to be read before has been read by then: so
reads and writes come in the order of the plan, as in memory that hosts share. Elsewhere
a range goes through the memory of the host:

    GPU   GRAD ──read──┐        ┌──fill── what has come, GRAD += it, NEXT, ...
    host               ▼        ▼
          own regions, which neighbours read        theirs, as the port shows them

It is copied to the host just before it is announced, and to the GPU as soon as it has
come; both copies are complete before the next operation. So the host's memory is what a
neighbour sees, on whatever it computes. Either way each byte travels and is counted as
between workers without a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np

from kit.exchange.execution.bound_operations import (
    Binder,
    BoundOp,
    BoundUpdate,
    Post,
    Update,
)
from kit.exchange.layout import Range
from kit.exchange.plan import NEXT, SELF, Op, Receive, Send, Term
from kit.exchange.ports.memory import Array, is_apart
from kit.trace.traffic import Phase
from kit.training.features.on_gpu.fused import fused
from kit.training.features.on_gpu.memory import GpuMemory


class GpuBinder(Binder):
    """Looks up arrays of a GPU, and adds what moves them through the host."""

    is_native = False

    def bind(self, op: Op, parity: int) -> Iterator[BoundOp]:
        """See `Binder`."""
        yield from super().bind(op, parity)
        if not isinstance(op, Receive) or not op.range.size:
            return
        if self._is_open(op.source, op.region):
            return
        memory, part = self._gpu_memory, op.range
        port, region = self.endpoint.ports[op.source], self._at(op.region, parity)
        is_separate = self._is_separate(op.source, op.region, part)
        window = partial(port.window, region, separate=is_separate)
        memory.pin(window)
        there = self._view(Term(op.source, op.region), part, parity)
        fill = partial(memory.gpu.fill, there, self._as(window(part), part))
        yield BoundUpdate(fill, Phase.RECEIVE)

    def _send(self, op: Send, parity: int) -> Iterator[BoundOp]:
        memory, part = self._gpu_memory, op.range
        region = self._at(op.region, parity)
        if part.size and not self._is_open(op.to, op.region):
            memory.pin(partial(memory.host.flat, region))
            ends = memory.flat(region, part), memory.host.flat(region, part)
            yield BoundUpdate(partial(memory.gpu.read, *ends), Phase.SEND)
        else:
            yield BoundUpdate(memory.gpu.wait, Phase.SEND)
        yield Post(self.endpoint.ports[op.to], region, part)

    def _update_of(self, part: Range) -> Update:
        dtype = np.dtype(self.memory.layout.dtype_at(part.lo))
        return fused(super()._update_of(part), dtype, self._gpu_memory.gpu.module)

    def _is_placed(self, source: Term, into: int, part: Range) -> bool:
        return False  # what need not be copied is at its place: the view shows that

    def _view(self, term: Term, part: Range, parity: int) -> Array:
        if term.member == SELF:
            return self._own(term.region, part, parity)
        dtype = self.memory.layout.dtype_at(part.lo)
        if self._is_open(term.member, term.region):
            regions = self._gpu_memory.opened[term.member]
            theirs = regions[self._at(term.region, parity)]
            return self._as(theirs[part.lo : part.hi].view(dtype), part)
        ranges = self._ranges[term.member, term.region]
        come = next(r for r in ranges if r.lo <= part.lo and part.hi <= r.hi)
        if not self._is_separate(term.member, term.region, come):
            return self._own(term.region, part, parity)
        box = self._box(term.member, self._at(term.region, parity), come)
        cut = box[part.lo - come.lo : part.hi - come.lo]
        return self._as(cut.view(dtype), part)

    def _at(self, region: int, parity: int) -> int:
        return self.endpoint.stamp.at(region, parity)

    def _is_open(self, member: int, region: int) -> bool:
        """Whether a member reads this region of ours in place, and we read its."""
        return region <= NEXT and member in self._gpu_memory.opened

    def _is_separate(self, source: int, region: int, part: Range) -> bool:
        """Whether what comes is kept apart from our own range of that name."""
        return is_apart(region) and (source, region, part) not in self._finals

    def _box(self, source: int, region: int, part: Range) -> Any:
        key = source, region, part
        if key not in self._boxes:
            empty = self._gpu_memory.gpu.module.empty
            self._boxes[key] = empty(part.size, np.uint8)
        return self._boxes[key]

    @cached_property
    def _boxes(self) -> dict[tuple[int, int, Range], Any]:
        return {}

    @cached_property
    def _ranges(self) -> dict[tuple[int, int], list[Range]]:
        """What comes, by source and region."""
        ranges: dict[tuple[int, int], list[Range]] = {}
        for op in self.plan.ops:
            if isinstance(op, Receive):
                ranges.setdefault((op.source, op.region), []).append(op.range)
        return ranges

    @property
    def _gpu_memory(self) -> GpuMemory:
        assert isinstance(self.memory, GpuMemory), "a workplace gives both"
        return self.memory
