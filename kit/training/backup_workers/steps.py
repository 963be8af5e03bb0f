"""Steps of the first R of N gradients: a parameter server's part, and a worker's.

A worker pushes its gradient of a step to all servers, to the first one last. It is
answered with the parameters after that step if the gradient counts, and with the newest
ones if it comes too late; then it computes the gradient of the step that these are for,
and skips its split of the mini-batches in between. A push is complete when all its
messages are there, so a worker that stops halfway holds nobody up.

The first server decides: it takes pushes as they become complete. It tells the other
servers whose turn it is, by an empty message whose step is the worker's number (with a
halt: that worker is lost), so they do the same in the same order, each with its own
parameters (`kit.training.backup_workers.policy`). By then they have the push already,
since the worker sent theirs first.

An answer begins with a note. Its step is that of the gradient if it counts, else the
number of steps done; a halt says that the worker has to come to the boundary. A worker
takes a copy, made for it alone: the server need not wait until it has been read.
"""

from __future__ import annotations

from functools import partial

from kit.errors import InternalError, PeerLost
from kit.exchange.execution.program import Program
from kit.exchange.plan import GRAD, Apply, Plan
from kit.exchange.ports.port import NO_HALT, Expected, Port
from kit.trace.traffic import Phase, TransferKind
from kit.training.backup_workers.policy import (
    NOTE,
    Fate,
    Quorum,
    QuorumUpdate,
    Sums,
    answer,
    answer_script,
    held,
    pieces,
    pulls,
    pushes,
)
from kit.training.coordination.coordinator import TrainingCoordinator
from kit.training.member.context import MemberContext
from kit.training.member.step_events import Rounds, StepEvents
from kit.training.worker.worker import TrainingWorker


class QuorumServer(Rounds):
    """A parameter server that makes each step of the first gradients that come."""

    def __init__(self, context: MemberContext, events: StepEvents) -> None:
        super().__init__(context, events)
        job = context.job
        self._first = job.ps[0]
        self._shard = held(job, context.me)
        self._sums = _sums_of(context)
        self._update = QuorumUpdate(job.optimizer, job.batch, len(job.workers))
        bind = partial(
            Program,
            endpoint=context.endpoint,
            memory=context.memory,
            meter=context.meter,
            n_slots=len(job.optimizer.slots),
            expects=False,
        )
        applies = tuple(Apply(one) for one in self._shard)
        self._apply = bind(Plan((applies,), ()), update=self._update)
        self._answers = {
            worker: bind(Plan((answer(job, context.me, rank),), ()))
            for rank, worker in enumerate(job.workers)
            if worker in context.endpoint.ports  # others are lost already
        }
        self._turns = list(job.workers)  # the one served last comes last

    def run(self, step: int) -> None:
        """Do steps until a halt or the end; then send every worker to the boundary."""
        context, job = self._context, self._context.job
        self._expect()
        workers = [worker for worker in job.workers if worker in context.endpoint.ports]
        quorum = Quorum(workers, job.quorum, step, job.steps)
        self._begin(step)
        while not quorum.is_over:
            context.endpoint.check()
            worker, is_lost = self._next(quorum)
            if is_lost:
                self._lose(quorum, worker)
            else:
                self._serve(quorum, worker)
        context.step = quorum.step

    def _expect(self) -> None:
        context, endpoint = self._context, self._context.endpoint
        push = [Expected(GRAD, one, apart=True) for one in self._shard]
        scripts = {w: (push, push) for w in context.job.workers if w in endpoint.ports}
        if context.me != self._first:
            scripts[self._first] = ([NOTE], [NOTE])
        endpoint.expect(scripts, 0)

    def _begin(self, step: int) -> None:
        context = self._context
        context.endpoint.stamp.step = step
        self._begun, self._waited_ns = context.endpoint.clock(), 0
        if step < context.job.steps:
            context.reach("step.begun", step)

    # -- whose turn it is -------------------------------------------------------

    def _next(self, quorum: Quorum) -> tuple[int, bool]:
        """Wait for a worker's push, or for the news that one is lost."""
        context, endpoint = self._context, self._context.endpoint
        begin, step = endpoint.clock(), quorum.step
        if context.me == self._first:
            found = self._choose(quorum)
            for server in context.job.ps[1:]:
                endpoint.stamp.step, is_lost = found
                endpoint.stamp.halt = 0 if is_lost else NO_HALT
                endpoint.ports[server].post(*NOTE[:2])
        else:
            turn = endpoint.receive(endpoint.ports[self._first], NOTE)
            found = turn.step, turn.halt != NO_HALT
        endpoint.stamp.step, end = step, endpoint.clock()
        context.meter.span(Phase.WAIT, step, begin, end)
        self._waited_ns += end - begin
        return found

    def _choose(self, quorum: Quorum) -> tuple[int, bool]:
        endpoint, coordinator = self._context.endpoint, self._context.job.coordinator
        awaited, size = quorum.awaited, len(self._shard)
        ports = [endpoint.ports[worker] for worker in self._turns if worker in awaited]

        def complete() -> list[Port]:
            return [port for port in ports if port.n_arrived() >= size]

        def gone() -> list[Port]:
            return [port for port in ports if endpoint.is_gone(port)]

        endpoint.until(lambda: bool(complete() or gone()))
        # A complete push first: what a worker sent before it was lost counts.
        for port in complete():
            self._turns.remove(port.peer)
            self._turns.append(port.peer)
            return port.peer, False
        port = gone()[0]
        if port.peer == coordinator:
            endpoint.receive(port, NOTE)  # raises: without it there are no boundaries
        return port.peer, True

    # -- what becomes of it -----------------------------------------------------

    def _serve(self, quorum: Quorum, worker: int) -> None:
        endpoint = self._context.endpoint
        port = endpoint.ports[worker]
        arrivals = [endpoint.receive(port, Expected(GRAD, one)) for one in self._shard]
        at, step = endpoint.clock(), arrivals[0].step
        fate = quorum.arrive(worker, step, halts=arrivals[0].halt != NO_HALT)
        kind = TransferKind.LATE if fate is Fate.LATE else TransferKind.PUSH
        for arrival in arrivals:
            if size := arrival.hi - arrival.lo:
                about = (worker, kind, endpoint.stamp.epoch, step, size)
                end = max(at, arrival.usable)
                self._context.meter.received(*about, arrival.posted, end)
        if fate is Fate.LATE:
            self._reply(worker, quorum.step, quorum.is_ending)
        elif fate is Fate.FILLS:
            self._finish(quorum)

    def _finish(self, quorum: Quorum) -> None:
        context, endpoint, step = self._context, self._context.endpoint, quorum.step
        ranks = {context.job.workers.index(worker) for worker in quorum.counted}
        # A worker that was lost after its push counts, and gets no answer.
        counted = [worker for worker in quorum.counted if worker in quorum.alive]
        begin = endpoint.clock()
        self._sums.add(ranks)
        context.meter.span(Phase.RECEIVE, step, begin, endpoint.clock())
        context.reach("exchange.reduced", step)
        self._update.weigh(ranks)
        self._apply.reduce(0)
        self._events.commit(step + 1)
        quorum.complete()
        for worker in counted:
            self._reply(worker, step, quorum.is_ending)
        self._note(step, float("nan"), 0, self._begun, 0, self._waited_ns)
        context.reach("step.done", step)
        self._begin(step + 1)

    def _reply(self, worker: int, step: int, is_ending: bool) -> None:
        stamp, now = self._context.endpoint.stamp, self._context.endpoint.stamp.step
        stamp.step, stamp.halt = step, 0 if is_ending else NO_HALT
        self._context.endpoint.ports[worker].post(*NOTE[:2])
        self._answers[worker].reduce(0)
        stamp.step = now

    def _lose(self, quorum: Quorum, worker: int) -> None:
        endpoint = self._context.endpoint
        quorum.lose(worker)
        endpoint.forget(worker)
        if quorum.is_too_small:
            name, left = endpoint.names[worker], len(quorum.alive)
            needed = self._context.job.quorum
            raise PeerLost(
                f"{name} is gone in step {quorum.step}, and {left} workers are left "
                f"where a step needs the gradients of {needed}. Look at "
                f"its log, then start the training again, or give a smaller aggregate.",
                task=name,
                step=quorum.step,
            )


def _sums_of(context: MemberContext) -> Sums:
    job, memory = context.job, context.memory
    ports = {
        rank: context.endpoint.ports[worker]
        for rank, worker in enumerate(job.workers)
        if worker in context.endpoint.ports
    }
    return Sums(
        len(job.workers),
        [
            (
                number,
                memory.typed(GRAD, piece),
                {
                    rank: port.window(GRAD, piece, apart=True)
                    for rank, port in ports.items()
                },
            )
            for number, piece in pieces(job, context.me)
        ],
    )


class QuorumWorker(Rounds):
    """A worker whose gradient counts if it is among the first."""

    def __init__(
        self,
        context: MemberContext,
        place: TrainingWorker,
        events: StepEvents,
        coordinator: TrainingCoordinator | None,
    ) -> None:
        super().__init__(context, events, coordinator)
        self._place = place
        first, *others = context.job.ps
        pushed = pushes(context.job, others), pushes(context.job, [first])
        plan = Plan(pushed, pulls(context.job, place.rank))
        self._program = Program(
            plan, context.endpoint, context.memory, context.meter, expects=False
        )

    def run(self, step: int) -> None:
        """Compute, push and pull until told to come to the boundary."""
        job, rank = self._context.job, self._place.rank
        scripts = {server: answer_script(job, server, rank) for server in job.ps}
        self._context.endpoint.expect(
            {ps: (one, one) for ps, one in scripts.items()}, 0
        )
        goes_on = step < job.steps
        while goes_on:
            self._context.endpoint.check()
            step, goes_on = self._step(step)

    def _step(self, step: int) -> tuple[int, bool]:
        """Do a step; returns which one is next, and whether to go on."""
        context, program = self._context, self._program
        endpoint = context.endpoint
        stamp, clock = endpoint.stamp, endpoint.clock
        program.waited_ns, stamp.step = 0, step
        begin = context.own_part.begin()
        stamp.halt = step + 1 if self._wants_halt(step) else NO_HALT
        self._events.begin(step)
        loss, examples = self._place.compute(step, lambda bucket: None)
        computed = context.own_part.end(step)
        context.reach("compute.done", step)
        # To the first server last, and only when all else has left: it decides, and the
        # others must have the push when they hear of the turn.
        program.reduce(0)
        endpoint.flush()
        program.reduce(1)
        done, goes_on = self._hear()
        waited = clock()
        context.meter.span(Phase.WAIT, step, computed, waited)
        context.reach("exchange.reduced", step)
        program.finish()
        following = step + 1 if done == step else done
        if done != step:  # it was late: nothing of it counts
            loss, examples = float("nan"), 0
        late = 0 if done == step else following - step
        times = begin, computed - begin, waited - computed + program.waited_ns
        self._note(step, loss, examples, *times, staleness=late)
        context.reach("exchange.done", step)
        self._events.commit(following)
        self._events.end(step, loss if done == step else None)
        return following, goes_on

    def _hear(self) -> tuple[int, bool]:
        """Take the notes of all servers: the step they answer, whether to go on."""
        endpoint = self._context.endpoint
        servers = [endpoint.ports[ps] for ps in self._context.job.ps]
        notes = [endpoint.receive(server, NOTE) for server in servers]
        found = {(note.step, note.halt == NO_HALT) for note in notes}
        if len(found) > 1:
            raise InternalError(f"the servers do not agree on a step: {sorted(found)}.")
        return found.pop()
