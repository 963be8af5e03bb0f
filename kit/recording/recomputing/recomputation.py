"""All members of a recorded training in one thread: the same parts, without a cluster.

Workers compute by `TrainingWorker`, synchronous steps are exchanged by the topology's
plans and the `Program` (`kit.exchange.stepping`), asynchronous updates are made in the
order in which the servers took them, and each change of configuration moves the same
state as in the training. So every bit is computed again: only the state to begin with
and that order come from the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import MISSING, dataclass, field, fields
from types import TracebackType
from typing import Any, Final

import numpy as np

from kit.arithmetic import bound_to
from kit.errors import FailedPreconditionError, UnimplementedError
from kit.exchange import state_transfer
from kit.exchange.compression.compressor import Arrays
from kit.exchange.compression.feedback import put
from kit.exchange.layout import Range
from kit.exchange.plan import GRAD, NOW, Apply, Owned, Plan
from kit.exchange.ports.memory import Array, unflatten
from kit.exchange.stepping.members import carry_out, linked_members
from kit.exchange.stepping.stepped_exchange import SteppedExchange, record
from kit.exchange.topologies.topology import Topology
from kit.recording.recomputing.async_updates import AsyncUpdates, Orders
from kit.recording.recomputing.compressed_sums import CompressedSums
from kit.recording.recomputing.quorum_steps import Pushed, QuorumSteps
from kit.recording.recomputing.stretches import Stretch
from kit.task import Task
from kit.trace.named_rows import EpochRow
from kit.training.checkpointing.member_state import fill, ranges_of
from kit.training.job import Job, Work
from kit.training.optimizers.rule import MeanUpdate
from kit.training.worker import kept_state
from kit.training.worker.worker import TrainingWorker

#: The fields of a job that this file carries out, or that change no bit.
_KNOWN: Final = {
    *("run", "tasks", "specs", "optimizer", "topology", "steps", "batch", "seed"),
    *("synchronous", "aggregate", "link", "placement", "checkpoints", "restore"),
    *("keeps_state", "hosts", "generation", "settings"),
    *("accumulate", "local_steps", "inner"),  # the worker's, who is the same here
    *("compress", "stage_specs"),
}


def check_options(job: Job) -> None:
    """Raise `UnimplementedError` for a training with an option that is not known here.

    So an option that is new in `kit.train` is refused until this file handles it.
    """
    for one in fields(job):
        default = one.default
        if one.default_factory is not MISSING:
            default = one.default_factory()
        if one.name not in _KNOWN and getattr(job, one.name) != default:
            name = one.name
            raise UnimplementedError(
                f"a training with {name}={getattr(job, name)!r} cannot be replayed: "
                f"this version computes synchronous and asynchronous steps without it. "
                f"Its recording can be loaded and compared all the same."
            )


@dataclass
class Recomputation:
    """The members, and how far they are. Close it, or use it with `with`.

    Attributes:
        orders: of each asynchronous epoch and server, whose pushes it took, in order.
        pushed: with backup workers, of each step who had pushed a gradient.
        threads: of BLAS, as in the training; 0 for those that are set.
        step: how many steps are done.
        losses: of the last step, by worker.
        told: called with worker, epoch and loss of each asynchronous update.
    """

    job: Job
    work: Work
    stretches: Sequence[Stretch]
    orders: Orders
    pushed: Mapping[int, Pushed]
    threads: int = 0
    told: Callable[[int, int, float], None] = lambda worker, epoch, loss: None
    step: int = 0
    losses: dict[int, float] = field(default_factory=dict)

    def __enter__(self) -> Recomputation:
        names = [task.short for task in self.job.tasks]
        self._stack = ExitStack()
        linked = linked_members(self.job.layout, names)
        self.members, self._hold = self._stack.enter_context(linked)
        n_added = 1 if self.job.stages else len(self.job.workers)
        self._update = MeanUpdate(self.job.optimizer, n_added)
        self._compressed: CompressedSums | None = None
        self._quorum: QuorumSteps | None = None
        if self.job.has_backups:
            self._quorum = QuorumSteps(self.job, self.members, self.pushed)
        self._n_slots = len(self.job.slots)
        self._owners: tuple[Owned, ...] = ()
        self._at = -1  # which stretch is under way
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    # -- beginning --------------------------------------------------------------

    def begin(self, step: int, values: Mapping[str, Array]) -> None:
        """Begin with a state: parameters, slots, and what step functions keep."""
        job, initial = self.job, {slot.name: slot.initial for slot in self._slots}
        state = dict(values)
        for spec in job.specs:
            for name, value in initial.items():
                full = np.full(spec.shape, value, spec.dtype)
                state.setdefault(f"{spec.name}/{name}", full)
        for member in self.members:
            fill(member.memory, NOW, job.slots, state)
        self.step = step
        kept = {
            worker: kept_state.parted(kept_state.unpack(state.get(name, b"")))
            for worker in job.workers
            for name in [kept_state.name_of(job.tasks[worker])]
        }
        self._states = {worker: own for worker, (own, _) in kept.items()}
        self._places = {
            worker: TrainingWorker(
                *(job, worker, self.work),
                *(self.members[worker].memory, self.members[worker].endpoint),
                own,
            )
            for worker, own in self._states.items()
        }
        if job.stages:
            residuals = {worker: rest for worker, (_, rest) in kept.items()}
            about = job, self.work.compressor, residuals
            self._compressed = CompressedSums(*about, self._stack)
        # Of configurations that begin at the same step, the last one is in force.
        holding = [n for n, one in enumerate(self.stretches) if one.begin <= step]
        self._at = holding[-1] if holding else 0
        self._take(self.stretches[self._at], moves=False)
        first = self.stretches[0]
        if self._at == 0 and step == first.begin:  # as if all were equally fast
            self._count(-(-step // len(job.workers)))
        else:
            self._count(step)

    @property
    def _slots(self) -> Sequence[Any]:
        return self.job.optimizer.slots

    def _count(self, taken: int) -> None:
        for place in self._places.values():
            place.taken = taken

    # -- steps ------------------------------------------------------------------

    def advance(self, until: int) -> None:
        """Do one synchronous step, or asynchronous ones until there are `until`."""
        stretch = self.stretches[self._at]
        while self.step >= stretch.end and self._at + 1 < len(self.stretches):
            stretch = self._enter_next()
        if stretch.row.is_asynchronous:
            with bound_to(self.threads):
                self._asynchronous(stretch, min(until, stretch.end))
        else:
            self.compute()
            self.complete()

    def enter(self) -> Stretch:
        """Begin the configuration of the next step, if it is another one."""
        while (
            self._at + 1 < len(self.stretches)
            and self.stretches[self._at + 1].begin <= self.step
        ):
            self._enter_next()
        return self.stretches[self._at]

    def compute(self) -> None:
        """Let each worker compute the loss and the gradients of the next step."""
        self.losses, busy, late = {}, {*self._places}, frozenset[int]()
        if self._quorum is not None:
            counted, late = self._quorum.pushed(self.step)
            busy = {*counted, *late}
        for member in self.members:
            member.endpoint.stamp.step = self.step
        with bound_to(self.threads):
            for worker, place in self._places.items():
                if worker in busy:
                    loss, _ = place.compute(self.step, lambda bucket: None)
                    if worker not in late:
                        self.losses[worker] = loss

    def complete(self) -> None:
        """Exchange what was computed and update: the end of a synchronous step."""
        with bound_to(self.threads):
            if self._quorum is not None:
                self._quorum.complete(self.step)
            else:
                self._exchange()
                self._mix()
                for member in self.members:
                    member.endpoint.stamp.parity ^= 1
        self.step += 1

    def gradients(self) -> list[Array]:
        """Return what `compute` has computed, as the flat bytes of each worker.

        With backup workers, nothing but zeros of those whose gradients do not count.
        """
        whole = Range(0, self.job.layout.n_bytes)
        found = []
        for worker in self.job.workers:
            if worker not in self.losses:
                found.append(np.zeros(whole.size, np.uint8))
                continue
            member = self.members[worker]
            region = member.endpoint.stamp.where(GRAD)
            raw = bytes(member.memory.raw(region, whole))
            found.append(np.frombuffer(raw, np.uint8))
        return found

    def exchanges(self, gradients: Sequence[Array], most: int) -> list[SteppedExchange]:
        """Return the exchange of a step, message by message; nothing moves on.

        With compressed gradients there is one for each stage. `gradients` are flat, as
        `gradients` gives them; of a column `most` numbers are written down.
        """
        job, topology = self.job, self.topology()
        if job.has_backups:
            raise FailedPreconditionError(
                f"step {self.step} was made of the first {job.quorum} gradients that "
                f"came: each worker pushes to the servers and pulls what they have "
                f"then. Messages can be looked at in trainings without aggregate."
            )
        if self._compressed is None:
            names = [task.short for task in job.tasks]
            about = topology, job.layout, job.group, names
            return [record(*about, gradients, most)]
        by_worker = {
            worker: unflatten(job.layout, flat.tobytes())
            for worker, flat in zip(job.workers, gradients, strict=True)
        }
        with bound_to(self.threads):
            return self._compressed.record(self.step, by_worker, topology, most)

    def flat(self) -> Array:
        """Return the flat parameters: a worker's, or the servers' where they lead."""
        job = self.job
        found = self._now(job.coordinator, Range(0, job.layout.n_bytes)).copy()
        if self.stretches[self._at].row.is_asynchronous:
            for server, shard in zip(job.ps, job.group.shards, strict=True):
                for part in shard:
                    found[part.lo : part.hi] = self._now(server, part)
        return found

    def parameters(self) -> dict[str, Array]:
        """Return the parameters by name, as arrays of the caller's own."""
        return unflatten(self.job.layout, self.flat().tobytes())

    def topology(self) -> Topology:
        """Return the topology of the configuration in force."""
        return self._topology(self.stretches[self._at].row)

    def share(self, row: EpochRow, writer: int) -> list[Range]:
        """Return the ranges that a member writes in an epoch."""
        return list(ranges_of(self._owned(row), writer))

    def _now(self, member: int, part: Range) -> Array:
        one = self.members[member]
        region = one.endpoint.stamp.where(NOW)
        return np.frombuffer(one.memory.raw(region, part), np.uint8)

    # -- changing the configuration ---------------------------------------------

    def _enter_next(self) -> Stretch:
        before, after = self.stretches[self._at], self.stretches[self._at + 1]
        self._at += 1
        self._take(after, moves=True)
        if after.row.generation != before.row.generation:  # it begins as one resumes
            self._count(-(-after.begin // len(self.job.workers)))
        elif after.row.is_asynchronous and not before.row.is_asynchronous:
            self._count(after.begin)
        return after

    def _topology(self, row: EpochRow) -> Topology:
        return self.job.check_topology(row.plain_topology, not row.is_asynchronous)

    def _owned(self, row: EpochRow) -> tuple[Owned, ...]:
        return self.job.owners_on(self._topology(row))

    def _leaves(self) -> dict[int, Arrays]:
        """Return where the gradients of each worker lie, by name."""
        found = {worker: self.members[worker] for worker in self.job.workers}
        return {
            worker: member.memory.leaves(member.endpoint.stamp.where(GRAD))
            for worker, member in found.items()
        }

    def _plan(self, topology: Topology, member: int) -> Plan | None:
        """Return what a member does once the gradients are there."""
        job = self.job
        if not job.stages:
            return topology.plan(job.layout, job.group, member)
        if member not in job.workers:
            return None
        return Plan((), tuple(Apply(bucket.range) for bucket in job.layout.buckets))

    def _take(self, stretch: Stretch, *, moves: bool) -> None:
        for name in filter(None, stretch.row.joined.split(",")):
            self._states[self.job.tasks.index(Task.parse(name))].clear()
        job, row, topology = self.job, stretch.row, self._topology(stretch.row)
        owners = self._owned(row)
        whole = Range(0, job.layout.n_bytes)
        for member in self.members:
            stamp, memory = member.endpoint.stamp, member.memory
            # Of the two places of the parameters, plans begin with the first.
            if stamp.parity:
                here = stamp.where(NOW)
                memory.raw(NOW, whole)[:] = memory.raw(here, whole)
                stamp.parity = 0
            stamp.stays = not topology.agrees
            plan = None
            if not row.is_asynchronous:
                plan = self._plan(topology, member.number)
            member.take(plan, self._update, self._n_slots)
        if self._compressed is not None:
            self._compressed.take(topology)
        if moves:
            before = self.stretches[self._at - 1].row
            # After asynchronous steps the servers are ahead of the workers.
            is_anew = not row.is_asynchronous or row.generation != before.generation
            moved = state_transfer.handover(
                self._owners, owners, self._n_slots, job.group
            )
            if before.is_asynchronous and is_anew:
                news = state_transfer.refresh(self._owners, job.workers)
                moved = (*news, *moved)
            for one in moved:
                source = self.members[one.source].memory.raw(one.region, one.range)
                self.members[one.target].memory.raw(one.region, one.range)[:] = source
        self._owners = owners

    # -- how a step is completed ------------------------------------------------

    def _mix(self) -> None:
        """Let each worker take its mean, in a topology in which they do not agree."""
        topology, group = self.topology(), self.job.group
        for worker, place in self._places.items() if not topology.agrees else ():
            place.take_mean(len(topology.neighbourhood(group, worker)))

    def _exchange(self) -> None:
        if self._compressed is not None:
            means = self._compressed.exchange(self.step, self._leaves())
            for worker, places in self._leaves().items():
                put(means[worker], places)
        carry_out(self.members, self._hold)

    def _asynchronous(self, stretch: Stretch, until: int) -> None:
        updates = AsyncUpdates(
            *(self.job, self.members, self._places, self.orders, stretch), self.told
        )
        updates.run(self.step, until)
        self.step = until
