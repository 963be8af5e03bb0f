"""Steps with compressed gradients: sums of what the compressor gives, stage by stage.

Theory of operation. Servers add and hand out, as always. Each worker decodes the same
sums and updates all parameters by itself; so nothing but what is compressed travels, in
either direction. The plan has a bucket for each stage. Before it the worker puts there
what its compressor gives, and after it the compressor is told the sums, which it may
need for what it gives next. After the last stage the mean of all workers' gradients is
where ours were, and the update is made of it. To compress counts as computing.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial

from kit.exchange.compression.compressor import Arrays, Turn
from kit.exchange.compression.feedback import Feedback, StageSums, following, put
from kit.exchange.layout import Range
from kit.exchange.plan import GRAD, NEXT, Apply, Plan
from kit.trace.traffic import Phase
from kit.training.core.part import PartRole, SyncWorker
from kit.training.optimizers.rule import MeanUpdate, updated_ranges


class CompressedWorker(SyncWorker):
    """A worker: it computes its gradients, sends them compressed, and updates all."""

    def __init__(self, role: PartRole) -> None:
        # Not beside the computation: a compressor needs all gradients.
        super().__init__(replace(role, beside=False))
        context, job = role.context, role.context.job
        compressor = self._worker.compressor
        assert compressor is not None, "the terms of all workers are the same"
        self._feedback = Feedback(
            deepcopy(compressor),
            job.specs,
            job.stage_specs,
            context.compression,
            str(context.task),
        )
        update = Plan((), tuple(map(Apply, updated_ranges(job.optimizer, job.layout))))
        self._update = context.program(update, MeanUpdate(job.optimizer, 1))
        self._stages: StageSums | None = None
        self._arrays: Arrays | None = {}

    def exchange(self, step: int) -> None:
        """Exchange stage by stage, and update."""
        for stage in range(len(self._context.job.payload.stages)):
            self.offer(step, stage)
            self._program.reduce(stage)
            self._program.finish()  # all of it has left
            self.take(step, stage)

    def offer(self, step: int, stage: int) -> None:
        """Put what the compressor gives into its place."""
        context, stamp = self._context, self._context.endpoint.stamp
        if stage == 0:
            turn = Turn(step, self._worker.rank, len(context.job.workers))
            stages = self._feedback.exchange(self._gradients, turn)
            self._stages = stages
            self._arrays = self._timed(step, lambda: next(stages))
        assert self._arrays is not None, "each stage has arrays"
        put(self._arrays, context.memory.stage(stamp.where(GRAD), stage))

    def take(self, step: int, stage: int) -> None:
        """Give the compressor the sums; after the last stage, update."""
        context = self._context
        assert self._stages is not None, "the first stage was offered"
        sums = context.memory.stage(context.endpoint.stamp.where(NEXT), stage)
        self._arrays = self._timed(step, partial(following, self._stages, sums))
        if stage + 1 < len(context.job.payload.stages):
            return
        context.reach("exchange.reduced", step)
        if self._arrays is None:
            memory, stamp = context.memory, context.endpoint.stamp
            whole = Range(0, context.job.layout.n_bytes)
            memory.raw(stamp.where(NEXT), whole)[:] = memory.raw(context.now, whole)
            return
        put(self._arrays, self._gradients)
        self._update.finish()

    @property
    def _gradients(self) -> Arrays:
        context = self._context
        return context.memory.leaves(context.endpoint.stamp.where(GRAD))

    def _timed(self, step: int, call: Callable[[], Arrays | None]) -> Arrays | None:
        """Note what it takes to compress and to decode as computing."""
        clock = self._context.endpoint.clock
        begin = clock()
        value = call()
        end = clock()
        self._context.meter.span(Phase.COMPUTE, step, begin, end)
        self._computed_ns += end - begin
        return value
