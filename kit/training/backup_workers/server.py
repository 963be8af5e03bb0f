"""A parameter server that makes each step of the first R of N gradients.

A worker pushes its gradient of a step to all servers, to the first one last. It is
answered with the parameters after that step if the gradient counts, and with the newest
ones if it comes too late; then it computes the gradient of the step that these are for,
and its split of the mini-batches between is skipped. A push is complete when all its
messages are there, so a worker that stops halfway holds nobody up.

The first server decides: it takes pushes as they become complete. It tells the other
servers whose turn it is, by an empty message whose step is the worker's number (with a
halt: that worker is lost), so they do the same in the same order, each with its own
parameters (`kit.training.backup_workers.policy`). When they are told, they have the
push already.

An answer begins with a note. Its step is that of the gradient if it counts, else the
number of steps done; a halt says that the worker has to come to the boundary. A worker
takes a copy, made for it alone: the server need not wait until it has been read.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import numpy as np

from kit.errors import PeerLost
from kit.exchange.execution.program import Program
from kit.exchange.plan import GRAD, Apply, Plan
from kit.exchange.ports.memory import Array
from kit.exchange.ports.port import NO_HALT, Expected, Port
from kit.trace.traffic import Phase, StepRow, TransferKind
from kit.training.backup_workers.policy import (
    NOTE,
    Fate,
    Quorum,
    QuorumUpdate,
    answer,
    held,
    order_of,
    pieces,
)
from kit.training.member.context import MemberContext

_NAN = float("nan")


class QuorumServer:
    """A parameter server that makes each step of the first gradients that come."""

    def __init__(self, part: MemberContext) -> None:
        """Bind what is added, updated and handed out."""
        job = part.job
        self._part, self._first = part, job.ps[0]
        self._shard = held(job, part.me)
        self._sums = Sums(part)
        self._update = QuorumUpdate(job.optimizer, job.batch, len(job.workers))
        bind = partial(
            Program,
            endpoint=part.endpoint,
            memory=part.memory,
            meter=part.meter,
            n_slots=len(job.optimizer.slots),
            expects=False,
        )
        applies = tuple(Apply(one) for one in self._shard)
        self._apply = bind(Plan((applies,), ()), update=self._update)
        self._answers = {
            worker: bind(Plan((answer(job, part.me, rank),), ()))
            for rank, worker in enumerate(job.workers)
            if worker in part.endpoint.ports  # else it is lost already
        }
        self._turns = list(job.workers)  # the one served last comes last

    def run(self, step: int) -> None:
        """Do steps until a halt or the end; then send every worker to the boundary."""
        part, job = self._part, self._part.job
        self._expect()
        workers = [worker for worker in job.workers if worker in part.endpoint.ports]
        quorum = Quorum(workers, job.quorum, step, job.steps)
        self._begin(step)
        while not quorum.is_over:
            part.endpoint.check()
            worker, is_lost = self._next(quorum)
            if is_lost:
                self._lose(quorum, worker)
            else:
                self._serve(quorum, worker)
        part.step = quorum.step

    def close(self) -> None:
        """Nothing was started."""

    def _expect(self) -> None:
        part, endpoint = self._part, self._part.endpoint
        push = [Expected(GRAD, one, apart=True) for one in self._shard]
        scripts = {w: (push, push) for w in part.job.workers if w in endpoint.ports}
        if part.me != self._first:
            turn = [Expected(GRAD, NOTE, apart=True)]
            scripts[self._first] = (turn, turn)
        endpoint.expect(scripts, 0)

    def _begin(self, step: int) -> None:
        part = self._part
        part.endpoint.stamp.step = step
        self._begun, self._waited_ns = part.endpoint.clock(), 0
        if step < part.job.steps:
            part.reach("step.begun", step)

    # -- whose turn it is -------------------------------------------------------

    def _next(self, quorum: Quorum) -> tuple[int, bool]:
        """Wait for a worker's push, or for the news that one is lost."""
        part, endpoint = self._part, self._part.endpoint
        begin, step = endpoint.clock(), quorum.step
        if part.me == self._first:
            found = self._choose(quorum)
            for server in part.job.ps[1:]:
                self._post_turn(endpoint.ports[server], *found)
        else:
            turn = endpoint.receive(endpoint.ports[self._first], 0)
            found = turn.step, turn.halt != NO_HALT
        endpoint.stamp.step, end = step, endpoint.clock()
        part.meter.span(Phase.WAIT, step, begin, end)
        self._waited_ns += end - begin
        return found

    def _choose(self, quorum: Quorum) -> tuple[int, bool]:
        endpoint, leader = self._part.endpoint, self._part.job.coordinator
        awaited, size = quorum.awaited, len(self._shard)
        ports = [endpoint.ports[worker] for worker in self._turns if worker in awaited]

        def complete() -> list[Port]:
            return [port for port in ports if port.n_arrived() >= size]

        def gone() -> list[Port]:
            return [port for port in ports if port.lost or port.peer in endpoint.lost]

        endpoint.until(lambda: bool(complete() or gone()))
        for port in complete():
            self._turns.remove(port.peer)
            self._turns.append(port.peer)
            return port.peer, False
        port = gone()[0]
        if port.peer == leader:  # nobody agrees on anything without it
            endpoint.receive(port, 0)
        return port.peer, True

    def _post_turn(self, port: Port, worker: int, is_lost: bool) -> None:
        stamp = self._part.endpoint.stamp
        stamp.step, stamp.halt = worker, 0 if is_lost else NO_HALT
        port.post(GRAD, NOTE)

    # -- what becomes of it -----------------------------------------------------

    def _serve(self, quorum: Quorum, worker: int) -> None:
        endpoint = self._part.endpoint
        port = endpoint.ports[worker]
        arrivals = [endpoint.receive(port, one.size) for one in self._shard]
        at, step = endpoint.clock(), arrivals[0].step
        fate = quorum.arrive(worker, step, halts=arrivals[0].halt != NO_HALT)
        kind = TransferKind.LATE if fate is Fate.LATE else TransferKind.PUSH
        for one, found in zip(self._shard, arrivals, strict=True):
            if one.size:
                about = (worker, kind, endpoint.stamp.epoch, step, one.size)
                end = max(at, found.usable)
                self._part.meter.received(*about, found.posted, end)
        if fate is Fate.LATE:
            self._reply(worker, quorum.step, quorum.is_ending)
        elif fate is Fate.FILLS:
            self._finish(quorum)

    def _finish(self, quorum: Quorum) -> None:
        part, endpoint, step = self._part, self._part.endpoint, quorum.step
        ranks = {part.job.workers.index(worker) for worker in quorum.counted}
        counted = [worker for worker in quorum.counted if worker in quorum.alive]
        begin = endpoint.clock()
        self._sums.add(ranks)
        part.meter.span(Phase.RECEIVE, step, begin, endpoint.clock())
        part.reach("exchange.reduced", step)
        self._update.weigh(ranks)
        self._apply.reduce(0)
        part.commit(step + 1)
        quorum.complete()
        for worker in counted:
            self._reply(worker, step, quorum.is_ending)
        row = (part.me, step, endpoint.stamp.epoch, _NAN, 0, self._begun)
        part.meter.stepped(StepRow(*row, endpoint.clock(), 0, self._waited_ns, 0))
        part.reach("step.done", step)
        self._begin(step + 1)

    def _reply(self, worker: int, step: int, is_ending: bool) -> None:
        stamp, now = self._part.endpoint.stamp, self._part.endpoint.stamp.step
        stamp.step, stamp.halt = step, 0 if is_ending else NO_HALT
        self._part.endpoint.ports[worker].post(GRAD, NOTE)
        self._answers[worker].reduce(0)
        stamp.step = now

    def _lose(self, quorum: Quorum, worker: int) -> None:
        endpoint = self._part.endpoint
        quorum.lose(worker)
        endpoint.forget(worker)
        if quorum.is_too_small:
            name, left = endpoint.names[worker], len(quorum.alive)
            raise PeerLost(
                f"{name} is gone in step {quorum.step}, and {left} workers are left "
                f"where a step needs the gradients of {self._part.job.quorum}. Look at "
                f"its log, then start the training again, or give a smaller aggregate.",
                task=name,
                step=quorum.step,
            )


class Sums:
    """The sum of some workers' gradients, in the order that is promised."""

    def __init__(self, part: MemberContext) -> None:
        """Look up where each worker's gradients are."""
        memory, self._n = part.memory, len(part.job.workers)
        ports = {
            rank: part.endpoint.ports[worker]
            for rank, worker in enumerate(part.job.workers)
            if worker in part.endpoint.ports
        }
        self._pieces: list[tuple[int, Array, dict[int, Array]]] = [
            (
                number,
                memory.typed(GRAD, piece),
                {
                    rank: port.window(GRAD, piece, apart=True)
                    for rank, port in ports.items()
                },
            )
            for number, piece in pieces(part.job, part.me)
        ]

    def add(self, ranks: Collection[int]) -> None:
        """Set our GRAD to the sum of the gradients of these workers."""
        for number, out, views in self._pieces:
            first, *rest = order_of(number, self._n, ranks)
            np.copyto(out, views[first])
            for rank in rest:
                np.add(out, views[rank], out)
