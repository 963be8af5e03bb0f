"""What happens around a member's steps, and what is notified of it."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence

from kit.exchange.plan import Owned
from kit.trace.traffic import MOST_NAMES, MeasureRow, StepRow
from kit.training.coordination.coordinator import TrainingCoordinator
from kit.training.member.context import MemberContext
from kit.training.worker.worker import TrainingWorker

_LOG = logging.getLogger("kit.training")


class StepObserver:
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


class MeasureRecorder(StepObserver):
    """Records what a worker's steps give besides their loss."""

    def __init__(self, context: MemberContext, worker: TrainingWorker) -> None:
        self._context, self._worker = context, worker
        self._has_told = False

    def after(self, step: int, loss: float) -> None:
        """See `StepObserver`."""
        found, examples = self._worker.measured()
        if found:
            context = self._context
            end = context.endpoint.clock()
            for name, value in found.items():
                row = (context.me, step, name, value, examples, end)
                if not context.meter.measured(MeasureRow(*row)) and not self._has_told:
                    self._has_told = True
                    _LOG.warning(
                        "%s has measured numbers by %d names; %r and those by further "
                        "names are not recorded. Let step() give the same few names in "
                        "each step.",
                        *(
                            context.endpoint.names[context.me],
                            MOST_NAMES,
                            name.decode(),
                        ),
                    )


class StepEvents:
    """Begins, commits and ends a member's steps, and notifies its observers in turn."""

    def __init__(
        self, context: MemberContext, observers: Sequence[StepObserver]
    ) -> None:
        self._context, self._observers = context, tuple(observers)

    def add(self, observer: StepObserver) -> None:
        """Notify one more observer from now on; from any thread."""
        self._observers = (*self._observers, observer)

    def adopted(self, owners: Sequence[Owned], step: int, synchronous: bool) -> None:
        """Notify the observers that an epoch has begun."""
        for observer in self._observers:
            observer.adopted(owners, step, synchronous)

    def begin(self, step: int) -> None:
        """Begin a step."""
        for observer in self._observers:
            observer.before(step)
        self._context.reach("step.begun", step)

    def commit(self, step: int) -> None:
        """Make NEXT the parameters; `step` is the number of steps that are done."""
        context = self._context
        stamp, synchronous = context.endpoint.stamp, context.synchronous
        # The old parameters, after the step has used them: damage done to them since
        # they became the parameters is found too.
        if synchronous and context.digests.is_due(context.step):
            context.digests.note(context.step, context.now)
        stamp.parity ^= 1
        context.step = step
        for observer in self._observers:
            observer.committed(step)
        watched = synchronous and context.me in context.job.workers
        if context.history.is_on and watched:
            digest = hashlib.sha256(context.parameters()).hexdigest()[:16]
            about = {"step": step - 1, "epoch": stamp.epoch, "digest": digest}
            context.history.note("step", **about)

    def end(self, step: int, loss: float | None) -> None:
        """End a committed step; no loss: it did not count."""
        self._context.reach("step.done", step)
        if loss is not None:
            for observer in self._observers:
                observer.after(step, loss)


class Rounds:
    """What a member does between two boundaries: step after step, until a halt.

    `coordinator` is given in the coordinator's task alone, which may ask for a halt.
    """

    def __init__(
        self,
        context: MemberContext,
        events: StepEvents,
        coordinator: TrainingCoordinator | None = None,
    ) -> None:
        self._context, self._events, self._coordinator = context, events, coordinator

    def run(self, step: int) -> None:
        """Do steps from number `step` on until a halt."""
        raise NotImplementedError

    def close(self) -> None:
        """End what was started; here nothing."""

    def _wants_halt(self, step: int) -> bool:
        coordinator = self._coordinator
        return coordinator is not None and coordinator.wants_halt(step)

    def _note(
        self, step: int, loss: float, examples: int, *times: int, staleness: int = 0
    ) -> None:
        """Record a step that ends now: its start, and how long it computed and waited.

        All in nanoseconds.
        """
        me, endpoint = self._context.me, self._context.endpoint
        begin, computed, waited = times
        row = (me, step, endpoint.stamp.epoch, loss, examples, begin, endpoint.clock())
        self._context.meter.stepped(StepRow(*row, computed, waited, staleness))
