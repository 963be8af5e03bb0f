"""Plans bound to the memory of a GPU; messages go through the host's memory.

    GPU   GRAD ──read──┐        ┌──fill── what has come, GRAD += it, NEXT, ...
    host               ▼        ▼
          own regions, which neighbours read        theirs, as the port shows them

A range is copied to the host just before it is announced, and to the GPU as soon as it
has come; both copies are complete before the next operation. So the host's memory is
what a neighbour sees, on whatever it computes, and each byte travels and is counted as
between workers without a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np

from kit.exchange.execution.bound_operations import Binder, BoundOp, BoundUpdate, Post
from kit.exchange.layout import Range
from kit.exchange.plan import SELF, Op, Receive, Send, Term
from kit.exchange.ports.memory import Array, is_apart
from kit.trace.traffic import Phase
from kit.training.features.on_gpu.memory import GpuMemory


class GpuBinder(Binder):
    """Looks up arrays of a GPU, and adds what moves them through the host."""

    is_native = False

    def bind(self, op: Op, parity: int) -> Iterator[BoundOp]:
        """See `Binder`."""
        yield from super().bind(op, parity)
        if isinstance(op, Receive) and op.range.size:
            region = self.endpoint.stamp.at(op.region, parity)
            is_separate = self._is_separate(op.source, op.region, op.range)
            port = self.endpoint.ports[op.source]
            come = port.window(region, op.range, apart=is_separate)
            term = Term(op.source, op.region)
            fill = partial(
                self._gpu_memory.gpu.fill, self._view(term, op.range, parity)
            )
            yield BoundUpdate(partial(fill, self._as(come, op.range)), Phase.RECEIVE)

    def _send(self, op: Send, parity: int) -> Iterator[BoundOp]:
        memory, part = self._gpu_memory, op.range
        region = self.endpoint.stamp.at(op.region, parity)
        if part.size:
            ends = memory.flat(region, part), memory.host.flat(region, part)
            yield BoundUpdate(partial(memory.gpu.read, *ends), Phase.SEND)
        yield Post(self.endpoint.ports[op.to], region, part)

    def _is_placed(self, source: Term, into: int, part: Range) -> bool:
        return False  # what need not be copied is at its place: the view shows that

    def _view(self, term: Term, part: Range, parity: int) -> Array:
        if term.member == SELF:
            return self._own(term.region, part, parity)
        ranges = self._ranges[term.member, term.region]
        come = next(r for r in ranges if r.lo <= part.lo and part.hi <= r.hi)
        if not self._is_separate(term.member, term.region, come):
            return self._own(term.region, part, parity)
        region = self.endpoint.stamp.at(term.region, parity)
        box = self._box(term.member, region, come)
        cut = box[part.lo - come.lo : part.hi - come.lo]
        return self._as(cut.view(self.memory.layout.dtype_at(part.lo)), part)

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
