"""A worker whose gradient counts if it is among the first of its step.

What it says and hears is described in `kit.training.backup_workers.server`.
"""

from __future__ import annotations

from kit.errors import InternalError
from kit.exchange.execution.program import Program
from kit.exchange.plan import Plan
from kit.exchange.ports.port import NO_HALT
from kit.trace.traffic import Phase
from kit.training.backup_workers.policy import answer_script, pulls, pushes
from kit.training.coordination.coordinator import TrainingCoordinator
from kit.training.member.context import MemberContext
from kit.training.member.step_events import Rounds, StepEvents
from kit.training.worker.worker import TrainingWorker


class QuorumWorker(Rounds):
    """A worker whose gradient counts if it is among the first."""

    def __init__(
        self,
        context: MemberContext,
        place: TrainingWorker,
        events: StepEvents,
        coordinator: TrainingCoordinator | None,
    ) -> None:
        super().__init__(context, events, coordinator)
        self._place = place
        first, *others = context.job.ps
        pushed = pushes(context.job, others), pushes(context.job, [first])
        plan = Plan(pushed, pulls(context.job, place.rank))
        self._program = Program(
            plan, context.endpoint, context.memory, context.meter, expects=False
        )

    def run(self, step: int) -> None:
        """Compute, push and pull until told to come to the boundary."""
        job, rank = self._context.job, self._place.rank
        scripts = {server: answer_script(job, server, rank) for server in job.ps}
        self._context.endpoint.expect(
            {ps: (one, one) for ps, one in scripts.items()}, 0
        )
        goes_on = step < job.steps
        while goes_on:
            self._context.endpoint.check()
            step, goes_on = self._step(step)

    def _step(self, step: int) -> tuple[int, bool]:
        """Do a step; returns which one is next, and whether to go on."""
        context, program = self._context, self._program
        endpoint = context.endpoint
        stamp, clock = endpoint.stamp, endpoint.clock
        program.waited_ns, stamp.step = 0, step
        begin = context.own_part.begin()
        stamp.halt = step + 1 if self._wants_halt(step) else NO_HALT
        self._events.begin(step)
        loss, examples = self._place.compute(step, lambda bucket: None)
        computed = context.own_part.end(step)
        context.reach("compute.done", step)
        program.reduce(0)
        endpoint.flush()
        program.reduce(1)
        done, goes_on = self._hear()
        waited = clock()
        context.meter.span(Phase.WAIT, step, computed, waited)
        context.reach("exchange.reduced", step)
        program.finish()
        following = step + 1 if done == step else done
        if done != step:  # it was late: nothing of it counts
            loss, examples = float("nan"), 0
        late = 0 if done == step else following - step
        times = begin, computed - begin, waited - computed + program.waited_ns
        self._note(step, loss, examples, *times, staleness=late)
        context.reach("exchange.done", step)
        self._events.commit(following)
        self._events.end(step, loss if done == step else None)
        return following, goes_on

    def _hear(self) -> tuple[int, bool]:
        """Take the notes of all servers: the step they answer, whether to go on."""
        endpoint = self._context.endpoint
        notes = [endpoint.receive(endpoint.ports[ps], 0) for ps in self._context.job.ps]
        found = {(note.step, note.halt == NO_HALT) for note in notes}
        if len(found) > 1:
            raise InternalError(f"the servers do not agree on a step: {sorted(found)}.")
        return found.pop()
