"""A member's part in an epoch: how it carries out each phase of its steps.

Theory of operation. A loop (`kit.training.core.loops`) says which phase is next; the
method of that name does it, with the member's memory, links and meter. What a part
keeps between two phases belongs to the step under way: when it began, how long it
computed. There is a kind of part for each way to make a step: together (`sync_steps`,
and `compressed_steps` for gradients that are compressed), or at the pace of each worker
(`served_steps`). A replay takes the same parts, over links that hold their messages.
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.exchange.execution.program import Program
from kit.exchange.plan import Plan
from kit.trace.traffic import StepRow
from kit.training.core.context import MemberContext
from kit.training.core.coordinator import TrainingCoordinator
from kit.training.core.loops import Loop, live
from kit.training.core.step_events import StepEvents
from kit.training.worker.worker import TrainingWorker


@dataclass(frozen=True)
class PartRole:
    """Whose part it is in an epoch, and what there is to carry it out.

    `coordinator` is there in the coordinator's task alone, which may ask for a halt.
    `beside`: what is ready may be exchanged by a thread of its own.
    """

    context: MemberContext
    events: StepEvents
    plan: Plan
    place: TrainingWorker | None = None  # a worker has one
    coordinator: TrainingCoordinator | None = None
    beside: bool = True

    @property
    def worker(self) -> TrainingWorker:
        """What a worker computes with."""
        assert self.place is not None, "only a worker computes"
        return self.place


class MemberPart:
    """What a member does between two boundaries: step after step, until a halt."""

    _program: Program

    def __init__(self, role: PartRole) -> None:
        self._context, self._events = role.context, role.events
        self._coordinator = role.coordinator
        # Of the step under way: when it began and had computed, and for how long.
        self._begun = self._computed = self._computed_ns = self._examples = 0

    def loop(self, step: int) -> Loop:
        """Return the phases from a step on."""
        raise NotImplementedError

    def run(self, step: int) -> None:
        """Do steps from number `step` on until a halt."""
        live(self, step, self._context.endpoint.check)

    def close(self) -> None:
        """End what was started; here nothing."""

    def begin(self, step: int) -> bool:
        """Begin a step; returns whether to come to the boundary instead."""
        endpoint = self._context.endpoint
        endpoint.stamp.step, self._program.waited_ns = step, 0
        self._begun = endpoint.clock()
        self._events.begin(step)
        return False

    def calculate(self, step: int) -> float:
        """Compute this member's share; returns the loss."""
        own_part = self._context.own_part
        begin = own_part.begin()
        loss, self._examples = self._share(step)
        self._computed = own_part.end(step)
        self._computed_ns = self._computed - begin
        self._context.reach("compute.done", step)
        return loss

    def _share(self, step: int) -> tuple[float, int]:
        """Compute; returns the loss, and of how many examples."""
        raise NotImplementedError

    def _wants_halt(self, step: int) -> bool:
        coordinator = self._coordinator
        return coordinator is not None and coordinator.wants_halt(step)

    def _note(self, step: int, loss: float, waited_ns: int, staleness: int = 0) -> None:
        """Record a step that ends now."""
        me, endpoint = self._context.me, self._context.endpoint
        about = me, step, endpoint.stamp.epoch, loss, self._examples
        times = self._begun, endpoint.clock(), self._computed_ns, waited_ns
        self._context.meter.stepped(StepRow(*about, *times, staleness))
