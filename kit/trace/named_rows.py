"""The few named rows of a trace: epochs, losses, checkpoints, and what is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple

from kit.message_fields import anything, flag, list_of, seconds, text, whole

# What travels and is recorded: each field with what a message may hold for it.
_TASKS: Final = list_of(text(1000))
_NANOSECONDS: Final = whole(-(2**62))
_SECONDS: Final = seconds()


class EpochRow(NamedTuple):
    """One configuration of the training and the first step it holds for."""

    number: Annotated[int, whole(0)]
    topology: Annotated[str, text(100)]
    first_step: Annotated[int, whole(0)]
    at: Annotated[int, _NANOSECONDS]  # monotonic
    link: Annotated[str, text(100)]  # "" when the links run at full speed
    # The tasks that had been lost and take part again, by comma.
    joined: Annotated[str, text()] = ""
    generation: Annotated[int, whole(0)] = 0  # of an elastic training
    resumes: Annotated[bool, flag()] = False  # whether that began with copies

    @property
    def is_asynchronous(self) -> bool:
        """Whether each worker went at its own pace."""
        return self.topology.endswith("-async")

    @property
    def plain_topology(self) -> str:
        """The topology without the word on that.

        >>> EpochRow(1, "ps-async", 0, 0, "").plain_topology
        'ps'
        """
        return self.topology.removesuffix("-async")


class Switch(NamedTuple):
    """The change from one epoch to the next."""

    before: EpochRow
    after: EpochRow

    @property
    def label(self) -> str:
        """What changed, in a few words.

        >>> a, b = EpochRow(0, "ps", 0, 0, ""), EpochRow(1, "ring", 9, 5, "")
        >>> Switch(a, b).label
        'ps to ring'
        >>> Switch(b, b._replace(number=2, link="1gbit")).label
        'ring at 1gbit'
        """
        if self.before.topology != self.after.topology:
            return f"{self.before.topology} to {self.after.topology}"
        if self.before.link != self.after.link:
            return f"{self.after.topology} at {self.after.link or 'full speed'}"
        return f"{self.after.topology}, epoch {self.after.number}"


class SaveRow(NamedTuple):
    """One attempt to write a checkpoint, while the steps went on.

    `step` is the number of steps that were done; `error` says why nothing was written,
    and is empty for one that was.
    """

    step: Annotated[int, whole(0)]
    begin: Annotated[int, anything()]  # nanoseconds, monotonic
    end: Annotated[int, anything()]
    error: Annotated[str, text()]

    @property
    def label(self) -> str:
        """What happened, in a few words.

        >>> SaveRow(400, 1, 2, "").label, SaveRow(400, 1, 2, "no space").label
        ('checkpoint of step 400', 'checkpoint of step 400 failed')
        """
        return f"checkpoint of step {self.step}{' failed' if self.error else ''}"


class CallRow(NamedTuple):
    """Calls of a group of tasks that were alike and came one after the other.

    Attributes:
        first, last: their numbers; a call has the place of a step in the trace.
        text: the call, as errors show it: `all_reduce(float32[10])`.
        line: where the first task made it; "" if that is not known.
        topology: whose plan it was; "" if tasks dealt with each other directly.
        formula: bytes that each of them moves, by the formula.
    """

    first: int
    last: int
    text: str
    line: str
    topology: str
    formula: int

    @property
    def words(self) -> str:
        """The call and its line.

        >>> CallRow(1, 3, "barrier()", "line 2 of the cell", "", 0).words
        'barrier() at line 2 of the cell'
        """
        return f"{self.text} at {self.line}" if self.line else self.text


class Change(NamedTuple):
    """Why one generation followed another, and what it cost.

    Attributes:
        lost: the tasks whose processes were lost, as "worker:2".
        joined: the tasks whose processes take part again, or for the first time.
        left: the tasks whose processes take part no more, as was asked for.
        step: how many steps the training had committed.
        repeated: how many of them were done again.
        seconds: from the end of the last step before it, so not later than what was
            lost fell silent (in a pause: from the first sign of it), until the
            processes had agreed how to go on; their members take their links up after
            that.
        reason: what was noticed.
    """

    lost: Annotated[tuple[str, ...], _TASKS]
    joined: Annotated[tuple[str, ...], _TASKS]
    left: Annotated[tuple[str, ...], _TASKS]
    step: Annotated[int, whole(0)]
    repeated: Annotated[int, whole(0)]
    seconds: Annotated[float, _SECONDS]
    reason: Annotated[str, text()]

    @property
    def sentence(self) -> str:
        """Who, when, and what it cost, as a sentence.

        >>> Change(("worker:2",), (), (), 120, 14, 0.21, "its link is closed").sentence
        'worker:2 was lost at step 120; 14 steps were done again. The tasks had agreed \
how to go on after 0.21 s.'
        >>> Change((), ("worker:3",), ("ps:1",), 9, 0, 0.04, "").sentence
        'worker:3 joined and ps:1 left at step 9; no step was done again. The tasks \
had agreed how to go on after 0.04 s.'
        """
        n = self.repeated
        again = f"{n:,} steps were" if n > 1 else f"{n or 'no'} step was"
        was = "were lost" if len(self.lost) > 1 else "was lost"
        who = self._who(was, "The members were placed anew")
        return (
            f"{who} at step {self.step:,}; {again} done again. The tasks had agreed "
            f"how to go on after {self.seconds:.2f} s."
        )

    @property
    def label(self) -> str:
        """What happened, in a few words.

        >>> Change(("worker:2",), (), (), 120, 14, 0.21, "").label
        'worker:2 lost'
        >>> Change((), (), (), 120, 0, 0.21, "to place the members anew").label
        'placed anew'
        """
        return self._who("lost", "placed anew")

    def _who(self, lost: str, anew: str) -> str:
        pairs = ((self.lost, lost), (self.joined, "joined"), (self.left, "left"))
        return listed([f"{listed(who)} {did}" for who, did in pairs if who]) or anew

    def to_plain(self) -> list[Any]:
        """Return it as data that JSON can carry."""
        return [[*self.lost], [*self.joined], [*self.left], *self[3:]]

    @classmethod
    def from_plain(cls, plain: Sequence[Any]) -> Change:
        """Rebuild it from `to_plain`."""
        lost, joined, left, *rest = plain
        return cls(tuple(lost), tuple(joined), tuple(left), *rest)


class Kept(NamedTuple):
    """Which rows of a training are left; by default all of them.

    Steps before `whole` are kept one in `stride`, counted from 0, and the first one.
    Transfers and spans are kept from step `details` on. `unread` rows were dropped by
    their tasks before anybody had read them. Totals are exact in any case.
    """

    stride: int = 1
    whole: int = 0
    details: int = 0
    unread: int = 0

    def __str__(self) -> str:
        """Say what is not kept; empty if all is.

        >>> str(Kept(8, 150_000, 180_000))
        'before step 150,000 one step in 8; transfers and spans from step 180,000 on'
        >>> str(Kept())
        ''
        """
        said = []
        if self.stride > 1:
            said.append(f"before step {self.whole:,} one step in {self.stride:,}")
        if self.details:
            said.append(f"transfers and spans from step {self.details:,} on")
        if self.unread:
            said.append(f"{self.unread:,} rows were dropped before they were read")
        return "; ".join(said)


def listed(parts: Sequence[str]) -> str:
    """Join parts as English does.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
