"""What a member does between two boundaries, phase by phase: begin, compute, exchange.

Pure. Theory of operation. A loop knows the order of the phases and decides when there
is no other step. It yields the next phase with its values and is sent what came of it.
How a phase is carried out is the method of its name of the member's *part*
(`kit.training.core.part`).

`live` carries out one loop in a member's own thread, where a phase waits for the other
members. A replay has the loops of all members in one thread, and lets those go on that
need not wait (`kit.recording.recomputing.recomputation`). So there is one account of
what a step is. A phase is never a message: a whole exchange is one call of a compiled
loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from enum import Enum, IntEnum, auto
from typing import Any

from kit.exchange.ports.port import Stamp


class StepPhase(IntEnum):
    """One act of a member, with the values that it is yielded with.

    A number and a plain tuple: a class for each kind would cost a small step 2 us.
    """

    #: (step): begin it, and announce a halt that is due. Gives whether there is no such
    #: step: the member has to come to the boundary.
    BEGIN = auto()
    #: (step): compute this member's share, if it has one; gives the loss.
    CALCULATE = auto()
    #: (step): exchange with all members of the plan, which do the same step.
    EXCHANGE = auto()
    #: (step): send what was computed to the servers.
    PUSH = auto()
    #: (step): take the newest parameters when all servers have answered. Gives
    #: `Pulled`: the step that the push was (None: it came too late for its step), how
    #: many steps are done, and whether to go on.
    PULL = auto()
    #: (number, done, loss): make the next parameters those that hold. The number is
    #: that of the step that was done, None if its gradient came too late. Then there
    #: are `done` steps.
    COMMIT = auto()
    #: (): take the next push that is complete, or hear that its worker is lost. Gives a
    #: worker, and of which step its push is, and whether it asks for a boundary; or
    #: None, if it is lost.
    LISTEN = auto()
    #: (step, workers): update the parameters with what these workers have pushed.
    ADVANCE = auto()
    #: (workers, step, is_ending): answer workers; `step` counts, or steps up to it are
    #: done. Gives who is lost.
    RESPOND = auto()
    #: (worker): go on without a worker that is lost.
    FORGET = auto()


BEGIN, CALCULATE, EXCHANGE = StepPhase.BEGIN, StepPhase.CALCULATE, StepPhase.EXCHANGE
PUSH, PULL, COMMIT = StepPhase.PUSH, StepPhase.PULL, StepPhase.COMMIT
LISTEN, ADVANCE, RESPOND = StepPhase.LISTEN, StepPhase.ADVANCE, StepPhase.RESPOND
FORGET = StepPhase.FORGET

Wanted = tuple[StepPhase, tuple[Any, ...]]
Loop = Generator[Wanted, Any, None]
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


def together(step: int, steps: int, stamp: Stamp) -> Loop:
    """Do the numbered steps that all members do together, up to a halt or the end."""
    while step < steps and step < stamp.halt:
        yield BEGIN, (step,)
        loss = yield CALCULATE, (step,)
        yield EXCHANGE, (step,)
        step += 1
        yield COMMIT, (step - 1, step, loss)


def at_own_pace(step: int, goes_on: bool) -> Loop:
    """Do a worker's steps at parameter servers that take its gradient in its turn."""
    while goes_on and not (yield BEGIN, (step,)):
        loss = yield CALCULATE, (step,)
        yield PUSH, (step,)
        number, step, goes_on = yield PULL, (step,)
        yield COMMIT, (number, step, loss)


def serve(account: Account) -> Loop:
    """Do a server's part for workers at their own pace, until all are sent away."""
    yield BEGIN, (account.step,)
    while not account.is_over:
        worker, pushed = yield LISTEN, ()
        if pushed is None:
            account.lose(worker)
            yield FORGET, (worker,)
            continue
        fate = account.arrive(worker, *pushed)
        if fate is Fate.COUNTS:
            continue
        step, workers = account.step, [worker]
        if fate is Fate.FILLS:
            yield ADVANCE, (step, account.counted)
            workers = account.complete()
        lost = yield RESPOND, (workers, step, account.is_ending)
        for gone in lost:
            account.lose(gone)
            yield FORGET, (gone,)
        if fate is Fate.FILLS:
            yield BEGIN, (account.step,)


class Playing:
    """A loop with the part that carries out its phases; `wanted` is the next one."""

    def __init__(self, part: Any, step: int) -> None:
        """Begin the loop of a part (`kit.training.core.part.MemberPart`)."""
        self.part, self.loop = part, part.loop(step)
        # The method of each phase, by its number. They are kept here and not by the
        # part: one that refers to its own methods is a cycle, and the buffers would
        # stay until the garbage collector comes.
        names = [phase.name.lower() for phase in StepPhase]
        self.methods: list[Any] = [None, *(getattr(part, name, None) for name in names)]
        self.tell(None)

    def tell(self, found: Any) -> None:
        """Tell the loop what came of the phase that it wanted."""
        self.wanted: Wanted | None
        try:
            self.wanted = self.loop.send(found)
        except StopIteration:
            self.wanted = None  # it has ended

    def wants(self, phase: StepPhase) -> bool:
        """Whether this is its next phase."""
        return self.wanted is not None and self.wanted[0] is phase

    def do(self, wanted: Wanted) -> None:
        """Carry out the phase that is wanted."""
        phase, values = wanted
        self.tell(self.methods[phase](*values))


def live(part: Any, step: int, check: Callable[[], None]) -> None:
    """Do steps from `step` on; `check` raises when the training has failed."""
    playing = Playing(part, step)
    wanted, methods, send = playing.wanted, playing.methods, playing.loop.send
    while wanted is not None:
        phase, values = wanted
        # Never between an exchange and its commit: a step that some members have
        # committed is committed by all that are left.
        if phase is BEGIN or phase is LISTEN:
            check()
        # Not by `do`: this is the hot path of small steps.
        result = methods[phase](*values)
        try:
            wanted = send(result)
        except StopIteration:
            return
