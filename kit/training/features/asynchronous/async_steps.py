"""Asynchronous steps: each worker at its own pace, updates one after the other.

A worker computes, pushes its gradient to the servers and pulls what they have by then,
without waiting for any other worker. A step is one update by one worker; the first
server counts them and hands out the right to compute the next one, so a training of k
steps does exactly k updates, and a fast worker does more of them. The staleness of an
update is the number of updates that others made between its pull and its push.

Every push and every pull begins with a note: the number of updates so far. The last one
says goodbye: from a worker, that it comes to the boundary and pushes nothing; from a
server, that the worker must come to it.

With `staleness=s` (stale synchronous parallel: Ho et al., "More effective distributed
ML via a stale synchronous parallel parameter server", NIPS 2013) a server keeps back
its answer to a worker that has made more than s updates more than the slowest one. A
first note then says which update was the worker's own: others may have made some since.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product

import numpy as np

from kit.errors import PeerLost
from kit.exchange.execution.bound_operations import Update
from kit.exchange.layout import Layout, Range
from kit.exchange.plan import GRAD, SPARE, Add, Apply, Op, Plan, Receive, Term
from kit.exchange.ports.memory import Array, Memory
from kit.trace.traffic import TransferKind
from kit.training.core.loops import Loop
from kit.training.core.part import PartRole
from kit.training.features.asynchronous.served_steps import (
    NOTE,
    Account,
    Fate,
    Note,
    Pulled,
    ServedServer,
    ServedWorker,
    at_own_pace,
    post_note,
    take_note,
)
from kit.training.optimizers.compensated import compensate, compensation
from kit.training.optimizers.rule import MeanUpdate


class Updates(Account):
    """One server's account of the updates between two boundaries.

    Each push is an update. The server that `hands_out` the right to the next one sees
    to it that there are exactly `steps`; the others follow.

    >>> account = Updates([1, 2], step=7, steps=9, hands_out=True)
    >>> account.arrive(2, 7, halts=False), account.complete(), account.is_ending
    (<Fate.FILLS: 'fills'>, [2], True)
    """

    def __init__(
        self,
        workers: Sequence[int],
        step: int,
        steps: int,
        *,
        hands_out: bool,
        most_ahead: int | None = None,
    ) -> None:
        super().__init__(workers, step)
        self._steps, self._hands_out, self._leaves = steps, hands_out, False
        # How many updates each has made, and of those not answered yet which is theirs.
        self._made, self._most_ahead = dict.fromkeys(workers, 0), most_ahead
        self._waiting: dict[int, int] = {}
        self.numbers: dict[int, int] = {}
        # Each worker begins one update unasked (see `AsyncWorker.loop`).
        self._issued = min(steps, step + len(workers))

    def arrive(self, worker: int, step: int, halts: bool) -> Fate:
        """Take a push, or a goodbye: then all others are sent to the boundary too."""
        if halts:
            self.lose(worker)
            return Fate.COUNTS
        self.counted = [worker]
        self._made[worker] += 1
        return Fate.FILLS

    def complete(self) -> list[int]:
        """End an update; returns who is to be answered."""
        self.step += 1
        (worker,) = self.counted
        self._waiting[worker] = self.step
        return self.freed()

    def freed(self) -> list[int]:
        """Return those that are not too far ahead: they get the rights that are left.

        All at once are told to come to the boundary, or none.
        """
        slowest = min((self._made[worker] for worker in self.awaited), default=0)
        most = self._most_ahead
        due = [
            worker
            for worker in self._waiting
            if self._leaves or most is None or self._made[worker] - slowest <= most
        ]
        n_left = self._steps - self._issued if self._hands_out else len(due)
        self.is_ending = self._leaves or n_left <= 0
        if not self.is_ending:
            due = due[:n_left]  # others hear of the end when somebody leaves
            self._issued += len(due)
        self.numbers = {worker: self._waiting.pop(worker) for worker in due}
        return due

    def lose(self, worker: int) -> None:
        """Go on without a worker up to the boundary, to which all are sent."""
        super().lose(worker)
        self._leaves = True


class Compensated:
    """The update by one worker, whose gradient is corrected for its delay."""

    def __init__(
        self, update: MeanUpdate, memory: Memory, pulled: int, strength: float
    ) -> None:
        """Correct by what the worker has got last, in the region `pulled`."""
        self._update, self._memory = update, memory
        self._pulled, self._strength = pulled, strength

    def over(self, layout: Layout, part: Range) -> Update:
        """Return the update of a range."""
        update = self._update.over(layout, part)
        pulled = self._memory.typed(self._pulled, part)

        def corrected(
            now: Array, total: Array, slots: Sequence[Array], out: Array, step: int
        ) -> None:
            compensate(total, now, pulled, self._strength)
            update(now, total, slots, out, step)

        return corrected

    def __call__(
        self, now: Array, total: Array, slots: Sequence[Array], out: Array, step: int
    ) -> None:
        """Refuse: which parameters these are is known by their range alone."""
        raise NotImplementedError


class AsyncServer(ServedServer):
    """A parameter server that makes an update of each push."""

    def __init__(self, role: PartRole) -> None:
        super().__init__(role)
        context = role.context
        self._push.insert(0, NOTE)
        self._updates: Updates
        self._noted = -1  # the last update of which there is a row
        self._programs = {
            worker: context.program(self._taking(worker), self._update_by(worker))
            for worker in self._answers
        }

    def _update_by(self, worker: int) -> Update:
        job = self._context.job
        update, strength = MeanUpdate(job.optimizer, 1), compensation(job.optimizer)
        if not strength:
            return update
        box = SPARE + job.workers.index(worker)
        return Compensated(update, self._context.memory, box, strength)

    def listen(self) -> tuple[int, tuple[int, bool] | None]:
        """Wait for a push, or for a worker that is lost."""
        port = self._context.endpoint.any_of(self._awaited())
        self._serves(port.peer)
        is_gone = not port.has_arrived() and self._context.job.is_elastic
        return port.peer, None if is_gone else self.take(port.peer)

    def take(self, worker: int) -> tuple[int, bool] | None:
        """Take what a worker pushes; None if it is lost before the end of that."""
        context, endpoint = self._context, self._context.endpoint
        program, step = self._programs[worker], self._account.step
        try:
            if take_note(endpoint, worker).is_last:
                return step, True
            self._begun, program.waited_ns = endpoint.clock(), 0
            endpoint.stamp.step = step
            context.reach("step.begun", step)
            program.reduce(0)
        except PeerLost:
            if not self._may_lose(worker):
                raise
            return None
        self._waited_ns = program.waited_ns
        return step, False

    def advance(self, step: int, workers: Collection[int]) -> None:
        """Make the update and commit it; it counts, even if nobody hears of it."""
        (worker,) = workers
        self._programs[worker].reduce(1)
        self._context.reach("exchange.reduced", step)
        self._events.commit(step + 1)

    def respond(
        self, workers: Collection[int], step: int, is_ending: bool
    ) -> list[int]:
        """See `ServedServer`; the answer has the number of updates so far."""
        lost = []
        try:
            for worker in workers:
                try:
                    self._answer(worker, step + 1, is_ending)
                except PeerLost:
                    if not self._may_lose(worker):
                        raise
                    lost.append(worker)
        finally:
            if step > self._noted:  # else nobody has made an update
                self._note_update(step)
                self._noted = step
        return lost

    def _answer(self, worker: int, n_done: int, is_ending: bool) -> None:
        endpoint = self._context.endpoint
        if self._context.job.staleness is not None:
            under_way, number = endpoint.stamp.step, self._updates.numbers[worker]
            post_note(endpoint, [worker], number, is_last=False)
            endpoint.stamp.step = under_way
        super().respond([worker], n_done, is_ending)
        endpoint.flush()

    def _open(self, workers: Sequence[int], step: int) -> Account:
        job = self._context.job
        is_first = self._context.me == job.ps[0]
        # What workers begin with is what they have pulled.
        for worker, part in product(workers, self._shard):
            memory, box = self._context.memory, SPARE + job.workers.index(worker)
            np.copyto(memory.typed(box, part), memory.typed(self._context.now, part))
        self._noted = step - 1
        self._updates = Updates(
            workers, step, job.steps, hands_out=is_first, most_ahead=job.staleness
        )
        return self._updates

    def _taking(self, worker: int) -> Plan:
        """Return the plan that takes a worker's push, and makes an update of it."""
        shard = self._shard
        takes: list[Op] = [Receive(worker, GRAD, p, TransferKind.PUSH) for p in shard]
        takes += [Add(part, (Term(worker, GRAD),)) for part in shard]
        return Plan((tuple(takes), tuple(map(Apply, shard))), ())

    def _may_lose(self, worker: int) -> bool:
        # The others end this generation at the next boundary.
        endpoint = self._context.endpoint
        is_elastic = self._context.job.is_elastic
        return is_elastic and endpoint.is_gone(endpoint.ports[worker])


class AsyncWorker(ServedWorker):
    """A worker whose every gradient is an update."""

    _own: int | None = None

    def loop(self, step: int) -> Loop:
        """Compute, push and pull until there is no more to do."""
        self._expect()
        is_due = step + self._worker.rank < self._context.job.steps
        return at_own_pace(self, step, is_due)

    def run(self, step: int) -> None:
        """Do steps, then say goodbye."""
        super().run(step)
        self._say(is_last=True)
        self._context.endpoint.flush()

    def begin(self, step: int) -> bool:
        """See `MemberPart`."""
        # No step is common to all, so no halt can travel with one: the coordinator's
        # worker says goodbye, and the servers then send all others to the boundary.
        return self._wants_halt(step - 1) or super().begin(step)

    def push(self, step: int) -> None:
        """Send the gradients to all servers."""
        self._say(is_last=False)
        self._program.reduce(0)

    def _share(self, step: int) -> tuple[float, int]:
        return self._worker.compute_next(step)

    def pull(self, step: int) -> Pulled:
        """See `ServedWorker`; with a bound, it first hears which update was its own."""
        job, self._own = self._context.job, None
        if job.staleness is not None:
            self._own = take_note(self._context.endpoint, job.ps[0]).number
        return super().pull(step)

    def _answer(self, step: int, notes: Sequence[Note]) -> Pulled:
        done = notes[0].number
        own = done if self._own is None else self._own
        return own - 1, done, not any(note.is_last for note in notes)

    def _say(self, *, is_last: bool) -> None:
        endpoint = self._context.endpoint
        servers, step = self._context.job.ps, endpoint.stamp.step
        post_note(endpoint, servers, step, is_last=is_last)
