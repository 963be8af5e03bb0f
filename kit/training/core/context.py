"""What a member has: its values, what its task's server does for it, its step's events.

Theory of operation. Each part of a member gets the one `MemberContext`, so what two of
them share stands there and nowhere else. The thread of the steps fills it, and the
heart takes what is to be reported. `Services` is all that a member asks of the server
of its task, so tests give it another one. `StepEvents` begins, commits and ends each
step, and calls its callbacks in turn: hooks, sinks of snapshots, the measures. What a
member does with them is in `member`, what its steps are in `loops`.
"""

from __future__ import annotations

import hashlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kit.exchange.execution.bound_operations import Update
from kit.exchange.execution.program import Program
from kit.exchange.layout import Range
from kit.exchange.plan import NOW, Owned, Plan
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.memory import Memory
from kit.exchange.topologies.topology import Topology
from kit.faults import points
from kit.faults.history import History
from kit.task import Task
from kit.trace.traffic import MOST_NAMES, MeasureRow, Meter
from kit.training.core.axes import Schedule
from kit.training.core.coordinator import TrainingCoordinator
from kit.training.core.digests import Digests
from kit.training.core.job import Job
from kit.training.core.questions import CoordinatorClient
from kit.training.data.agreement import DataReport
from kit.training.worker import kept_state
from kit.training.worker.own_part import OwnPart
from kit.training.worker.worker import TrainingWorker
from kit.wire.stream import Stream


@dataclass
class MemberContext:
    """A member's part in a training: what it is, and what it keeps."""

    job: Job
    me: int
    meter: Meter
    endpoint: Endpoint
    memory: Memory
    history: History
    step: int = 0  # committed so far
    schedule: Schedule = field(init=False)  # in the epoch that holds
    topology: Topology | None = None  # in that epoch
    digests: Digests = field(init=False)
    own_part: OwnPart = field(init=False)  # of a worker's steps
    crash: points.Crash | None = field(init=False)
    # Writes the state to begin with, until the first epoch begins: into the region of
    # the parameters, and the slots of the ranges that are this member's.
    restore: Callable[[Memory, int, Sequence[Range]], None] | None = None
    state: dict[str, Any] = field(default_factory=dict)  # what the step function keeps
    compression: dict[str, Any] = field(default_factory=dict)  # and the compressor
    owners: tuple[Owned, ...] = ()  # who updates what, in the epoch that holds
    data_reports: deque[DataReport] = field(default_factory=deque)  # not sent yet

    def __post_init__(self) -> None:
        self.schedule = self.job.schedule_of(synchronous=True)
        is_worker, every = self.me in self.job.workers, self.job.settings.digest_every
        self.digests = Digests(self.memory, self.me, is_worker=is_worker, every=every)
        self.own_part = OwnPart(self.meter, self.endpoint.clock)
        self.crash = points.Crash.parse(self.job.crash)

    @property
    def task(self) -> Task:
        """This member's task."""
        return self.job.tasks[self.me]

    def program(
        self, plan: Plan, update: Update | None = None, *, expects: bool = False
    ) -> Program:
        """Bind a plan to what this member has; see `Program`."""
        parts = self.endpoint, self.memory, self.meter
        n_slots = len(self.job.slots)
        return Program(plan, *parts, update=update, n_slots=n_slots, expects=expects)

    def reach(self, point: str, step: int) -> None:
        """Pass a named crash point."""
        if self.crash is not None:  # asked five times a step
            points.reach(self.crash, point, self.task, step)

    @property
    def now(self) -> int:
        """The physical region of the parameters of the last committed step."""
        return self.endpoint.stamp.where(NOW)

    @property
    def moment(self) -> tuple[int, int, int]:
        """What changes before the parameters do: step, epoch, and where they are.

        A switch moves them within the memory, without a step.
        """
        stamp = self.endpoint.stamp
        return self.step, stamp.epoch, stamp.parity

    def kept(self) -> bytes:
        """Return what step function and compressor have kept so far, packed."""
        return kept_state.pack(kept_state.joined(self.state, self.compression))

    def keep(self, packed: Any) -> None:
        """Go on from what `kept` has returned."""
        state, compression = kept_state.parted(kept_state.unpack(packed))
        self.state.update(state)
        self.compression.update(compression)

    def parameters(self) -> bytes:
        """Return the flat parameters of the last committed step."""
        whole = Range(0, self.job.layout.n_bytes)
        return bytes(self.memory.raw(self.now, whole))


# --------------------------------------------------------------------------------------
# What a member needs of the server of its task.


class Services(Protocol):
    """What the task's server does for a member."""

    @property
    def cluster_number(self) -> int:
        """What frames carry to distinguish clusters."""

    def streams(
        self,
        job: Job,
        dialled: Sequence[int],
        awaited: Sequence[int],
        deadline: float,
    ) -> dict[int, Stream]:
        """Return data streams to other members: to some that we dial, and to others.

        All are there, or none: raises `DeadlineExceededError` after the `deadline`.
        """

    def ended(self, member: Any) -> None:
        """Take note that a `Member` has ended; its state says how."""

    def elastic(self, origin: str) -> Any:
        """Return what this process does in an elastic training, by its first run."""

    def client(
        self, job: Job, me: int, coordinator: TrainingCoordinator | None
    ) -> CoordinatorClient:
        """Return the way to the coordinator."""

    def spins(self, job: Job) -> int:
        """Return how often a wait checks again before it yields the processor."""


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
        self._has_told = False

    def after(self, step: int, loss: float) -> None:
        """See `StepCallback`."""
        measures, examples = self._worker.measured()
        if measures:
            context = self._context
            end = context.endpoint.clock()
            for name, value in measures.items():
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
