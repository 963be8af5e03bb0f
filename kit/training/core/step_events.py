"""What happens around a member's steps, and what is notified of it."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence

from kit.exchange.plan import Owned
from kit.trace.traffic import MOST_NAMES, MeasureRow
from kit.training.core.context import MemberContext
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
        stamp, synchronous = context.endpoint.stamp, context.schedule.in_step
        # The old parameters, after the step has used them: damage done to them since
        # they became the parameters is found too.
        if synchronous and context.digests.is_due(context.step):
            context.digests.note(context.step, context.now)
        stamp.parity ^= 1
        context.step = step
        for observer in self._observers:
            observer.committed(step)
        watched = context.history.is_on and synchronous
        if watched and context.me in context.job.workers:
            digest = hashlib.sha256(context.parameters()).hexdigest()[:16]
            about = {"step": step - 1, "epoch": stamp.epoch, "digest": digest}
            context.history.note("step", **about)

    def end(self, step: int, loss: float | None) -> None:
        """End a committed step; no loss: it did not count."""
        self._context.reach("step.done", step)
        if loss is not None:
            for observer in self._observers:
                observer.after(step, loss)
