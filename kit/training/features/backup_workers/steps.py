"""Steps of the first R of N gradients: a parameter server's part, and a worker's.

A worker pushes its gradient of a step to all servers, to the first one last. It is
answered with the parameters after that step if the gradient counts, and with the newest
ones if it comes too late; then it computes the gradient of the step that these are for,
and skips its split of the mini-batches in between. A push is complete when all its
messages are there, so a worker that stops halfway holds nobody up.

The first server decides: it takes pushes as they become complete. It tells the other
servers whose turn it is, by a note of the worker's number (the last one of a worker:
that is lost), so they do the same in the same order, each with its own parameters
(`policy`). By then they have the push already, since the worker sent theirs first.

An answer begins with a note: the step of the gradient if it counts, else the number of
steps done; after the last one the worker has to come to the boundary. A worker takes a
copy, made for it alone: the server need not wait until it has been read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from kit.errors import InternalError, PeerLost
from kit.exchange.layout import Range
from kit.exchange.plan import GRAD, Apply, Plan
from kit.exchange.ports.memory import Array
from kit.exchange.ports.port import NO_HALT, Expected, Port
from kit.trace.traffic import Phase, TransferKind
from kit.training.core.loops import Loop
from kit.training.core.part import PartRole
from kit.training.features.asynchronous.served_steps import (
    NOTE,
    Account,
    Note,
    Pulled,
    ServedServer,
    ServedWorker,
    at_own_pace,
    post_note,
    take_note,
)
from kit.training.features.backup_workers.policy import (
    Quorum,
    QuorumUpdate,
    order_of,
    pieces,
)


class QuorumServer(ServedServer):
    """A parameter server that makes each step of the first gradients that come."""

    _account: Quorum  # of the steps up to the next boundary

    def __init__(self, role: PartRole) -> None:
        super().__init__(role)
        context, job = role.context, role.context.job
        self._first = job.ps[0]
        if context.me != self._first:
            self._beside[self._first] = [NOTE]
        # Of each piece: its chunk, where its sum goes, and what each worker gave.
        self._pieces = [
            (number, context.memory.typed(GRAD, piece), self._shares(piece))
            for number, piece in pieces(job, context.me)
        ]
        self._update = QuorumUpdate(job.optimizer, job.batch, len(job.workers))
        applies = Plan((tuple(map(Apply, self._shard)),), ())
        self._apply = context.program(applies, self._update)

    def _shares(self, piece: Range) -> dict[int, Array]:
        """Return where a piece of each worker's gradient arrives, by its rank."""
        ports, workers = self._context.endpoint.ports, self._context.job.workers
        return {
            rank: ports[worker].window(GRAD, piece, separate=True)
            for rank, worker in enumerate(workers)
            if worker in ports
        }

    def _open(self, workers: Sequence[int], step: int) -> Account:
        job = self._context.job
        return Quorum(workers, job.aggregate, step, job.steps)

    def begin(self, step: int) -> bool:
        """See `ServedServer`."""
        context = self._context
        context.endpoint.stamp.step = step
        self._begun, self._waited_ns = context.endpoint.clock(), 0
        if step < context.job.steps:
            context.reach("step.begun", step)
        return False

    # -- whose turn it is -------------------------------------------------------

    def listen(self) -> tuple[int, tuple[int, bool] | None]:
        """Wait for a push that is complete, or for a worker that is lost."""
        context, endpoint = self._context, self._context.endpoint
        begin, step = endpoint.clock(), self._account.step
        if context.me == self._first:
            worker, is_lost = self._choose()
            post_note(endpoint, context.job.ps[1:], worker, is_last=is_lost)
        else:
            worker, is_lost = take_note(endpoint, self._first)
        endpoint.stamp.step = step
        pushed = None if is_lost else self.take(worker)
        # With what was taken: a wait is explained by what arrived before its end.
        end = endpoint.clock()
        context.meter.span(Phase.WAIT, step, begin, end)
        self._waited_ns += end - begin
        return worker, pushed

    def _choose(self) -> tuple[int, bool]:
        endpoint, coordinator = self._context.endpoint, self._context.job.coordinator
        ports, size = self._awaited(), len(self._shard)

        def complete() -> list[Port]:
            return [port for port in ports if port.n_arrived() >= size]

        def gone() -> list[Port]:
            return [port for port in ports if endpoint.is_gone(port)]

        endpoint.until(lambda: bool(complete() or gone()))
        # A complete push first: what a worker sent before it was lost counts.
        for port in complete():
            self._serves(port.peer)
            return port.peer, False
        port = gone()[0]
        if port.peer == coordinator:
            endpoint.receive(port, NOTE)  # raises: without it there are no boundaries
        return port.peer, True

    # -- what becomes of it -----------------------------------------------------

    def take(self, worker: int) -> tuple[int, bool]:
        """Take what a worker has pushed, which is here."""
        endpoint, meter = self._context.endpoint, self._context.meter
        port = endpoint.ports[worker]
        arrivals = [
            endpoint.receive(port, Expected(GRAD, part)) for part in self._shard
        ]
        at, step = endpoint.clock(), arrivals[0].step
        is_late = step < self._account.step
        kind = TransferKind.LATE if is_late else TransferKind.PUSH
        for arrival in arrivals:
            if size := arrival.hi - arrival.lo:
                about = (worker, kind, endpoint.stamp.epoch, step, size)
                end = max(at, arrival.usable)
                meter.received(*about, arrival.posted, end)
        return step, arrivals[0].halt != NO_HALT

    def advance(self, step: int, workers: Collection[int]) -> None:
        """Update with the mean of what these workers have pushed, and commit."""
        context, clock = self._context, self._context.endpoint.clock
        ranks = {context.job.workers.index(worker) for worker in workers}
        begin = clock()
        for number, out, shares in self._pieces:
            first, *rest = order_of(number, len(context.job.workers), ranks)
            np.copyto(out, shares[first])
            for rank in rest:
                np.add(out, shares[rank], out)
        context.meter.span(Phase.RECEIVE, step, begin, clock())
        context.reach("exchange.reduced", step)
        self._update.weigh(ranks)
        self._apply.reduce(0)
        self._events.commit(step + 1)

    def respond(
        self, workers: Collection[int], step: int, is_ending: bool
    ) -> list[int]:
        """See `ServedServer`."""
        lost = super().respond(workers, step, is_ending)
        if step < self._account.step:  # else the push came too late
            self._note_update(step)
        return lost

    def forget(self, worker: int) -> None:
        """See `ServedServer`; raises `PeerLost` when too few workers are left."""
        super().forget(worker)
        if self._account.is_too_small:
            name, step = self._context.endpoint.names[worker], self._account.step
            left, needed = len(self._account.alive), self._context.job.aggregate
            raise PeerLost(
                f"{name} is gone in step {step}, and {left} workers are left "
                f"where a step needs the gradients of {needed}. Look at "
                f"its log, then start the training again, or give a smaller aggregate.",
                task=name,
                step=step,
            )


class QuorumWorker(ServedWorker):
    """A worker whose gradient counts if it is among the first."""

    def _order(self) -> Sequence[Collection[int]]:
        # To the first server last: it decides, and the others must have the push when
        # they hear of the turn.
        first, *others = self._context.job.ps
        return others, [first]

    def loop(self, step: int) -> Loop:
        """Compute, push and pull until told to come to the boundary."""
        self._expect()
        return at_own_pace(self, step, step < self._context.job.steps)

    def begin(self, step: int) -> bool:
        """See `MemberPart`."""
        stamp = self._context.endpoint.stamp
        stamp.halt = step + 1 if self._wants_halt(step) else NO_HALT
        return super().begin(step)

    def push(self, step: int) -> None:
        """Send the gradients to the first server when all else has left."""
        self._program.reduce(0)
        self._context.endpoint.flush()
        self._program.reduce(1)

    def _share(self, step: int) -> tuple[float, int]:
        return self._worker.compute(step, lambda bucket: None)

    def _answer(self, step: int, notes: Sequence[Note]) -> Pulled:
        if len({*notes}) > 1:
            raise InternalError(f"the servers do not agree on a step: {sorted(notes)}.")
        said, is_last = notes[0]
        number, done = (step, step + 1) if said == step else (None, said)
        return number, done, not is_last
