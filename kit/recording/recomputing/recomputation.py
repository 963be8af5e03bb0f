"""All members of a recorded training in one thread: the same parts, without a cluster.

Theory of operation. Each member has the loop and the part that it had in the training
(`kit.training.core.part`), over links that hold their messages. Here a loop goes on
until it wants a phase for which others are needed. Members that exchange together stand
there until all do, and then all messages arrive at once. Where servers serve workers in
their turn, a worker computes when its push is due by the recorded order, and the
servers take it. A change of configuration moves the same state as in the training, and
begins new loops. So every bit is computed again: only the state to begin with and the
order of pushes come from the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Final

import numpy as np

from kit.arithmetic import bound_to
from kit.errors import FailedPreconditionError, UnimplementedError
from kit.exchange import state_transfer
from kit.exchange.layout import Range
from kit.exchange.plan import GRAD, NOW, Owned
from kit.exchange.ports.memory import Array, unflatten
from kit.exchange.ports.port import NO_HALT
from kit.exchange.state_transfer import Move
from kit.exchange.stepping.members import carry_out, linked_members
from kit.exchange.stepping.stepped_exchange import SteppedExchange, record
from kit.exchange.topologies.topology import Topology, by_name
from kit.faults.history import History
from kit.recording.recomputing.pushes import (
    Orders,
    Pushed,
    order_of,
    pushed_in,
    serving,
)
from kit.recording.recomputing.stretches import Stretch
from kit.task import Task
from kit.trace.named_rows import EpochRow
from kit.training.core.axes import ranges_of
from kit.training.core.context import MemberContext
from kit.training.core.epoch import part_of
from kit.training.core.job import Job, Work
from kit.training.core.loops import Wanted
from kit.training.core.part import MemberPart, PartRole, StepEvents, SyncServer
from kit.training.core.snapshot import fill
from kit.training.worker import kept_state
from kit.training.worker.worker import TrainingWorker

#: The fields of a job that this file carries out, or that change no bit.
KNOWN: Final = {
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
    for field in fields(job):
        default = field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        if field.name not in KNOWN and getattr(job, field.name) != default:
            name = field.name
            raise UnimplementedError(
                f"a training with {name}={getattr(job, name)!r} cannot be replayed: "
                f"this version computes synchronous and asynchronous steps without it. "
                f"Its recording can be loaded and compared all the same."
            )


class Playing:
    """A loop with the part that carries out its phases; `wanted` is the next one."""

    def __init__(self, part: MemberPart, step: int) -> None:
        self.part: Any = part  # of a kind that has the phases of its loop
        self._loop = part.loop(step)
        self.tell(None)

    def tell(self, result: Any) -> None:
        """Tell the loop what came of the phase that it wanted."""
        self.wanted: Wanted | None
        try:
            self.wanted = self._loop.send(result)
        except StopIteration:
            self.wanted = None  # it has ended

    def wants(self, phase: Callable[..., Any]) -> bool:
        """Whether this method of its part is next."""
        return self.wanted is not None and self.wanted[0] == phase


@dataclass
class Recomputation:
    """The members, and how far they are. Close it, or use it with `with`.

    Attributes:
        orders: of each asynchronous epoch and server, whose pushes it took, in order.
        pushed: with backup workers, of each step who had pushed a gradient.
        threads: of BLAS, as in the training; 0 for those that are set.
        step: how many steps are done.
        on_loss: called with worker, step and loss of each share that counts.
    """

    job: Job
    work: Work
    stretches: Sequence[Stretch]
    orders: Orders
    pushed: Mapping[int, Pushed]
    threads: int = 0
    on_loss: Callable[[int, int, float], None] = lambda worker, step, loss: None
    step: int = 0

    def __enter__(self) -> Recomputation:
        # Nothing is written, compared or crashed here.
        quiet = self.job.settings.replace(history="", crash="", digest_every=0)
        self.job = job = replace(self.job, settings=quiet)
        if job.payload.encodes and self.work.compressor is None:
            raise FailedPreconditionError(
                f"the training had compress={job.compress}, which is not here; give "
                f"it to kit.replay(..., compress=...)."
            )
        self._stack = ExitStack()
        linked = linked_members(job.layout, [task.short for task in job.tasks])
        self.members, self._hold = self._stack.enter_context(linked)
        self._owners: tuple[Owned, ...] = ()
        self._at = -1  # which stretch is under way
        self.schedule = job.schedule  # in that stretch
        self._playing: dict[int, Playing] = {}
        return self

    def __exit__(self, *_: object) -> None:
        self._playing.clear()
        self._stack.close()

    # -- beginning --------------------------------------------------------------

    def begin(self, step: int, values: Mapping[str, Array]) -> None:
        """Begin with a state: parameters, slots, and what step functions keep."""
        job, state = self.job, dict(values)
        for spec in job.specs:
            for slot in job.optimizer.slots:
                full = np.full(spec.shape, slot.initial, spec.dtype)
                state.setdefault(f"{spec.name}/{slot.name}", full)
        self._contexts = [
            MemberContext(
                job,
                member.number,
                member.meter,
                member.endpoint,
                member.memory,
                History("", job.tasks[member.number]),
            )
            for member in self.members
        ]
        for context in self._contexts:
            fill(context.memory, NOW, job.slots, state)
        self._places: dict[int, TrainingWorker] = {}
        for worker in job.workers:
            context = self._contexts[worker]
            context.keep(state.get(kept_state.name_of(job.tasks[worker]), b""))
            self._places[worker] = TrainingWorker(
                job,
                worker,
                self.work,
                context.memory,
                context.endpoint,
                context.state,
                compression=context.compression,
            )
        self.step = step
        # Of configurations that begin at the same step, the last one is in force.
        holding = [
            n for n, stretch in enumerate(self.stretches) if stretch.begin <= step
        ]
        self._at = holding[-1] if holding else 0
        self._take(self.stretches[self._at], moves=False)
        first = self.stretches[0]
        if self._at == 0 and step == first.begin:  # as if all were equally fast
            self._count(-(-step // len(job.workers)))
        else:
            self._count(step)

    def _count(self, taken: int) -> None:
        for server in self._places.values():
            server.taken = taken

    # -- steps ------------------------------------------------------------------

    def advance(self, until: int) -> None:
        """Do one synchronous step, or asynchronous ones until there are `until`."""
        stretch = self.enter()
        if not self.schedule.in_step:
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
        with bound_to(self.threads):
            if self.schedule.is_served:
                counted, late = pushed_in(self.job, self.pushed, self.step)
                for worker in sorted(counted | late):
                    self._let_push(worker, self.step)
                return
            for member, playing in self._playing.items():
                self._go_on(member, playing.part.exchange)

    def complete(self) -> None:
        """Exchange what was computed and update: the end of a synchronous step."""
        with bound_to(self.threads):
            if self.schedule.is_served:
                counted = pushed_in(self.job, self.pushed, self.step).counted
                for worker in sorted(counted):
                    for server in self.job.ps:
                        self._serve(server, worker)
                for worker in sorted(counted):
                    self._end_step(worker)
            else:
                self._meet()
                for member, playing in self._playing.items():
                    playing.tell(None)  # the exchange is done
                    self._end_step(member)
        self.step += 1

    def _go_on(self, member: int, until: Callable[..., Any]) -> None:
        """Let a member go on until it wants this phase, or has ended."""
        playing = self._playing[member]
        while playing.wanted is not None and not playing.wants(until):
            phase, values = playing.wanted
            playing.tell(phase(*values))
            if member in self.job.workers and phase == playing.part.commit:
                number, _, loss = values
                if number is not None:  # else it came too late to count
                    self.on_loss(member, number, loss)

    def _meet(self) -> list[list[Array]]:
        """Carry out an exchange; returns what each worker sent in each stage."""
        payload, sent = self.job.payload, list[list[Array]]()
        parts = [playing.part for playing in self._playing.values()]
        servers = [part for part in parts if isinstance(part, SyncServer)]
        for stage in range(len(payload.stages)):
            for part in servers:
                part.offer(self.step, stage)
            if payload.encodes:
                sent.append(self._summands(payload.range_of(stage)))
            carry_out(self.members, self._hold, stage if payload.encodes else None)
            for part in servers:
                part.take(self.step, stage)
        return sent

    def _summands(self, part: Range) -> list[Array]:
        """Return a range of what each worker gives to the exchange, as bytes."""
        members = [self.members[worker] for worker in self.job.workers]
        raws = [
            bytes(member.memory.raw(member.endpoint.stamp.where(GRAD), part))
            for member in members
        ]
        return [np.frombuffer(raw, np.uint8) for raw in raws]

    def gradients(self) -> list[Array]:
        """Return what `compute` has computed, as the flat bytes of each worker.

        With backup workers, nothing but zeros of those whose gradients do not count.
        """
        values = self._summands(Range(0, self.job.layout.n_bytes))
        if not self.schedule.is_served:
            return values
        counted = pushed_in(self.job, self.pushed, self.step).counted
        pairs = zip(self.job.workers, values, strict=True)
        return [value if worker in counted else value * 0 for worker, value in pairs]

    def exchanges(self, gradients: Sequence[Array], most: int) -> list[SteppedExchange]:
        """Return the exchange of a step, message by message.

        With compressed gradients there is one for each stage; the members cannot go on
        from there. `gradients` are flat, as `gradients` gives them; of a column `most`
        numbers are written down.
        """
        job, topology = self.job, self.topology()
        if self.schedule.is_served:
            raise FailedPreconditionError(
                f"step {self.step} was made of the first {job.aggregate} gradients "
                f"that came: each worker pushes to the servers and pulls what they "
                f"have then. Messages can be looked at in trainings without aggregate."
            )
        names = [task.short for task in job.tasks]
        sent = [[*gradients]]
        if job.payload.encodes:
            with bound_to(self.threads):
                sent = self._sent_in_stages(gradients)
        return [
            record(topology, stage.layout, stage.group, names, values, most)
            for stage, values in zip(job.payload.stages, sent, strict=True)
        ]

    def _sent_in_stages(self, gradients: Sequence[Array]) -> list[list[Array]]:
        contexts = [self._contexts[worker] for worker in self.job.workers]
        before = [deepcopy(context.compression) for context in contexts]
        for context, flat in zip(contexts, gradients, strict=True):
            region = context.endpoint.stamp.where(GRAD)
            context.memory.raw(region, Range(0, len(flat)))[:] = flat.data
        sent = self._meet()
        for context, kept in zip(contexts, before, strict=True):
            context.compression.clear()
            context.compression.update(kept)
        return sent

    def flat(self) -> Array:
        """Return the flat parameters: a worker's, or the servers' where they lead."""
        job = self.job
        params = self._now(job.coordinator, Range(0, job.layout.n_bytes)).copy()
        if self.schedule.is_served:
            for server, shard in zip(job.ps, job.group.shards, strict=True):
                for part in shard:
                    params[part.lo : part.hi] = self._now(server, part)
        return params

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
        player = self.members[member]
        region = player.endpoint.stamp.where(NOW)
        return np.frombuffer(player.memory.raw(region, part), np.uint8)

    # -- workers that are served in their turn ----------------------------------

    def _let_push(self, worker: int, step: int) -> bool:
        """Let a worker compute and push; returns False if it has no step to do."""
        playing, stretch = self._playing.get(worker), self.stretches[self._at]
        if playing is None:
            # It has slept so far, or has come back: it begins where the servers are.
            if self.schedule.in_step:
                self._carry(state_transfer.refresh(self._owners, [worker]))
            part = self._part(worker, stretch.row)
            self._playing[worker] = playing = Playing(part, step)
        elif playing.wants(playing.part.pull):
            self._answer_late(worker)
        self._go_on(worker, playing.part.pull)
        return playing.wants(playing.part.pull)

    def _answer_late(self, worker: int) -> None:
        for server in self.job.ps:
            self._serve(server, worker)
        self._end_step(worker)

    def _end_step(self, member: int) -> None:
        self._go_on(member, self._playing[member].part.begin)

    def _serve(self, server: int, worker: int) -> None:
        """Let a server take a worker's push: it is its turn."""
        self._hold.let_all_go()
        playing = self._playing[server]
        self._go_on(server, playing.part.listen)
        playing.tell((worker, playing.part.take(worker)))
        self._go_on(server, playing.part.listen)
        self._hold.let_all_go()

    def _asynchronous(self, stretch: Stretch, until: int) -> None:
        job = self.job
        servers = serving(job)
        orders = {item: order_of(job, self.orders, stretch, item) for item in servers}
        if len(servers) > 1 and (until < stretch.end or self.step > stretch.begin):
            raise FailedPreconditionError(
                f"steps {stretch.begin} to {stretch.end} were asynchronous, at "
                f"{len(servers)} servers that took the pushes in orders of their "
                f"own: there is no state after step {until} that all had at one time. "
                f"Give {stretch.begin} or {stretch.end}."
            )
        # By worker, the servers that have not taken its current push yet.
        waiting: dict[int, set[int]] = {}

        def take(server: int, step: int) -> bool:
            worker = orders[server][step - stretch.begin]
            left = waiting.setdefault(worker, set())
            if not left and self._let_push(worker, stretch.begin):
                left.update(servers)
                for idle in {*job.ps} - left:  # it holds nothing: any order will do
                    self._serve(idle, worker)
            if server not in left:
                return False
            self._serve(server, worker)
            left.discard(server)
            if not left:
                self._end_step(worker)
            return True

        # A server's next push may not be computed before another server has taken one:
        # go round until no server can take any more.
        done = dict.fromkeys(servers, self.step)
        moves = True
        while moves:
            moves = False
            for server in servers:
                while done[server] < until and take(server, done[server]):
                    done[server] += 1
                    moves = True
        if any(step < until for step in done.values()):
            raise FailedPreconditionError(
                f"the recorded orders of pushes in the steps {stretch.begin} to "
                f"{stretch.end} contradict each other."
            )
        self.step = until

    # -- changing the configuration ---------------------------------------------

    def _enter_next(self) -> None:
        before, after = self.stretches[self._at], self.stretches[self._at + 1]
        served = self.job.workers if self.schedule.is_served else ()
        for worker in (n for n in served if n in self._playing):
            playing = self._playing[worker]
            if playing.wants(playing.part.pull):  # it was late in the last step
                self._answer_late(worker)
        self._at += 1
        self._take(after, moves=True)
        if after.row.generation != before.row.generation:  # it begins as one resumes
            self._count(-(-after.begin // len(self.job.workers)))
        elif after.row.is_asynchronous and not before.row.is_asynchronous:
            self._count(after.begin)

    def _topology(self, row: EpochRow) -> Topology:
        return by_name(row.plain_topology)

    def _owned(self, row: EpochRow) -> tuple[Owned, ...]:
        return self.job.payload.owners(self._topology(row))

    def _part(self, member: int, row: EpochRow) -> MemberPart:
        """Return what a member does in an epoch that it has a plan for."""
        context = self._contexts[member]
        plan = self.job.plan(self._topology(row), member)
        assert plan is not None, "it takes part"
        events, seat = StepEvents(context, ()), self._places.get(member)
        return part_of(PartRole(context, events, plan, seat, beside=False))

    def _take(self, stretch: Stretch, *, moves: bool) -> None:
        for name in filter(None, stretch.row.joined.split(",")):
            self._contexts[self.job.tasks.index(Task.parse(name))].state.clear()
        job, row, topology = self.job, stretch.row, self._topology(stretch.row)
        self.schedule = job.schedule_of(not row.is_asynchronous)
        whole = Range(0, job.layout.n_bytes)
        for context in self._contexts:
            stamp, memory = context.endpoint.stamp, context.memory
            # Of the two places of the parameters, plans begin with the first.
            if stamp.parity:
                memory.raw(NOW, whole)[:] = memory.raw(stamp.where(NOW), whole)
                stamp.parity = 0
            stamp.stays, stamp.halt = not topology.agrees, NO_HALT
            context.schedule, context.topology = self.schedule, topology
        if moves:
            self._move(self.stretches[self._at - 1].row, row)
        self._owners = self._owned(row)
        self._playing = {}
        for member in self.members:
            plan = job.plan(topology, member.number)
            if not self.schedule.is_served:
                member.take(plan, job.payload.update(), len(job.slots))
            # A worker that is served begins when its push is due.
            waits = self.schedule.is_served and member.number in job.workers
            if plan is not None and not waits:
                part = self._part(member.number, row)
                self._playing[member.number] = Playing(part, self.step)

    def _move(self, before: EpochRow, row: EpochRow) -> None:
        job, owners = self.job, self._owned(row)
        moved = state_transfer.handover(self._owners, owners, len(job.slots), job.group)
        # After asynchronous steps the servers are ahead of the workers.
        is_anew = not row.is_asynchronous or row.generation != before.generation
        if before.is_asynchronous and is_anew:
            moved = (*state_transfer.refresh(self._owners, job.workers), *moved)
        self._carry(moved)

    def _carry(self, moved: Iterable[Move]) -> None:
        """Move parameters and slots."""
        for move in moved:
            source, target = (
                self.members[member].memory.raw(
                    self.members[member].endpoint.stamp.where(move.region), move.range
                )
                for member in (move.source, move.target)
            )
            target[:] = source
