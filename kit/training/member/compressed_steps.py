"""Steps with compressed gradients: sums of what the compressor gives, stage by stage.

Servers add and hand out, as always. Each worker decodes the same sums and updates all
parameters by itself; so nothing but what is compressed travels, in either direction.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial

from kit.exchange.compression.compressor import Arrays, Compressor, Turn
from kit.exchange.compression.feedback import Feedback, following, put
from kit.exchange.compression.stages import hand_out
from kit.exchange.execution.program import Program
from kit.exchange.plan import GRAD, NEXT, Apply, Plan
from kit.trace.traffic import Phase
from kit.training.coordination.coordinator import TrainingCoordinator
from kit.training.member.context import MemberContext
from kit.training.member.step_events import StepEvents
from kit.training.member.sync_steps import SyncServer
from kit.training.optimizers.rule import MeanUpdate
from kit.training.worker.worker import TrainingWorker


def stage_program(context: MemberContext, plan: Plan) -> Program:
    """Bind a plan for stages: to update is to hand out the sums."""
    parts = context.endpoint, context.memory, context.meter
    return Program(plan, *parts, update=hand_out)


class CompressedWorker(SyncServer):
    """A worker: it computes its gradients, sends them compressed, and updates all."""

    def __init__(
        self,
        context: MemberContext,
        plan: Plan,
        place: TrainingWorker,
        compressor: Compressor,
        events: StepEvents,
        coordinator: TrainingCoordinator | None,
    ) -> None:
        super().__init__(context, stage_program(context, plan), events, coordinator)
        job = context.job
        self._place = place
        self._feedback = Feedback(
            *(deepcopy(compressor), job.specs, job.stage_specs, context.compression),
            str(context.task),
        )
        self._update = Program(
            Plan((), tuple(Apply(bucket.range) for bucket in job.layout.buckets)),
            *(context.endpoint, context.memory, context.meter),
            update=MeanUpdate(job.optimizer, 1),
            n_slots=len(job.slots),
            expects=False,
        )
        self._encoded_ns = 0

    def _work(self, step: int) -> tuple[float, int, int]:
        context = self._context
        begin = context.own_part.begin()
        loss, examples = self._place.compute(step, lambda bucket: None)
        computed = context.own_part.end(step)
        context.reach("compute.done", step)
        self._encoded_ns = 0
        self._exchange(step)
        context.reach("exchange.reduced", step)
        self._update.finish()
        return loss, examples, computed - begin + self._encoded_ns

    def _exchange(self, step: int) -> None:
        """Put the mean of all workers' gradients where ours were."""
        context, stamp = self._context, self._context.endpoint.stamp
        gradients = context.memory.leaves(stamp.where(GRAD))
        turn = Turn(step, self._place.rank, len(context.job.workers))
        stages = self._feedback.exchange(gradients, turn)
        given = self._timed(step, lambda: next(stages))
        for number in range(len(context.job.stages)):
            put(given, context.memory.stage(stamp.where(GRAD), number))
            self._program.reduce(number)
            self._program.finish()  # all of it has left
            sums = context.memory.stage(stamp.where(NEXT), number)
            given = self._timed(step, partial(following, stages, sums))
        put(given, gradients)

    def _timed(self, step: int, call: Callable[[], Arrays]) -> Arrays:
        """Note what it takes to compress and to decode as computing."""
        clock = self._context.endpoint.clock
        begin = clock()
        found = call()
        end = clock()
        self._context.meter.span(Phase.COMPUTE, step, begin, end)
        self._encoded_ns += end - begin
        return found
