"""A worker's place on a GPU of its host.

Between two boundaries parameters, gradients and slots are on the GPU alone. When steps
begin, parameters and slots are brought there from the host's memory, and when they end
they are brought back: switches, checkpoints and ends find them where they always are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kit.arrays import Gpu, gpu
from kit.exchange.plan import SLOT
from kit.training.core.workplace import Workplace
from kit.training.features.on_gpu.binder import GpuBinder
from kit.training.features.on_gpu.memory import GpuMemory
from kit.training.features.on_gpu.neighbours import Neighbours
from kit.training.features.on_gpu.own_steps import StepsOnGpu, taken_in

if TYPE_CHECKING:
    from kit.training.core.context import MemberContext


class GpuWorkplace(Workplace):
    """Memory of a GPU; see `Workplace`."""

    binder = GpuBinder
    may_overlap = False  # all work goes into one stream, in one order
    stays_bound = False  # to neighbours' memory, which is closed at each boundary
    memory: GpuMemory

    def __init__(self, context: MemberContext, gpu: Gpu) -> None:
        super().__init__(context)
        self._gpu, self.memory = gpu, GpuMemory(gpu, context.memory)

    @contextmanager
    def at_work(self, context: MemberContext) -> Iterator[None]:
        """See `Workplace`."""
        memory, slots = self.memory, range(SLOT, SLOT + len(context.job.slots))
        with self._gpu.entered():
            mine = (item for item in context.owners if context.me in item.members)
            memory.own(item.range for item in mine)
            memory.bring(context.now, slots)
            self.held = memory
            memory.opened = Neighbours(context, memory).meet()
            yield
            # After a failure they stay: the host has those of the last boundary.
            memory.give_back(context.now, slots)
            self.held = context.memory
            # Before the boundary, where all meet: memory that another process has
            # opened must not be freed.
            memory.close()

    def leave(self) -> bool:
        """See `Workplace`: the memory goes back, but for what the host lacks."""
        is_home = self.held is not self.memory
        self.memory.leave(everything=is_home)
        return is_home

    def take_in(self, batch: tuple[Any, ...]) -> tuple[Any, ...]:
        """See `Workplace`: arrays of numbers come to the GPU."""
        return taken_in(self._gpu, batch)


def workplace_of(context: MemberContext) -> Workplace:
    """Return a worker's place on the GPU of its number on its host.

    Raises `FailedPreconditionError` where there is none.
    """
    job, own = context.job, gpu(number_on_host(context))
    is_host = job.stays_on_host(job.schedule)
    return (StepsOnGpu if is_host else GpuWorkplace)(context, own)


def number_on_host(context: MemberContext) -> int:
    """Return how many workers of the same host come before this one."""
    job = context.job
    hosts = job.hosts or ("",) * len(job.tasks)
    mates = [n for n in job.workers if hosts[n] == hosts[context.me]]
    return mates.index(context.me)
