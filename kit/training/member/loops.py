"""What a member does between two boundaries, phase by phase: begin, compute, exchange.

Pure. Theory of operation. A loop knows the order of the phases and decides when there
is no other step. It yields the next phase and is sent what came of it. How a phase is
carried out is a method of the member's *part* (`kit.training.member.part`).

`live` carries out one loop in a member's own thread, where a phase waits for the other
members. A replay has the loops of all members in one thread, and lets those go on that
need not wait (`kit.recording.recomputing.recomputation`). So there is one account of
what a step is. A phase is never a message: a whole exchange is one call of a compiled
loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from enum import Enum
from typing import Any, NamedTuple, get_args

from kit.exchange.ports.port import Stamp


class Begin(NamedTuple):
    """Begin a step, and announce a halt that is due.

    Gives whether there is no such step: the member has to come to the boundary.
    """

    step: int


class Calculate(NamedTuple):
    """Compute this member's share of the step, if it has one; gives the loss."""

    step: int


class Exchange(NamedTuple):
    """Exchange with all members of the plan, which do the same step."""

    step: int


class Push(NamedTuple):
    """Send what was computed to the servers."""

    step: int


class Pull(NamedTuple):
    """Take the newest parameters when all servers have answered; gives `Pulled`.

    That is the step that the push was (None: it came too late for its step), how many
    steps are done, and whether to go on.
    """

    step: int


class Commit(NamedTuple):
    """Make the next parameters those that hold.

    Its `number` is that of the step that was done, None if its gradient came too late.
    Then there are `done` steps.
    """

    number: int | None
    done: int
    loss: float


class Listen(NamedTuple):
    """Take the next push that is complete, or hear that its worker is lost.

    Gives a worker, and of which step its push is, and whether it asks for a boundary;
    or None, if it is lost.
    """


class Advance(NamedTuple):
    """Update the parameters with what the workers named here have pushed."""

    step: int
    workers: Collection[int]


class Respond(NamedTuple):
    """Answer workers: `step` counts, or steps up to it are done; gives who is lost."""

    workers: Collection[int]
    step: int
    is_ending: bool


class Forget(NamedTuple):
    """Go on without a worker that is lost."""

    worker: int


Served = Push | Pull | Listen | Advance | Respond | Forget
Wanted = Begin | Calculate | Exchange | Commit | Served
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
        yield Begin(step)
        loss = yield Calculate(step)
        yield Exchange(step)
        step += 1
        yield Commit(step - 1, step, loss)


def at_own_pace(step: int, goes_on: bool) -> Loop:
    """Do a worker's steps at parameter servers that take its gradient in its turn."""
    while goes_on and not (yield Begin(step)):
        loss = yield Calculate(step)
        yield Push(step)
        number, step, goes_on = yield Pull(step)
        yield Commit(number, step, loss)


def serve(account: Account) -> Loop:
    """Do a server's part for workers at their own pace, until all are sent away."""
    yield Begin(account.step)
    while not account.is_over:
        worker, pushed = yield Listen()
        if pushed is None:
            account.lose(worker)
            yield Forget(worker)
            continue
        fate = account.arrive(worker, *pushed)
        if fate is Fate.COUNTS:
            continue
        step, workers = account.step, [worker]
        if fate is Fate.FILLS:
            yield Advance(step, account.counted)
            workers = account.complete()
        lost = yield Respond(workers, step, account.is_ending)
        for one in lost:
            account.lose(one)
            yield Forget(one)
        if fate is Fate.FILLS:
            yield Begin(account.step)


class Playing:
    """A loop with the part that carries out its phases; `wanted` is the next one."""

    def __init__(self, part: Any, step: int) -> None:
        """Begin the loop of a part (`kit.training.member.part.MemberPart`)."""
        self.part, self.loop = part, part.loop(step)
        # The method of the phase's name. It is kept here and not by the part: one that
        # refers to its own methods is a cycle, and the buffers would stay until the
        # garbage collector comes.
        kinds, self.phases = get_args(Wanted), dict[type[Any], Any]()
        for kind in kinds:
            self.phases[kind] = getattr(part, kind.__name__.lower(), None)
        self.tell(None)

    def tell(self, found: Any) -> None:
        """Tell the loop what came of the phase that it wanted."""
        self.wanted: Wanted | None
        try:
            self.wanted = self.loop.send(found)
        except StopIteration:
            self.wanted = None  # it has ended

    def do(self, wanted: Wanted) -> None:
        """Carry out the phase that is wanted."""
        self.tell(self.phases[type(wanted)](*wanted))


def live(part: Any, step: int, check: Callable[[], None]) -> None:
    """Do steps from `step` on; `check` raises when the training has failed."""
    playing = Playing(part, step)
    wanted, phases, send = playing.wanted, playing.phases, playing.loop.send
    while wanted is not None:
        kind = type(wanted)
        # Never between an exchange and its commit: a step that some members have
        # committed is committed by all that are left.
        if kind is Begin or kind is Listen:
            check()
        # Not by `do`: this is the hot path of small steps.
        found = phases[kind](*wanted)
        try:
            wanted = send(found)
        except StopIteration:
            return
