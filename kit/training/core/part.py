"""A member's part in an epoch: how it carries out each phase of its steps.

Theory of operation. A loop (`kit.training.core.loops`) says which phase is next, by a
method of the part, which does it with the member's memory, links and meter. What a part
keeps between two phases belongs to the step under way: when it began, how long it
computed. There is a kind of part for each way to make a step: together (below,
and `compressed_steps` for gradients that are compressed), or at the pace of each worker
(`served_steps`). A replay takes the same parts, over links that hold their messages.
`StepEvents` begins, commits and ends each step, and calls its callbacks in turn: hooks,
sinks of snapshots, the measures.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from kit.exchange.execution.program import Program
from kit.exchange.plan import Owned, Plan
from kit.exchange.ports.port import NO_HALT
from kit.trace.traffic import MOST_NAMES, Phase, StepRow
from kit.training.core.context import MemberContext
from kit.training.core.coordinator import TrainingCoordinator
from kit.training.core.loops import Loop, in_step, live
from kit.training.worker.worker import TrainingWorker

# --------------------------------------------------------------------------------------
# What happens around a member's steps, and what is notified of it.


_LOG = logging.getLogger("kit.training")


class StepCallback:
    """Is notified around the steps of one member; by itself it does nothing.

    It is called in the thread of the steps, which wait for it. What it raises ends the
    training.
    """

    def adopted(self, owners: Sequence[Owned], step: int, synchronous: bool) -> None:
        """Take note of a new epoch, whose first step is `step`."""

    def before(self, step: int) -> None:
        """Take note of a step that is about to begin."""

    def committed(self, step: int) -> None:
        """Take note that the parameters are now those after `step` steps."""

    def after(self, step: int, loss: float) -> None:
        """Take note of a step that is done, and counts."""


class MeasuresToMeter(StepCallback):
    """Gives the meter what a worker's steps measure besides their loss."""

    def __init__(self, context: MemberContext, worker: TrainingWorker) -> None:
        self._context, self._worker = context, worker
        self._has_warned = False

    def after(self, step: int, loss: float) -> None:
        """See `StepCallback`."""
        measures, examples = self._worker.measured()
        left_out = measures and self._context.measured(step, measures, examples)
        if left_out and not self._has_warned:
            self._has_warned = True
            _LOG.warning(
                "%s has measured numbers by %d names; %r and those by further names "
                "are not recorded. Let step() give the same few names in each step.",
                self._context.task,
                MOST_NAMES,
                left_out,
            )


class StepEvents:
    """Begins, commits and ends a member's steps, and notifies its callbacks in turn."""

    def __init__(
        self, context: MemberContext, callbacks: Sequence[StepCallback]
    ) -> None:
        self._context, self._callbacks = context, tuple(callbacks)

    def add(self, callback: StepCallback) -> None:
        """Notify one more callback from now on; from any thread."""
        self._callbacks = (*self._callbacks, callback)

    def adopted(self, owners: Sequence[Owned], step: int, synchronous: bool) -> None:
        """Notify the callbacks that an epoch has begun."""
        for callback in self._callbacks:
            callback.adopted(owners, step, synchronous)

    def begin(self, step: int) -> None:
        """Begin a step."""
        for callback in self._callbacks:
            callback.before(step)
        self._context.reach("step.begun", step)

    def commit(self, step: int) -> None:
        """Make NEXT the parameters; `step` is the number of steps that are done."""
        context = self._context
        stamp, synchronous = context.endpoint.stamp, context.schedule.in_step
        # The old parameters, after the step has used them: damage done to them since
        # they became the parameters is found too.
        if synchronous and context.digests.is_due(context.step):
            context.digests.note(context.step, context.now)
        stamp.parity ^= 1
        context.step = step
        for callback in self._callbacks:
            callback.committed(step)
        watched = context.history.is_on and synchronous
        if watched and context.me in context.job.workers:
            digest = hashlib.sha256(context.parameters()).hexdigest()[:16]
            about = {"step": step - 1, "epoch": stamp.epoch, "digest": digest}
            context.history.note("step", **about)

    def end(self, step: int, loss: float | None) -> None:
        """End a committed step; no loss: it did not count."""
        self._context.reach("step.done", step)
        if loss is not None:
            for callback in self._callbacks:
                callback.after(step, loss)


# --------------------------------------------------------------------------------------
# What all parts have in common.


@dataclass(frozen=True)
class PartRole:
    """Whose part it is in an epoch, and what there is to carry it out.

    `coordinator` is there in the coordinator's task alone, which may ask for a halt.
    `beside`: what is ready may be exchanged by a thread of its own.
    """

    context: MemberContext
    events: StepEvents
    plan: Plan
    worker: TrainingWorker | None = None  # what a worker computes with
    coordinator: TrainingCoordinator | None = None
    beside: bool = True


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
        live(self.loop(step))

    def close(self) -> None:
        """End what was started; here nothing."""

    def check(self) -> None:
        """Raise what the training has failed with, if it has."""
        self._context.endpoint.check()

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


# --------------------------------------------------------------------------------------
# Synchronous steps: all members of the plan do the same numbered step together.
#
# A worker computes its share, then everybody exchanges by the topology's plan and
# commits. A halt travels with the messages of a step, so all members learn of it in
# time and leave their loops before the same step (`Stamp.halt`). Where a worker's
# gradients come one by one, a second thread exchanges those that are ready while the
# rest is computed (`Overlap`); then the phase of the exchange only waits for it. What
# is put into place before an exchange, and taken after it, stands in methods of its
# own: a replay lets all messages arrive in between.


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


class SyncServer(MemberPart):
    """A parameter server: it takes, adds, updates and hands out."""

    def __init__(self, role: PartRole) -> None:
        super().__init__(role)
        context, payload = role.context, role.context.job.payload
        plan, update = payload.woven(role.plan), payload.update()
        self._program = context.program(plan, update, expects=True)
        self.steps, self.stamp = context.job.steps, context.endpoint.stamp
        self._ahead = 1  # how many steps before a halt it is announced

    def loop(self, step: int) -> Loop:
        """See `MemberPart`."""
        if self._coordinator is not None:
            self._ahead = self._coordinator.ahead
        return in_step(self, step)

    def begin(self, step: int) -> bool:
        """See `MemberPart`."""
        stamp = self.stamp
        # Asked before this member contributes to the step: the halt then travels with
        # the step, and nobody can be past it. Asked for one halt at a time: the answer
        # takes up what is due, and what is due at a later step must not be taken up at
        # this one.
        if stamp.halt == NO_HALT and self._wants_halt(step + self._ahead - 1):
            stamp.halt = step + self._ahead
        return super().begin(step)

    def calculate(self, step: int) -> float:
        """Compute nothing."""
        return float("nan")

    def exchange(self, step: int) -> None:
        """Carry out the plan; then NEXT is complete."""
        self.offer(step, 0)
        if self._context.crash is None:
            self._program.step()
        else:  # there is a point to stop within
            for bucket in range(self._program.n_buckets):
                self._program.reduce(bucket)
            self._context.reach("exchange.reduced", step)
            self._program.finish()
        self.take(step, 0)

    def offer(self, step: int, stage: int) -> None:
        """Put what is exchanged in a stage into its place; here it is there."""

    def take(self, step: int, stage: int) -> None:
        """Go on from what the exchange of a stage has left; here nothing is to do."""

    def commit(self, number: int, done: int, loss: float) -> None:
        """End the step: the next parameters hold."""
        self._context.reach("exchange.done", number)
        self._note(number, loss, self._program.waited_ns)
        self._events.commit(done)
        self._events.end(number, loss)


class SyncWorker(SyncServer):
    """A worker: it computes its gradients, then does its part of the exchange."""

    def __init__(self, role: PartRole) -> None:
        super().__init__(role)
        assert role.worker is not None, "only a worker computes"
        self._worker, self._beside = role.worker, role.beside
        self._n_mixed = 0  # of how many workers it takes the mean; 0 where all agree
        context, topology = role.context, role.context.topology
        if topology is not None and not topology.agrees:
            group = context.job.group
            self._n_mixed = len(topology.neighbourhood(group, context.me))
        self._overlap: Overlap | None = None
        self._overlaps = False

    def close(self) -> None:
        """End the exchange thread, if there is one."""
        if self._overlap is not None:
            self._overlap.close()
            self._overlap = None

    def calculate(self, step: int) -> float:
        """Compute the gradients; some may be exchanged meanwhile."""
        self._overlaps = False
        return MemberPart.calculate(self, step)

    def _share(self, step: int) -> tuple[float, int]:
        return self._worker.compute(step, self._ready)

    def exchange(self, step: int) -> None:
        """Carry out the plan, or what the other thread has left of it."""
        if not self._overlaps or self._overlap is None:
            super().exchange(step)
            return
        context = self._context
        # What the exchange thread waited while we computed cost no time.
        self._overlap.finish()
        waited = context.endpoint.clock()
        context.meter.span(Phase.WAIT, step, self._computed, waited)
        self._program.waited_ns = waited - self._computed
        context.reach("exchange.reduced", step)
        self._program.finish()
        self.take(step, 0)

    def take(self, step: int, stage: int) -> None:
        """Take the mean, where each worker goes on from one of its own."""
        if self._n_mixed:
            self._worker.take_mean(self._n_mixed)

    def _ready(self, bucket: int) -> None:
        if not self._beside:
            return
        if self._overlap is None:
            name = f"kit-exchange-{self._context.task.short}"
            program = self._program
            self._overlap = Overlap(program.reduce, program.n_buckets, name)
        self._overlaps = True
        self._overlap.ready(bucket)
