"""Asynchronous steps: each worker at its own pace, updates one after the other.

A worker computes, pushes its gradient to the servers and pulls what they have by then,
without waiting for any other worker. A step is one update by one worker; the first
server counts them and hands out the right to compute the next one, so a training of k
steps does exactly k updates, and a fast worker does more of them. The staleness of an
update is the number of updates that others made between its pull and its push.

Every push and every pull begins with a note, an empty message: it carries the number of
updates so far. A note with a halt says goodbye: from a worker, that it comes to the
boundary and pushes nothing; from a server, that the worker must come to it.
"""

from __future__ import annotations

from kit.errors import PeerLost
from kit.exchange.execution.program import Program
from kit.exchange.layout import Range
from kit.exchange.plan import (
    GRAD,
    NEXT,
    SELF,
    SPARE,
    Add,
    Apply,
    Copy,
    Op,
    Plan,
    Receive,
    Send,
    Term,
)
from kit.exchange.ports.port import NO_HALT, Expected, Port
from kit.trace.traffic import Phase, TransferKind
from kit.training.coordination.coordinator import TrainingCoordinator
from kit.training.member.context import MemberContext
from kit.training.member.step_events import Rounds, StepEvents
from kit.training.optimizers.rule import MeanUpdate
from kit.training.worker.worker import TrainingWorker

_NOTE = Expected(GRAD, Range(0, 0), apart=True)


class AsyncServer(Rounds):
    """A parameter server that serves workers in the order in which they come."""

    def __init__(self, context: MemberContext, events: StepEvents) -> None:
        super().__init__(context, events)
        job = context.job
        self._is_first = context.me == job.ps[0]
        self._shard = job.group.shards[job.ps.index(context.me)]
        self._programs = {
            worker: Program(
                _serve(self._shard, worker, rank),
                context.endpoint,
                context.memory,
                context.meter,
                update=MeanUpdate(job.optimizer, 1),
                n_slots=len(job.optimizer.slots),
                expects=False,
            )
            for rank, worker in enumerate(job.workers)
        }

    def run(self, step: int) -> None:
        """Serve until every worker has said goodbye."""
        context, endpoint = self._context, self._context.endpoint
        script = _script(GRAD, self._shard)
        workers = [one for one in context.job.workers if one in endpoint.ports]
        waiting = [endpoint.ports[worker] for worker in workers]
        endpoint.expect(dict.fromkeys(workers, (script, script)), 0)
        # Each worker begins one update unasked (`goes_on` in `AsyncWorker.run`); the
        # first server hands out all further ones, so that there are exactly `steps`.
        issued, leaving = min(context.job.steps, step + len(waiting)), False
        while waiting:
            endpoint.check()
            port = endpoint.any_of(waiting)
            waiting.remove(port)
            try:
                if endpoint.receive(port, _NOTE).halt != NO_HALT:
                    leaving = True  # one goes to the boundary: send all others there
                    continue
                may_go_on = not self._is_first or issued < context.job.steps
                more = not leaving and may_go_on
                self._serve(port, step, halt=NO_HALT if more else 0)
            except PeerLost:
                if context.job.generation is None or not endpoint.is_gone(port):
                    raise
                # The others end this generation at the next boundary. The step is as it
                # was committed: a push that was complete counts, although its answer
                # was lost.
                endpoint.forget(port.peer)
                leaving, step = True, context.step
                continue
            issued += more
            step += 1
            waiting.append(port)  # the one served last comes last
        context.step = step

    def _serve(self, port: Port, step: int, halt: int) -> None:
        context, endpoint = self._context, self._context.endpoint
        stamp, program = endpoint.stamp, self._programs[port.peer]
        begin, program.waited_ns, stamp.step = endpoint.clock(), 0, step
        context.reach("step.begun", step)
        program.reduce(0)
        program.reduce(1)
        context.reach("exchange.reduced", step)
        stamp.step, stamp.halt = step + 1, halt
        try:
            port.post(*_NOTE[:2])
            program.finish()
        finally:  # a complete push counts, even if its worker never hears of it
            self._note(step, float("nan"), 0, begin, 0, program.waited_ns)
            self._events.commit(step + 1)
        context.reach("step.done", step)


class AsyncWorker(Rounds):
    """A worker at its own pace."""

    def __init__(
        self,
        context: MemberContext,
        place: TrainingWorker,
        events: StepEvents,
        coordinator: TrainingCoordinator | None,
    ) -> None:
        super().__init__(context, events, coordinator)
        self._place, self._rank = place, place.rank
        plan = _work(context, self._rank)
        self._program = Program(
            plan, context.endpoint, context.memory, context.meter, expects=False
        )

    def run(self, step: int) -> None:
        """Compute, push and pull until there is no more to do, then say goodbye."""
        context, endpoint = self._context, self._context.endpoint
        shards = zip(context.job.ps, context.job.group.shards, strict=True)
        endpoint.expect(
            {ps: (_script(SPARE + self._rank, shard),) * 2 for ps, shard in shards}, 0
        )
        goes_on = step + self._rank < context.job.steps
        # No step is common to all, so no halt can travel with one: the coordinator's
        # worker says goodbye, and the servers then send all others to the boundary.
        while goes_on and not self._wants_halt(step - 1):
            endpoint.check()
            step, goes_on = self._update(step)
        endpoint.stamp.halt = 0
        for server in context.job.ps:
            endpoint.ports[server].post(*_NOTE[:2])
        endpoint.flush()

    def _update(self, version: int) -> tuple[int, bool]:
        """Make one update; returns the version pulled, and whether to go on."""
        context, endpoint = self._context, self._context.endpoint
        stamp, clock = endpoint.stamp, endpoint.clock
        self._program.waited_ns, stamp.step = 0, version
        begin = context.own_part.begin()
        self._events.begin(version)
        loss, examples = self._place.compute_next(version)
        computed = context.own_part.end(version)
        context.reach("compute.done", version)
        stamp.halt = NO_HALT
        for server in context.job.ps:
            endpoint.ports[server].post(*_NOTE[:2])
        self._program.reduce(0)
        # The notes of all servers come before any parameters, so this measures the
        # wait for our turn and not the transfer.
        servers = [endpoint.ports[ps] for ps in context.job.ps]
        notes = [endpoint.receive(server, _NOTE) for server in servers]
        waited = clock()
        context.meter.span(Phase.WAIT, version, computed, waited)
        self._program.finish()
        number, wait = notes[0].step, waited - computed + self._program.waited_ns
        done, times = number - 1, (begin, computed - begin, wait)
        self._note(done, loss, examples, *times, staleness=done - version)
        self._events.commit(number)
        self._events.end(done, loss)
        return number, all(note.halt == NO_HALT for note in notes)


def _script(region: int, shard: tuple[Range, ...]) -> list[Expected]:
    parts = [Expected(region, part, apart=True) for part in shard]
    return [_NOTE, *parts]


def _serve(shard: tuple[Range, ...], worker: int, rank: int) -> Plan:
    box = SPARE + rank  # a copy for this worker: the next update must not wait for it
    takes: list[Op] = [Receive(worker, GRAD, part, TransferKind.PUSH) for part in shard]
    takes += [Add(part, (Term(worker, GRAD),)) for part in shard]
    gives: list[Op] = [Copy(Term(SELF, NEXT), box, part) for part in shard]
    gives += [Send(worker, box, part, TransferKind.PULL) for part in shard]
    return Plan((tuple(takes), tuple(Apply(part) for part in shard)), tuple(gives))


def _work(context: MemberContext, rank: int) -> Plan:
    pairs = [
        (server, held)
        for server, shard in zip(context.job.ps, context.job.group.shards, strict=True)
        for held in shard
    ]
    pushes = tuple(
        Send(server, GRAD, held, TransferKind.PUSH) for server, held in pairs
    )
    pulls: list[Op] = [
        Receive(server, SPARE + rank, held, TransferKind.PULL) for server, held in pairs
    ]
    pulls += [Copy(Term(server, SPARE + rank), NEXT, held) for server, held in pairs]
    return Plan((pushes,), tuple(pulls))
