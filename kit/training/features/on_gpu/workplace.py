"""A worker's place on a GPU of its host.

Between two boundaries parameters, gradients and slots are on the GPU alone. When steps
begin, parameters and slots are brought there from the host's memory, and when they end
they are brought back: switches, checkpoints and ends find them where they always are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from kit.arrays import gpu
from kit.exchange.plan import SLOT
from kit.training.core.workplace import Workplace
from kit.training.features.on_gpu.binder import GpuBinder
from kit.training.features.on_gpu.memory import GpuMemory
from kit.training.features.on_gpu.neighbours import Neighbours

if TYPE_CHECKING:
    from kit.training.core.context import MemberContext


class GpuWorkplace(Workplace):
    """Memory of a GPU; see `Workplace`."""

    binder = GpuBinder
    may_overlap = False  # all work goes into one stream, in one order
    memory: GpuMemory

    def __init__(self, context: MemberContext) -> None:
        """Take the GPU of this worker's number on its host.

        Raises `FailedPreconditionError` where there is none.
        """
        super().__init__(context)
        self._has_met = False  # its neighbours of this epoch
        self._gpu = gpu(number_on_host(context))
        self.memory = GpuMemory(self._gpu, context.memory)

    @contextmanager
    def at_work(self, context: MemberContext) -> Iterator[None]:
        """See `Workplace`."""
        memory, slots = self.memory, range(SLOT, SLOT + len(context.job.slots))
        with self._gpu.entered():
            mine = (item for item in context.owners if context.me in item.members)
            memory.own(item.range for item in mine)
            memory.bring(context.now, slots)
            self.held = memory
            if not self._has_met:
                memory.opened = Neighbours(context, memory).meet()
                self._has_met = True
            yield
            # After a failure they stay: the host has those of the last boundary.
            memory.give_back(context.now, slots)
            self.held = context.memory

    def leave(self) -> None:
        """See `Workplace`."""
        self._has_met = False
        self.memory.leave()

    def take_in(self, batch: tuple[Any, ...]) -> tuple[Any, ...]:
        """See `Workplace`: arrays of numbers come to the GPU."""
        return tuple(
            self._gpu.put(part)
            if isinstance(part, np.ndarray) and part.dtype.kind in "biufc"
            else part
            for part in batch
        )


def number_on_host(context: MemberContext) -> int:
    """Return how many workers of the same host come before this one."""
    job = context.job
    hosts = job.hosts or ("",) * len(job.tasks)
    mates = [n for n in job.workers if hosts[n] == hosts[context.me]]
    return mates.index(context.me)
