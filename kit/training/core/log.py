"""The decisions of a training, in their order, and what they come to.

It knows no link, no file and no clock.

Theory of operation
    The coordinator appends each decision: what its user asked for, when that was taken
    up or why not, the epochs. What it has decided is a fold of these entries, so what
    another coordinator needs to go on is the log and nothing else:

        append    a decision, by who leads the generation that the log is in
        claim     the next generation leads from here on; the one before is refused
        now       what all entries come to

    Entries are folded as they come and not kept: copies of the log travel with each
    copy of the state, a few times a second, for as long as the training lasts. Of two
    copies the one with the higher `age` has all that the other has, since within a
    generation one coordinator alone appends, under its lock, and a generation goes on
    with the newest log that is known. Steps are no decisions: one that nobody
    interrupts appends nothing and asks nobody.

    A request may be sent again, because its answer was lost. It has a nonce, by which
    it is found among the newest ones, and counts once.

    An entry is a method of `Decisions`, which returns what they come to with it:

    entry       by whom        what it says
    open        coordinator    before which step it begins, with how many threads
    command     user or hook   a request, see `COMMANDS`
    see         user           at which step the training was seen; it comes first
    take_up     coordinator    before which step requests were taken up
    refuse      coordinator    why a configuration does not begin; which one goes on
    begin       coordinator    an epoch that all members have begun
    lose        coordinator    who is lost, and why
    spare       coordinator    who of them the others go on without
    ask_save    user or hook   that the state is to be saved
    save        coordinator    what becomes of a save, see `SaveTurns`
    account     coordinator    its account of the checkpoints
    regroup     `claim`        who hosts members from now on, up to where steps repeat
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Concatenate, Final, NamedTuple, ParamSpec

from kit.errors import AbortedError, InvalidArgumentError
from kit.features import load
from kit.message_fields import (
    Fields,
    anything,
    check,
    fields_of,
    flag,
    list_of,
    maybe,
    number,
    object_of,
    optional,
    row_of,
    shown,
    table_of,
    text,
    whole,
)

_MOST_NONCES: Final = 32
Values = ParamSpec("Values")


@dataclass(frozen=True)
class Epoch:
    """One configuration of a training. Number 0 is the time before the start."""

    number: Annotated[int, whole(0)]
    topology: Annotated[str, text(100)]
    synchronous: Annotated[bool, flag()] = True
    link: Annotated[str, text(100)] = ""
    first_step: Annotated[int, whole(0)] = 0

    @property
    def how(self) -> str:
        """How gradients meet, as a trace names it.

        >>> Epoch(1, "ps").how, Epoch(2, "ps", synchronous=False).how
        ('ps', 'ps-async')
        """
        return self.topology if self.synchronous else f"{self.topology}-async"

    def is_like(self, other: Epoch) -> bool:
        """Whether the other one configures the same."""
        # Asked before each step: field by field takes a third of the time.
        return (
            self.topology == other.topology
            and self.synchronous == other.synchronous
            and self.link == other.link
        )

    def to_plain(self) -> dict[str, Any]:
        """Return the epoch as data that JSON can carry."""
        return asdict(self)


class SaveTurns(NamedTuple):
    """Which save is asked for, under way, or the last one; one is written at a time.

    Steps are counted as boundaries are: a save of step 4 is the state before it.
    """

    is_asked: bool = False
    writing: int | None = None
    written: int = -1
    tried: int = -1

    def ask(self) -> SaveTurns:
        """Ask for a save."""
        return self._replace(is_asked=True)

    def agree(self, step: int) -> SaveTurns:
        """Agree on one at a boundary, for all that have asked."""
        return self._replace(is_asked=False, writing=step, tried=step)

    def begin(self, step: int) -> SaveTurns:
        """Begin to write one; those by the number of steps need not be agreed."""
        return self._replace(writing=step)

    def succeed(self, step: int) -> SaveTurns:
        """End one that is whole."""
        return self.fail(step)._replace(written=max(self.written, step))

    def fail(self, step: int) -> SaveTurns:
        """End one. What is heard late of it changes nothing of the next.

        >>> late = SaveTurns().begin(3).begin(4).succeed(3)
        >>> late.writing, late.is_due(5, is_last=True)
        (4, False)
        >>> late.succeed(4).is_due(5, is_last=True)
        True
        """
        return self if self.writing != step else self._replace(writing=None)

    @property
    def is_called(self) -> bool:
        """Whether one is asked for that can begin at once."""
        return self.is_asked and self.writing is None

    def is_due(self, step: int, *, is_last: bool) -> bool:
        """Whether to save the state before `step`, where all members stand.

        `is_last`: no step follows, and the last state is to be saved.
        """
        last = is_last and step not in (self.written, self.tried)
        return (self.is_asked or last) and self.writing is None


_NO_SAVE: Final = SaveTurns()


@dataclass(frozen=True)
class Decisions:
    """What the entries of a log come to.

    Attributes:
        requested: the configuration that is asked for now; it may hold already.
        later: what is asked for from a step on: the step, and fields of `Epoch`.
        abandoned: why the last configuration did not begin.
        is_paused: whether a pause is asked for.
        budget: how many steps a pause still allows, from the boundary on at which that
            is taken up.
        allowed_to: the step that a pause allows to go on to, once it is taken up, and
            for another coordinator, which does not know that boundary, before.
        is_stopped: whether the end is asked for.
        reached: the steps before this one were done before a loss.
        agrees_from: from which step on all workers have the same parameters; None
            before there is an epoch in which they agree.
        placing: how the members are to be spread; None if that cannot change.
        gone: the members that are lost in this generation, and why.
        without: those of them that the training goes on without.
        turns: whose turn it is of the saves.
        saves: the account of checkpoints; None without them.
        began: before which step the training began, in its first generation.
        threads: of BLAS, which all members compute with; 0 before it is known.
        nonces: of the newest requests.
    """

    # Each field with what a message may hold for it.
    requested: Annotated[Epoch, object_of(fields_of(Epoch))]
    later: Annotated[
        tuple[tuple[int, Mapping[str, Any]], ...],
        list_of(row_of(whole(0), table_of(anything()))),
    ] = ()
    abandoned: Annotated[str, text()] = ""
    is_paused: Annotated[bool, flag()] = False
    budget: Annotated[int, whole(0)] = 0
    allowed_to: Annotated[int, whole(0)] = 0
    is_stopped: Annotated[bool, flag()] = False
    reached: Annotated[int, whole(0)] = 0
    agrees_from: Annotated[int | None, maybe(whole(0))] = 0
    placing: Annotated[Any, maybe(anything())] = None
    gone: Annotated[Mapping[int, str], list_of(row_of(whole(0), text()))] = field(
        default_factory=dict
    )
    without: Annotated[frozenset[int], list_of(whole(0))] = frozenset()
    turns: Annotated[
        SaveTurns, row_of(flag(), maybe(whole(0)), whole(-1), whole(-1))
    ] = _NO_SAVE
    saves: Annotated[Mapping[str, Any] | None, maybe(table_of(anything()))] = None
    began: Annotated[int, whole(0)] = 0
    threads: Annotated[int, whole(0)] = 0
    nonces: Annotated[tuple[str, ...], list_of(text(100))] = ()

    def foreseen(self, at: int = 0) -> Epoch:
        """Return the configuration asked for from step `at` on, as far as is known."""
        epoch = self.requested
        for step, changes in self.later:
            if step <= at:
                epoch = replace(epoch, **changes)
        return epoch

    def is_apart(self, step: int) -> bool:
        """Whether workers still have to agree on parameters, before `step`."""
        return self.agrees_from is None or step < self.agrees_from

    def stands(self, step: int) -> bool:
        """Whether a pause lets no member begin `step`, on its way there."""
        return self.is_paused and (self.budget > 0 or step >= self.allowed_to)

    # -- what each entry changes ---------------------------------------------------

    def open(self, began: int, threads: int) -> Decisions:
        """Begin the training."""
        return replace(self, began=began, threads=threads)

    def command(
        self, what: str, values: Mapping[str, Any], nonce: str = ""
    ) -> Decisions:
        """Note a request; one that is repeated, by its `nonce`, counts once."""
        if nonce in self.nonces:
            return self
        change = COMMANDS[what].change
        now = change(self, **values) if change else self
        nonces = (*now.nonces, nonce)[-_MOST_NONCES:] if nonce else now.nonces
        return replace(now, nonces=nonces)

    def configure(self, at: int = 0, **changes: str | bool | None) -> Decisions:
        """Ask for another configuration."""
        # One for each step, however often the request for it changes.
        later = dict(self.later)
        asked = {name: value for name, value in changes.items() if value is not None}
        later[at] = {**later.get(at, {}), **asked}
        in_order = sorted(later.items(), key=lambda entry: entry[0])
        return replace(self, later=tuple(in_order))

    def pause(self, steps: int = 0, to: int = 0) -> Decisions:
        """Ask for a pause."""
        return replace(self, is_paused=True, budget=steps, allowed_to=to)

    def resume(self) -> Decisions:
        """Ask for the end of a pause."""
        return replace(self, is_paused=False, budget=0)

    def stop(self) -> Decisions:
        """Ask for the end of the training."""
        return replace(self, is_stopped=True)

    def spread(self, **changes: Any) -> Decisions:
        """Ask to spread the members of an elastic training otherwise."""
        return replace(self, placing=self.placing.changed(**changes))

    def leave(self, task: str) -> Decisions:
        """Ask to go on without a task of an elastic training."""
        return replace(self, placing=self.placing.without(task))

    def see(self, step: int) -> Decisions:
        """Hear how far the training was before a loss."""
        return replace(self, reached=max(self.reached, step))

    def take_up(self, step: int, stands: bool) -> Decisions:
        """Take up what is due before `step`; if all members stand there, a pause.

        A budget counts from there, and is a step from then on: a halt for something
        else on the way does not use it up.
        """
        later = tuple(entry for entry in self.later if entry[0] > step)
        now = replace(self, requested=self.foreseen(step), later=later)
        if not stands or not now.budget:
            return now
        return replace(now, allowed_to=step + now.budget, budget=0)

    def refuse(self, why: str, holds: dict[str, Any]) -> Decisions:
        """Go on as before."""
        return replace(self, requested=Epoch(**holds), abandoned=why)

    def begin(self, begins: dict[str, Any], agrees: bool) -> Decisions:
        """Begin an epoch, in which workers agree after each step or not."""
        agrees_from = self.agrees_from
        if not agrees:
            agrees_from = None
        elif agrees_from is None:  # one step makes them agree
            agrees_from = int(begins["first_step"]) + 1
        return replace(self, abandoned="", agrees_from=agrees_from)

    def lose(self, member: int, why: str) -> Decisions:
        """Note that a member is lost; the first reason counts."""
        return replace(self, gone={**self.gone, member: self.gone.get(member, why)})

    def spare(self, member: int) -> Decisions:
        """Go on without it."""
        return replace(self, without=self.without | {member})

    def ask_save(self) -> Decisions:
        """Ask for a save."""
        return replace(self, turns=self.turns.ask())

    def save(
        self, change: Callable[[SaveTurns, int], SaveTurns], step: int
    ) -> Decisions:
        """Note what becomes of the save of a step: a method of `SaveTurns`."""
        return replace(self, turns=change(self.turns, step))

    def account(self, saves: Mapping[str, Any] | None) -> Decisions:
        """Note what is known of the checkpoints."""
        return replace(self, saves=saves)

    def regroup(self, reached: int, placing: Any, absent: Collection[int]) -> Decisions:
        """Begin a generation, which does the steps before `reached` again."""
        # Saves are those of one generation: what was asked for is in the account.
        why = "its process has ended"
        gone = {member: self.gone.get(member, why) for member in absent}
        now = replace(self, gone=gone, without=frozenset(absent), turns=_NO_SAVE)
        return replace(now.see(reached), budget=0, placing=placing)


# --------------------------------------------------------------------------------------
# The log itself.


class DecisionLog:
    """The decisions of one training. Every method may be called from any thread.

    >>> log = DecisionLog(Decisions(Epoch(0, "ring")))
    >>> request = {"what": "pause", "values": {"steps": 2, "to": 5}, "nonce": "a"}
    >>> [log.append(0, Decisions.command, **request) for _ in range(2)]
    [1, 1]
    >>> log.append(0, Decisions.take_up, step=4, stands=True), log.now.allowed_to
    (2, 6)

    Attributes:
        now: what all entries come to; to read it takes no lock.
        position: how many entries have changed that.
        generation: which one may append.
    """

    def __init__(
        self, now: Decisions, *, generation: int = 0, position: int = 0
    ) -> None:
        self._guard = threading.Lock()
        self.now, self.generation, self.position = now, generation, position

    def __repr__(self) -> str:
        return f"<log of generation {self.generation} at {self.position}: {self.now}>"

    @property
    def age(self) -> tuple[int, int]:
        """Higher for what is newer, of two logs of one training."""
        return self.generation, self.position

    def append(
        self,
        generation: int,
        entry: Callable[Concatenate[Decisions, Values], Decisions],
        /,
        *args: Values.args,
        **values: Values.kwargs,
    ) -> int:
        """Append a decision of a generation; return the position after it.

        One that changes nothing is not appended.
        Raises `AbortedError` when another generation has claimed the log.
        """
        with self._guard:
            if generation != self.generation:
                raise AbortedError(
                    f"{entry.__name__} was decided in generation {generation}, and the "
                    f"log is in generation {self.generation} at position "
                    f"{self.position}; read what it holds, and decide again."
                )
            self._move_to(entry(self.now, *args, **values))
            return self.position

    def claim(
        self,
        generation: int,
        *,
        reached: int,
        placing: Any,
        absent: Collection[int] = (),
    ) -> None:
        """Let a generation append from here on, and none before it.

        It does the steps before `reached` again, without those that are `absent`.
        Raises `AbortedError` unless it is newer than the one that may append now.
        """
        with self._guard:
            if generation <= self.generation:
                raise AbortedError(
                    f"generation {generation} cannot claim the log: generation "
                    f"{self.generation} has."
                )
            self.generation = generation
            self._move_to(self.now.regroup(reached, placing, absent))

    def _move_to(self, now: Decisions) -> None:
        if now != self.now:
            self.now, self.position = now, self.position + 1

    def to_plain(self) -> dict[str, Any]:
        """Return the log as data that JSON can carry."""
        with self._guard:
            now, placing = self.now, self.now.placing
            return {
                **vars(now),
                "requested": now.requested.to_plain(),
                "placing": placing.to_plain() if placing is not None else None,
                "gone": [*now.gone.items()],
                "without": sorted(now.without),
                "generation": self.generation,
                "position": self.position,
            }

    @classmethod
    def from_plain(cls, plain: object) -> DecisionLog:
        """Rebuild a log from `to_plain`; `InvalidArgumentError` for what is none."""
        values = check("log", _FIELDS, plain)
        at = {name: values.pop(name) for name in ("generation", "position")}
        values["requested"] = Epoch(**values["requested"])
        if values["placing"] is not None:
            placing = load("kit.training.features.elastic.placing:Placing")
            values["placing"] = placing.from_plain(values["placing"])
        values |= {name: tuple(values[name]) for name in ("later", "nonces")}
        values["gone"] = dict(values["gone"])
        values["without"] = frozenset(values["without"])
        values["turns"] = SaveTurns(*values["turns"])
        return cls(Decisions(**values), **at)


_FIELDS: Final = {**fields_of(Decisions), "generation": whole(0), "position": whole(0)}


# --------------------------------------------------------------------------------------
# What can be asked of a training under way: each command with its values, and what it
# changes of the decisions.
#
# The asking side checks by this table before anything is sent; the coordinator again.


class Command(NamedTuple):
    """What can be asked: its values, and the change that it is."""

    fields: Fields
    change: Callable[..., Decisions] | None = None


#: How much more than another one a process may be given to do.
SHARE: Final = number(0.01, 100)
_CONFIGURE: Final = {
    "at": optional(whole(0)),
    "topology": optional(text(100)),
    "link": optional(text(100)),
    "synchronous": optional(flag()),
}
_PLACE: Final = {"workers": optional(whole(0)), "shares": optional(table_of(SHARE))}
COMMANDS: Final[Mapping[str, Command]] = {
    "configure": Command(_CONFIGURE, Decisions.configure),
    "pause": Command({"steps": optional(whole(0))}, Decisions.pause),
    "resume": Command({}, Decisions.resume),
    "stop": Command({}, Decisions.stop),
    "save": Command({"ticket": text(100)}),
    "place": Command(_PLACE, Decisions.spread),
    "leave": Command({"task": text(1000)}, Decisions.leave),
    "look": Command({}),
}


def check_command(what: str, values: object) -> dict[str, Any]:
    """Return a command's values; `InvalidArgumentError` for what cannot be meant.

    >>> check_command("pause", {"steps": 3})
    {'steps': 3}
    """
    if what not in COMMANDS:
        commands = ", ".join(COMMANDS)
        raise InvalidArgumentError(
            f"{shown(what)} is not a command; there are {commands}."
        )
    return check(what, COMMANDS[what].fields, values)
