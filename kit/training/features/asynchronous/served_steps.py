"""Steps at parameter servers that serve each worker in its turn.

Theory of operation. A worker computes, pushes its gradient to all servers and pulls
what they have by then. It says nothing else and knows of no other worker. A server
takes pushes as they come, and its `Account` says
what becomes of each: in asynchronous steps each is an update of its own
(`async_steps`), with backup workers the first R are one (`backup_workers.steps`). An
answer begins with a note: a number of steps, and whether to come to the boundary.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from kit.exchange.layout import Range
from kit.exchange.plan import (
    GRAD,
    NEXT,
    NOW,
    SELF,
    SPARE,
    Copy,
    Op,
    Plan,
    Receive,
    Send,
    Term,
)
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.port import NO_HALT, Expected, Port
from kit.trace.traffic import Phase, TransferKind
from kit.training.core.job import Job
from kit.training.core.loops import Loop
from kit.training.core.part import MemberPart, PartRole

NOTE = Expected(GRAD, Range(0, 0), separate=True)

#: The step that a push was (None: it came too late for its step), how many steps are
#: done, and whether to go on.
Pulled = tuple[int | None, int, bool]


class Fate(Enum):
    """What becomes of a push."""

    COUNTS = "counts"  # its worker waits for others, or for nothing more
    FILLS = "fills"  # it counts, and the step is complete
    LATE = "late"  # the step was complete without it


class Account:
    """What a server knows of the steps between two boundaries.

    Attributes:
        step: the one under way.
        counted: the workers whose pushes it has so far.
        awaited: the workers that may send something.
        is_ending: whether workers that are answered are sent to the boundary.
    """

    def __init__(self, workers: Collection[int], step: int) -> None:
        self.step, self.counted, self.awaited = step, list[int](), set(workers)
        self.is_ending = False

    @property
    def is_over(self) -> bool:
        """Whether everybody has been sent to the boundary, or is lost."""
        return not self.awaited

    def arrive(self, worker: int, step: int, halts: bool) -> Fate:
        """Take a push."""
        raise NotImplementedError

    def complete(self) -> list[int]:
        """End the step; returns the workers to be answered."""
        raise NotImplementedError

    def lose(self, worker: int) -> None:
        """Go on without a worker."""
        self.awaited.discard(worker)

    def freed(self) -> list[int]:
        """Return the workers that are to be answered now that one is lost."""
        return []


# --------------------------------------------------------------------------------------
# What servers and workers say beside arrays: a number, such as that of a step, and
# whether it is the last one. It travels as the step and the halt of an empty message.


class Note(NamedTuple):
    """What a server or a worker has said."""

    number: int
    is_last: bool


def post_note(
    endpoint: Endpoint, peers: Iterable[int], number: int, *, is_last: bool
) -> None:
    """Say a number to some members."""
    endpoint.stamp.step, endpoint.stamp.halt = number, 0 if is_last else NO_HALT
    for peer in peers:
        endpoint.ports[peer].post(*NOTE[:2])


def take_note(endpoint: Endpoint, peer: int) -> Note:
    """Wait for what a member says."""
    arrival = endpoint.receive(endpoint.ports[peer], NOTE)
    return Note(arrival.step, arrival.halt != NO_HALT)


# --------------------------------------------------------------------------------------
# The loops; see `kit.training.core.loops`.


def at_own_pace(part: ServedWorker, step: int, goes_on: bool) -> Loop:
    """Do a worker's steps at parameter servers that take its gradient in its turn."""
    while goes_on:
        yield part.check, ()
        if (yield part.begin, (step,)):
            return
        loss = yield part.calculate, (step,)
        yield part.push, (step,)
        number, step, goes_on = yield part.pull, (step,)
        yield part.commit, (number, step, loss)


def serve(part: ServedServer, account: Account) -> Loop:
    """Do a server's part for workers at their own pace, until all are sent away."""
    yield part.begin, (account.step,)
    while not account.is_over:
        yield part.check, ()
        worker, pushed = yield part.listen, ()
        fate = Fate.COUNTS
        if pushed is None:
            account.lose(worker)
            yield part.forget, (worker,)
        else:
            fate = account.arrive(worker, *pushed)
        step, workers = account.step, [worker]
        if fate is Fate.COUNTS:
            step, workers = step - 1, account.freed()
            if not workers:
                continue
        if fate is Fate.FILLS:
            yield part.advance, (step, account.counted)
            workers = account.complete()
        lost = yield part.respond, (workers, step, account.is_ending)
        for gone in lost:
            account.lose(gone)
            yield part.forget, (gone,)
        if fate is Fate.FILLS:
            yield part.begin, (account.step,)


# --------------------------------------------------------------------------------------
# The parts.


class ServedWorker(MemberPart):
    """A worker at its own pace."""

    def __init__(self, role: PartRole) -> None:
        super().__init__(role)
        assert role.worker is not None, "only a worker computes"
        self._worker, self._waited_ns = role.worker, 0
        job = role.context.job
        pushed = tuple(pushes(job, servers) for servers in self._order())
        plan = Plan(pushed, pulls(job, self._worker.rank))
        self._program = role.context.program(plan)

    def _order(self) -> Sequence[Collection[int]]:
        """Return the servers to which it pushes, those of each group after the last."""
        return (self._context.job.ps,)

    def _expect(self) -> None:
        job, rank = self._context.job, self._worker.rank
        scripts = {ps: answer_script(job, ps, rank) for ps in job.ps}
        pairs = {ps: (script, script) for ps, script in scripts.items()}
        self._context.endpoint.expect(pairs, 0)

    def push(self, step: int) -> None:
        """Send what was computed to the servers."""
        raise NotImplementedError

    def pull(self, step: int) -> Pulled:
        """Take the newest parameters, when all servers have answered."""
        context, endpoint = self._context, self._context.endpoint
        # The notes of all servers come before any parameters, so this measures the
        # wait for our turn and not the transfer.
        notes = [take_note(endpoint, server) for server in context.job.ps]
        waited = endpoint.clock()
        context.meter.span(Phase.WAIT, step, self._computed, waited)
        context.reach("exchange.reduced", step)
        self._program.finish()
        self._waited_ns = waited - self._computed + self._program.waited_ns
        return self._answer(step, notes)

    def commit(self, number: int | None, done: int, loss: float) -> None:
        """End the step; one that came too late, without a number, does not count."""
        step = self._context.endpoint.stamp.step
        row, late = (step, done - step) if number is None else (number, number - step)
        if number is None:
            loss, self._examples = float("nan"), 0
        self._note(row, loss, self._waited_ns, staleness=late)
        self._context.reach("exchange.done", row)
        self._events.commit(done)
        self._events.end(row, None if number is None else loss)

    def _answer(self, step: int, notes: Sequence[Note]) -> Pulled:
        raise NotImplementedError


class ServedServer(MemberPart):
    """A parameter server that serves workers in their turn."""

    def __init__(self, role: PartRole) -> None:
        super().__init__(role)
        context, job, ports = (
            role.context,
            role.context.job,
            role.context.endpoint.ports,
        )
        self._shard = held(job, context.me)
        # The messages of a push, and what others send beside the workers.
        self._push = [Expected(GRAD, part, separate=True) for part in self._shard]
        self._beside: dict[int, list[Expected]] = {}
        self._answers = {
            worker: context.program(Plan((answer(job, context.me, rank),), ()))
            for rank, worker in enumerate(job.workers)
            if worker in ports  # others are lost already
        }
        self._order = [*self._answers]  # the worker that was served last comes last
        self._account: Account  # of the steps up to the next boundary
        self._waited_ns = 0

    def loop(self, step: int) -> Loop:
        """Do steps until all workers are sent to the boundary."""
        endpoint, ports = self._context.endpoint, self._context.endpoint.ports
        workers = [worker for worker in self._context.job.workers if worker in ports]
        scripts = {**dict.fromkeys(workers, self._push), **self._beside}
        endpoint.expect(
            {server: (script,) * 2 for server, script in scripts.items()}, 0
        )
        self._account = self._open(workers, step)
        return serve(self, self._account)

    def begin(self, step: int) -> bool:
        """Begin a step; here with the first push."""
        return False

    def listen(self) -> tuple[int, tuple[int, bool] | None]:
        """Take the next push that is complete, or hear that its worker is lost.

        Returns the worker, and of which step its push is, and whether it asks for a
        boundary; or None, if it is lost.
        """
        raise NotImplementedError

    def advance(self, step: int, workers: Collection[int]) -> None:
        """Update the parameters with what these workers have pushed."""
        raise NotImplementedError

    def respond(
        self, workers: Collection[int], step: int, is_ending: bool
    ) -> list[int]:
        """Answer workers, for whom `step` counts, or steps up to it are done.

        Returns those that are lost.
        """
        endpoint = self._context.endpoint
        under_way = endpoint.stamp.step
        for worker in workers:
            post_note(endpoint, [worker], step, is_last=is_ending)
            self._answers[worker].reduce(0)
        endpoint.stamp.step = under_way
        return []

    def forget(self, worker: int) -> None:
        """Go on without a worker."""
        self._context.endpoint.forget(worker)

    def _open(self, workers: Sequence[int], step: int) -> Account:
        """Return the account of the steps from `step` on."""
        raise NotImplementedError

    def _awaited(self) -> list[Port]:
        ports, awaited = self._context.endpoint.ports, self._account.awaited
        return [ports[worker] for worker in self._order if worker in awaited]

    def _serves(self, worker: int) -> None:
        self._order.remove(worker)
        self._order.append(worker)

    def _note_update(self, step: int) -> None:
        self._note(step, float("nan"), self._waited_ns)
        self._context.reach("step.done", step)


# --------------------------------------------------------------------------------------
# What moves between a worker and a server.


def held(job: Job, server: int) -> tuple[Range, ...]:
    """Return what a server holds; one that holds nothing gets one empty message."""
    shard = job.group.shards[job.ps.index(server)]
    return tuple(part for part in shard if part.size) or (NOTE.range,)


def pushes(job: Job, servers: Iterable[int]) -> tuple[Op, ...]:
    """Return what a worker does to hand its gradients to some servers."""
    return tuple(
        Send(server, GRAD, part, TransferKind.PUSH)
        for server in servers
        for part in held(job, server)
    )


def answer(job: Job, server: int, rank: int) -> tuple[Op, ...]:
    """Return what a server does, after its note, to answer a worker."""
    shard, box, worker = held(job, server), SPARE + rank, job.workers[rank]
    copies: list[Op] = [Copy(Term(SELF, NOW), box, part) for part in shard]
    return (*copies, *(Send(worker, box, part, TransferKind.PULL) for part in shard))


def pulls(job: Job, rank: int) -> tuple[Op, ...]:
    """Return what a worker does, after all notes, to take the answers."""
    box = SPARE + rank
    return tuple(
        op
        for server in job.ps
        for part in held(job, server)
        for op in (
            Receive(server, box, part, TransferKind.PULL),
            Copy(Term(server, box), NEXT, part),
        )
    )


def answer_script(job: Job, server: int, rank: int) -> list[Expected]:
    """Return the messages of an answer."""
    parts = [Expected(SPARE + rank, part, separate=True) for part in held(job, server)]
    # A worker that had to wait is told its own update too.
    notes = [NOTE] if job.staleness is None else [NOTE, NOTE]
    return [*notes, *parts]
