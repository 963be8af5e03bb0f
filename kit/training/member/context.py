"""A member's part in a training: what it is, and what it keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kit.exchange.layout import Range
from kit.exchange.plan import NOW, Owned
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.memory import Memory
from kit.faults import points
from kit.faults.history import History
from kit.task import Task
from kit.trace.traffic import MeasureRow, Meter
from kit.training.coordination.coordinator import TrainingCoordinator
from kit.training.coordination.digests import Digests
from kit.training.job import Job, Work


class Saves(Protocol):
    """What a training with checkpoints does at the boundaries between its steps."""

    def adopt(self, owners: Sequence[Owned], step: int, synchronous: bool) -> None:
        """Prepare for the owners of a new epoch."""

    def committed(self, step: int) -> None:
        """Look whether the state after this step is to be saved."""

    def save(self, key: tuple[int, int], step: int) -> None:
        """Copy the state before `step` and let it be written."""


class Measures(Protocol):
    """Where a worker computes."""

    def measured(self) -> tuple[Mapping[bytes, float], int]:
        """Return what the last step told beside its loss, and its examples."""


class Hooks(Protocol):
    """What the coordinator calls around each of its steps."""

    def before(self, step: int) -> None:
        """Be told that a step is about to begin."""

    def after(self, step: int, loss: float) -> None:
        """Be told that a step is done."""


@dataclass
class MemberContext:
    """A member's part in a training: what it is, and what it keeps."""

    job: Job
    me: int
    work: Work | None
    meter: Meter
    coordinator: TrainingCoordinator | None
    endpoint: Endpoint
    memory: Memory
    history: History
    step: int = 0  # committed so far
    synchronous: bool = True  # in the epoch that holds
    digests: Digests = field(init=False)
    restored: dict[str, Any] | None = None  # all values, until the first epoch begins
    saves: Saves | None = None
    hooks: Hooks | None = None  # the coordinator's
    measures: Measures | None = None  # a worker's

    def __post_init__(self) -> None:
        """Begin to compare parameters as often as the settings say."""
        is_worker, every = self.me in self.job.workers, self.job.settings.digest_every
        self.digests = Digests(self.memory, self.me, is_worker=is_worker, every=every)

    @property
    def task(self) -> Task:
        """This member's task."""
        return self.job.tasks[self.me]

    def reach(self, point: str, step: int) -> None:
        """Pass a named crash point."""
        if self.job.settings.crash:
            plan = points.Crash.parse(self.job.settings.crash)
            points.reach(plan, point, self.task, step)

    def begin(self, step: int) -> None:
        """Begin a step."""
        if self.hooks is not None:
            self.hooks.before(step)
        self.reach("step.begun", step)

    def end(self, step: int, loss: float | None) -> None:
        """End a committed step; no loss: it did not count."""
        self.reach("step.done", step)
        if self.measures is not None and loss is not None:
            self._record(self.measures, step)
        if self.hooks is not None and loss is not None:
            self.hooks.after(step, loss)

    def _record(self, measures: Measures, step: int) -> None:
        found, examples = measures.measured()
        if found:
            end = self.endpoint.clock()
            for name, value in found.items():
                row = (self.me, step, name, value, examples, end)
                self.meter.measured(MeasureRow(*row))

    def commit(self, step: int) -> None:
        """Make NEXT the parameters; `step` is the number of steps that are done."""
        stamp = self.endpoint.stamp
        # Now, when they have been used: what damaged them meanwhile is found.
        if self.synchronous and self.digests.is_due(self.step):
            self.digests.note(self.step, self.now)
        stamp.parity ^= 1
        self.step = step
        if self.saves is not None:
            self.saves.committed(step)
        watched = self.synchronous and self.me in self.job.workers
        if self.history.is_on and watched:
            digest = hashlib.sha256(self.parameters()).hexdigest()[:16]
            self.history.note("step", step=step - 1, epoch=stamp.epoch, digest=digest)

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

    def parameters(self) -> bytes:
        """Return the flat parameters of the last committed step."""
        whole = Range(0, self.job.layout.n_bytes)
        return bytes(self.memory.raw(self.now, whole))


class Rounds(Protocol):
    """What a member does between two boundaries: step after step, until a halt."""

    def run(self, step: int) -> None:
        """Do steps from number `step` on until a halt."""

    def close(self) -> None:
        """End what was started."""
