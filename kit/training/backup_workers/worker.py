"""A worker whose gradient counts if it is among the first of its step.

What it says and hears is told in `kit.training.backup_workers.server`.
"""

from __future__ import annotations

from kit.errors import InternalError
from kit.exchange.execution.program import Program
from kit.exchange.plan import Plan
from kit.exchange.ports.port import NO_HALT
from kit.trace.traffic import Phase, StepRow
from kit.training.backup_workers.policy import answer_script, pulls, pushes
from kit.training.member.context import MemberContext
from kit.training.worker.worker import TrainingWorker

_NAN = float("nan")


class QuorumWorker:
    """A worker whose gradient counts if it is among the first."""

    def __init__(self, part: MemberContext, place: TrainingWorker) -> None:
        """Bind the plan."""
        self._part, self._place = part, place
        first, *others = part.job.ps
        pushed = pushes(part.job, others), pushes(part.job, [first])
        plan = Plan(pushed, pulls(part.job, place.rank))
        self._program = Program(
            plan, part.endpoint, part.memory, part.meter, expects=False
        )

    def run(self, step: int) -> None:
        """Compute, push and pull until told to come to the boundary."""
        job, rank = self._part.job, self._place.rank
        scripts = {server: answer_script(job, server, rank) for server in job.ps}
        self._part.endpoint.expect({ps: (one, one) for ps, one in scripts.items()}, 0)
        goes_on = step < job.steps
        while goes_on:
            self._part.endpoint.check()
            step, goes_on = self._step(step)

    def close(self) -> None:
        """Nothing was started."""

    def _step(self, step: int) -> tuple[int, bool]:
        """Do a step; returns which one is next, and whether to go on."""
        part, endpoint, program = self._part, self._part.endpoint, self._program
        stamp, clock = endpoint.stamp, endpoint.clock
        begin, program.waited_ns, stamp.step = clock(), 0, step
        stamp.halt = step + 1 if self._is_wanted(step) else NO_HALT
        part.begin(step)
        loss, examples = self._place.compute(step, lambda bucket: None)
        computed = clock()
        part.meter.span(Phase.COMPUTE, step, begin, computed)
        part.reach("compute.done", step)
        program.reduce(0)
        endpoint.flush()
        program.reduce(1)
        done, goes_on = self._hear()
        waited = clock()
        part.meter.span(Phase.WAIT, step, computed, waited)
        part.reach("exchange.reduced", step)
        program.finish()
        following = step + 1 if done == step else done
        if done != step:  # it was late: nothing of it counts
            loss, examples = _NAN, 0
        wait = waited - computed + program.waited_ns
        row = (part.me, step, stamp.epoch, loss, examples, begin, clock())
        late = 0 if done == step else following - step
        part.meter.stepped(StepRow(*row, computed - begin, wait, late))
        part.reach("exchange.done", step)
        part.commit(following)
        part.end(step, loss if done == step else None)
        return following, goes_on

    def _is_wanted(self, step: int) -> bool:
        coordinator = self._part.coordinator
        return coordinator is not None and coordinator.wants_halt(step)

    def _hear(self) -> tuple[int, bool]:
        """Take the notes of all servers: the step they answer, whether to go on."""
        endpoint = self._part.endpoint
        notes = [endpoint.receive(endpoint.ports[ps], 0) for ps in self._part.job.ps]
        found = {(note.step, note.halt == NO_HALT) for note in notes}
        if len(found) > 1:
            raise InternalError(f"the servers do not agree on a step: {sorted(found)}.")
        return found.pop()
