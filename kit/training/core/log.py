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
    generation one coordinator alone appends, and a generation goes on with the newest
    log that is known. Steps are no decisions: one that nobody interrupts appends
    nothing and asks nobody.

    A request may be sent again, because its answer was lost. It has a nonce, by which
    it is found among the newest ones, and counts once.

    entry       by whom        what it says
    open        coordinator    before which step it begins, with how many threads
    command     user or hook   a request, see `COMMANDS`
    seen        user           at which step the training was seen; it comes first
    taken       coordinator    before which step requests were taken up
    refused     coordinator    why a configuration does not begin; which one goes on
    epoch       coordinator    a configuration that all members have begun
    gone        coordinator    who is lost, and why
    without     coordinator    who of them the others go on without
    snapshot    coordinator    what becomes of a save, see `SaveTurns`
    saves       coordinator    its account of the checkpoints
    generation  `claim`        who hosts members from now on, up to where steps repeat
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Final, NamedTuple

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
    optional,
    record,
    row_of,
    shown,
    table_of,
    text,
    whole,
)

_MOST_NONCES: Final = 32


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

    def entry(self, what: str, step: int) -> SaveTurns:
        """Return what follows from an entry.

        What is heard late of one save changes nothing of the next, if that has begun.

        >>> late = SaveTurns().entry("begun", 3).entry("begun", 4).entry("written", 3)
        >>> late.writing, late.is_due(5, is_last=True)
        (4, False)
        >>> late.entry("written", 4).is_due(5, is_last=True)
        True
        """
        if what == "asked":
            return self._replace(is_asked=True)
        if what == "agreed":
            return self._replace(is_asked=False, writing=step, tried=step)
        if what == "begun":
            return self._replace(writing=step)
        writing = None if self.writing == step else self.writing
        written = max(self.written, step) if what == "written" else self.written
        return self._replace(writing=writing, written=written)

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
    requested: Annotated[Epoch, record(fields_of(Epoch))]
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


# --------------------------------------------------------------------------------------
# What each entry changes.


def _open(now: Decisions, began: int, threads: int) -> Decisions:
    return replace(now, began=began, threads=threads)


def _command(now: Decisions, what: str, values: Mapping[str, Any]) -> Decisions:
    change = COMMANDS[what].change
    return change(now, **values) if change else now


def _configure(now: Decisions, at: int = 0, **changes: str | bool | None) -> Decisions:
    # One for each step, however often the request for it changes.
    later = dict(now.later)
    asked = {name: value for name, value in changes.items() if value is not None}
    later[at] = {**later.get(at, {}), **asked}
    return replace(now, later=tuple(sorted(later.items(), key=lambda entry: entry[0])))


def _pause(now: Decisions, steps: int = 0, to: int = 0) -> Decisions:
    return replace(now, is_paused=True, budget=steps, allowed_to=to)


def _resume(now: Decisions) -> Decisions:
    return replace(now, is_paused=False, budget=0)


def _stop(now: Decisions) -> Decisions:
    return replace(now, is_stopped=True)


def _place(now: Decisions, **changes: Any) -> Decisions:
    assert now.placing is not None, "it is elastic"
    return replace(now, placing=now.placing.changed(**changes))


def _leave(now: Decisions, task: str) -> Decisions:
    assert now.placing is not None, "it is elastic"
    return replace(now, placing=now.placing.without(task))


def _seen(now: Decisions, step: int) -> Decisions:
    return replace(now, reached=max(now.reached, step))


def _taken(now: Decisions, step: int, stands: bool) -> Decisions:
    """Take up what is due before `step`; if all members stand there, a pause's steps.

    A budget counts from there, and is a step from then on: a halt for something else on
    the way does not use it up.
    """
    later = tuple(entry for entry in now.later if entry[0] > step)
    now = replace(now, requested=now.foreseen(step), later=later)
    if not stands or not now.budget:
        return now
    return replace(now, allowed_to=step + now.budget, budget=0)


def _refused(now: Decisions, why: str, holds: dict[str, Any]) -> Decisions:
    return replace(now, requested=Epoch(**holds), abandoned=why)


def _epoch(now: Decisions, begins: dict[str, Any], agrees: bool) -> Decisions:
    agrees_from = now.agrees_from
    if not agrees:
        agrees_from = None
    elif agrees_from is None:  # one step makes them agree
        agrees_from = int(begins["first_step"]) + 1
    return replace(now, abandoned="", agrees_from=agrees_from)


def _gone(now: Decisions, member: int, why: str) -> Decisions:
    first = {member: now.gone.get(member, why)}  # the first reason counts
    return replace(now, gone={**now.gone, **first})


def _without(now: Decisions, member: int) -> Decisions:
    return replace(now, without=now.without | {member})


def _snapshot(now: Decisions, what: str, step: int) -> Decisions:
    return replace(now, turns=now.turns.entry(what, step))


def _saves(now: Decisions, account: Mapping[str, Any] | None) -> Decisions:
    return replace(now, saves=account)


def _generation(
    now: Decisions, reached: int, placing: Any, absent: Collection[int]
) -> Decisions:
    # Saves are those of one generation: what was asked for is in the account.
    gone = {member: now.gone.get(member, "its process has ended") for member in absent}
    now = replace(now, gone=gone, without=frozenset(absent), turns=_NO_SAVE)
    return replace(_seen(now, reached), budget=0, placing=placing)


_KINDS: Final[Mapping[str, Callable[..., Decisions]]] = {
    "open": _open,
    "command": _command,
    "seen": _seen,
    "taken": _taken,
    "refused": _refused,
    "epoch": _epoch,
    "gone": _gone,
    "without": _without,
    "snapshot": _snapshot,
    "saves": _saves,
}


# --------------------------------------------------------------------------------------
# The log itself.


class DecisionLog:
    """The decisions of one training. Every method may be called from any thread.

    >>> log = DecisionLog(Decisions(Epoch(0, "ring")))
    >>> log.append(0, "command", "a", what="pause", values={"steps": 2, "to": 5})
    1
    >>> log.append(0, "command", "a", what="pause", values={"steps": 2, "to": 5})
    1
    >>> log.append(0, "taken", step=4, stands=True), log.now.allowed_to
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
        kind: str,
        nonce: str = "",
        /,
        *,
        position: int | None = None,
        **values: Any,
    ) -> int:
        """Append a decision of a generation; return the position after it.

        One with a `nonce` that is known, or that changes nothing, is not appended.
        Raises `AbortedError` when another generation has claimed the log, and when it
        is not at the `position` at which the entry was decided, if that is given.
        """
        with self._guard:
            if nonce in self.now.nonces:
                return self.position
            if generation != self.generation or position not in (None, self.position):
                decided = "" if position is None else f" at position {position}"
                raise AbortedError(
                    f"{kind} was decided in generation {generation}{decided}, and the "
                    f"log is in generation {self.generation} at position "
                    f"{self.position}; read what it holds, and decide again."
                )
            now = _KINDS[kind](self.now, **values)
            if nonce:
                now = replace(now, nonces=(*now.nonces, nonce)[-_MOST_NONCES:])
            self._move_to(now)
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
        Raises `AbortedError` unless it is
        newer than the one that may append now.
        """
        with self._guard:
            if generation <= self.generation:
                raise AbortedError(
                    f"generation {generation} cannot claim the log: generation "
                    f"{self.generation} has."
                )
            self.generation = generation
            self._move_to(_generation(self.now, reached, placing, absent))

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


_FIELDS: Final = {
    **fields_of(Decisions),
    "generation": whole(0),
    "position": whole(0),
}


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
    "configure": Command(_CONFIGURE, _configure),
    "pause": Command({"steps": optional(whole(0))}, _pause),
    "resume": Command({}, _resume),
    "stop": Command({}, _stop),
    "save": Command({"ticket": text(100)}),
    "place": Command(_PLACE, _place),
    "leave": Command({"task": text(1000)}, _leave),
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
