"""What a member has: its values, and what its task's server does for it.

Theory of operation. Each part of a member gets the one `MemberContext`, so what two of
them share stands there and nowhere else. The thread of the steps fills it, and the
heart takes what is to be reported. `Services` is all that a member asks of the server
of its task, so tests give it another one. What a member does with them is in `member`,
what its steps are in `loops`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
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
from kit.features import load
from kit.task import Task
from kit.trace.traffic import MeasureRow, Meter
from kit.training.core.axes import Schedule
from kit.training.core.coordinator import TrainingCoordinator
from kit.training.core.digests import Digests
from kit.training.core.job import Job
from kit.training.core.questions import CoordinatorClient
from kit.training.core.workplace import CPU, WORKPLACES, Workplace
from kit.training.data.agreement import DataReport
from kit.training.worker import kept_state
from kit.training.worker.own_part import OwnPart
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
    workplace: Workplace = field(init=False)
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
        device = self.job.device if is_worker else CPU
        self.workplace = load(WORKPLACES[device])(self)
        self.digests = Digests(
            self.workplace, self.me, is_worker=is_worker, every=every
        )
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
        parts = self.endpoint, self.workplace.memory, self.meter
        return Program(
            plan,
            *parts,
            update=update,
            n_slots=len(self.job.slots),
            expects=expects,
            binder=self.workplace.binder,
        )

    def measured(self, step: int, values: Mapping[bytes, float], examples: int) -> str:
        """Record what a step has measured; return a name that there was no room for."""
        end = self.endpoint.clock()
        left_out = [
            name.decode()
            for name, value in values.items()
            if not self.meter.measured(
                MeasureRow(self.me, step, name, value, examples, end)
            )
        ]
        return left_out[0] if left_out else ""

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
        return bytes(self.workplace.held.raw(self.now, whole))


# --------------------------------------------------------------------------------------
# What a member needs of the server of its task.


class Services(Protocol):
    """What the task's server does for a member."""

    @property
    def cluster_number(self) -> int:
        """What frames carry to distinguish clusters."""

    def streams(
        self, job: Job, dialled: Sequence[int], awaited: Sequence[int], deadline: float
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
