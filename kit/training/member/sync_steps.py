"""Synchronous steps: all members of the plan do the same numbered step together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from kit.exchange.execution.program import Program
from kit.exchange.ports.port import NO_HALT
from kit.trace.traffic import Phase
from kit.training.coordination.coordinator import TrainingCoordinator
from kit.training.member.context import MemberContext
from kit.training.member.step_events import Rounds, StepEvents
from kit.training.worker.worker import TrainingWorker

# --------------------------------------------------------------------------------------
# Exchange what is ready beside the rest of the computation.
#
# A second thread sums up buckets in their order, as they become ready, while the
# worker's thread computes: numpy releases the interpreter during both.


class Overlap:
    """Runs `reduce(bucket)` for one bucket after the other, as they are ready."""

    def __init__(
        self, reduce: Callable[[int], None], n_buckets: int, name: str
    ) -> None:
        self._reduce, self._n_buckets = reduce, n_buckets
        self._ready: SimpleQueue[int | None] = SimpleQueue()
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def ready(self, bucket: int) -> None:
        """Say that a bucket's gradients are complete."""
        self._ready.put(bucket)

    def finish(self) -> None:
        """Wait until all buckets of the step are summed up; raises what failed."""
        # The thread gives up by itself: each of its waits has the deadline of a step,
        # and names the peer. All together may take longer, as without this thread.
        self._done.wait()
        self._done.clear()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread; a wait inside it must have been aborted before."""
        self._ready.put(None)
        self._thread.join()

    def _run(self) -> None:
        waiting: set[int] = set()
        following = 0
        while (bucket := self._ready.get()) is not None:
            waiting.add(bucket)
            try:
                # In their order, whatever order the step function completes them in:
                # all members must exchange the same bucket next, or two would wait for
                # each other.
                while following in waiting:
                    waiting.discard(following)
                    self._reduce(following)
                    following += 1
            except BaseException as error:
                self._error = error  # raised by `finish`, in the thread of the steps
                self._done.set()
                return
            if following == self._n_buckets:
                following = 0
                self._done.set()


class SyncServer(Rounds):
    """A parameter server: it takes, adds, updates and hands out."""

    def __init__(
        self,
        context: MemberContext,
        program: Program,
        events: StepEvents,
        coordinator: TrainingCoordinator | None,
    ) -> None:
        super().__init__(context, events, coordinator)
        self._program = program

    def run(self, step: int) -> None:
        """Do steps until a halt or the end of the training."""
        context, stamp = self._context, self._context.endpoint.stamp
        coordinator = self._coordinator
        ahead = coordinator.halts.ahead if coordinator is not None else 1
        while step < context.job.steps and step < stamp.halt:
            # An abort ends waits, and where all are on time there are none.
            context.endpoint.check()
            # Asked before this member contributes to the step: the halt then travels
            # with the step, and nobody can be past it. Asked for one halt at a time:
            # the answer takes up what is due, and what is due at a later step must not
            # be taken up at this one.
            if stamp.halt == NO_HALT and self._wants_halt(step + ahead - 1):
                stamp.halt = step + ahead
            stamp.step = step
            begin, self._program.waited_ns = context.endpoint.clock(), 0
            self._events.begin(step)
            loss, examples, computed = self._work(step)
            context.reach("exchange.done", step)
            waited = self._program.waited_ns
            self._note(step, loss, examples, begin, computed, waited)
            step += 1
            self._events.commit(step)
            self._events.end(step - 1, loss)

    def _work(self, step: int) -> tuple[float, int, int]:
        """Return loss, number of examples and nanoseconds of computation."""
        if not self._context.job.crash:
            self._program.step()
        else:  # there is a point to stop within
            for bucket in range(self._program.n_buckets):
                self._program.reduce(bucket)
            self._context.reach("exchange.reduced", step)
            self._program.finish()
        return float("nan"), 0, 0


class SyncWorker(SyncServer):
    """A worker: it computes its gradients, then does its part of the exchange."""

    def __init__(
        self,
        context: MemberContext,
        program: Program,
        place: TrainingWorker,
        events: StepEvents,
        coordinator: TrainingCoordinator | None,
        n_mixed: int = 0,
    ) -> None:
        """`n_mixed`: of how many workers each takes the mean; 0 where all agree."""
        super().__init__(context, program, events, coordinator)
        self._place, self._n_mixed = place, n_mixed
        self._overlap: Overlap | None = None
        self._overlaps = False

    def close(self) -> None:
        """End the exchange thread, if there is one."""
        if self._overlap is not None:
            self._overlap.close()
            self._overlap = None

    def _work(self, step: int) -> tuple[float, int, int]:
        context, clock = self._context, self._context.endpoint.clock
        begin = context.own_part.begin()
        self._overlaps = False
        loss, examples = self._place.compute(step, self._ready)
        computed = context.own_part.end(step)
        context.reach("compute.done", step)
        if self._overlaps and self._overlap is not None:
            # What the exchange thread waited while we computed cost no time.
            self._overlap.finish()
            waited = clock()
            context.meter.span(Phase.WAIT, step, computed, waited)
            self._program.waited_ns = waited - computed
            context.reach("exchange.reduced", step)
            self._program.finish()
        else:
            super()._work(step)
        if self._n_mixed:
            self._place.take_mean(self._n_mixed)
        return loss, examples, computed - begin

    def _ready(self, bucket: int) -> None:
        if self._overlap is None:
            name = f"kit-exchange-{self._context.task.short}"
            program = self._program
            self._overlap = Overlap(program.reduce, program.n_buckets, name)
        self._overlaps = True
        self._overlap.ready(bucket)
