"""Which processes host the members of an elastic training, and who comes next.

Pure. A member is one of the tasks that the job names: it owns a split of the
mini-batch and a turn in the sums, so as long as the members stay the same, the bits
do. A process hosts the member of its own task, and may host those of lost tasks.

Theory of operation
-------------------

A *generation* is a stretch of the training in which no process is lost. It is a
training of its own, with its own run id, links and coordinator, on the same members.
When a process is lost, the generation fails; the processes that are left agree on the
next one, which begins at the newest copy of the state that is whole, on the same
members. They do the steps since that copy again, and get the same bits.

    lead        the first process that is left, in the order of the members
    promise     each process left ends its members, tells what copies it holds, and
                promises to hear no older ballot
    accept      each starts servers for the members that it is to host from now on
    begin       each starts its members

Each of the three is refused by a process that has promised a newer ballot, so when the
one that leads is lost as well, the next one begins with `promise` again.

*Who may go on.* A process whose connections are refused has ended; one that does not
answer may live behind a cut. Those that answered go on only if they are more than
half of those that may live. Two such sets of one generation share a process, which
promises only one of them its newest ballot; the other cannot begin.

*Who wakes up.* A process that was stopped finds its links closed, asks the others, and
hears of a generation that it is not part of. It is fenced: it ends its members, and
nothing that it sends is taken, because its frames name an older run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from kit.errors import InvalidArgumentError
from kit.message_fields import check, list_of, row_of, seconds, text, whole


class Loss(NamedTuple):
    """What was lost, and what it cost.

    Attributes:
        tasks: the tasks whose processes were lost, as "worker:2".
        step: how many steps the training had committed.
        repeated: how many of them were done again.
        seconds: from the first sign of the loss to the next generation's begin.
        reason: what was noticed.
    """

    tasks: tuple[str, ...]
    step: int
    repeated: int
    seconds: float
    reason: str


_FIELDS: Final = {
    "origin": text(pattern="[0-9a-f]{32}"),
    "number": whole(0),
    "places": list_of(whole(0)),
    "addresses": list_of(text(1000)),
    "losses": list_of(
        row_of(list_of(text(1000)), whole(0), whole(0), seconds(), text())
    ),
}


@dataclass(frozen=True)
class Generation:
    """One generation of an elastic training.

    Attributes:
        origin: the run of generation 0, by which all generations belong together.
        number: counts the generations from 0.
        places: for each member, the number of the member whose task's process hosts it.
        addresses: where each member's server listens; empty: as the cluster says.
        losses: why there were generations before this one.
    """

    origin: str
    number: int = 0
    places: tuple[int, ...] = ()
    addresses: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()

    @property
    def processes(self) -> tuple[int, ...]:
        """The processes that host members, by the number of their own task's member.

        >>> Generation("", places=(0, 1, 0)).processes
        (0, 1)
        """
        return tuple(sorted(set(self.places)))

    @property
    def reached(self) -> int:
        """How many steps were committed when something was lost."""
        return max((loss.step for loss in self.losses), default=0)

    def hosted_by(self, process: int) -> tuple[int, ...]:
        """Return the members that a process hosts."""
        return tuple(n for n, place in enumerate(self.places) if place == process)

    def check(self, n_members: int) -> None:
        """Raise `InvalidArgumentError` unless it fits so many members."""
        named = [*self.places, *self.addresses]
        fits = len(self.places) == n_members and len(self.addresses) in (0, n_members)
        if not fits or any(place >= n_members for place in self.places):
            raise InvalidArgumentError(
                f"a generation names the places {named} for {n_members} members; give "
                f"one for each, a member's number."
            )

    def to_plain(self) -> dict[str, Any]:
        """Return it as data that JSON can carry."""
        return {name: getattr(self, name) for name in _FIELDS} | {
            "places": list(self.places),
            "addresses": list(self.addresses),
            "losses": [[list(loss.tasks), *loss[1:]] for loss in self.losses],
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any] | None) -> Generation | None:
        """Rebuild it from `to_plain`; None from None."""
        if plain is None:
            return None
        values = check("generation", _FIELDS, plain)
        values["places"] = tuple(values["places"])
        values["addresses"] = tuple(values["addresses"])
        values["losses"] = tuple(
            Loss(tuple(tasks), *rest) for tasks, *rest in values["losses"]
        )
        return cls(**values)


def run_of(origin: str, number: int, ballot: Sequence[int]) -> str:
    """Return the run id of a generation: another one for each attempt to begin it."""
    name = f"{origin} {number} {' '.join(map(str, ballot))}"
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def may_go_on(
    processes: Collection[int], answered: Collection[int], ended: Collection[int]
) -> bool:
    """Whether those that answered are more than half of those that may live.

    >>> may_go_on([0, 1, 2], answered=[1], ended=[0, 2])
    True
    >>> may_go_on([0, 1, 2, 3], answered=[0, 1], ended=[])
    False
    """
    may_live = set(processes) - set(ended)
    return 2 * len(may_live & set(answered)) > len(may_live)


def moved(
    generation: Generation, left: Collection[int], workers: Collection[int]
) -> tuple[int, ...]:
    """Return the places of the next generation, on the processes that are left.

    A member stays where it is, if that is left. Others go to the process that hosts
    the fewest, the first of these; workers rather to one that computes already.

    >>> moved(Generation("", places=(0, 1, 2, 3)), left=[0, 1, 3], workers=[1, 2, 3])
    (0, 1, 1, 3)
    """
    places = list(generation.places)
    n_hosted = {process: len(generation.hosted_by(process)) for process in left}
    for member, place in enumerate(places):
        if place in n_hosted:
            continue

        def load(process: int, member: int = member) -> tuple[bool, int, int]:
            unlike = (process in workers) != (member in workers)
            return unlike, n_hosted[process], process

        places[member] = chosen = min(n_hosted, key=load)
        n_hosted[chosen] += 1
    return tuple(places)


class Held(NamedTuple):
    """A copy that a process holds: of which step and member, and who else writes."""

    step: int
    member: int
    writers: tuple[int, ...]


def newest_whole(
    held: Mapping[int, Collection[Held]],
) -> tuple[int, dict[int, int]] | None:
    """Return the newest step of which all writers' copies are left, and who has each.

    None if there is no such step. `held` says what each process holds.

    >>> newest_whole({0: [Held(8, 1, (1, 2))], 3: [Held(8, 2, (1, 2))]})
    (8, {1: 0, 2: 3})
    """
    for step in sorted({one.step for some in held.values() for one in some})[::-1]:
        holders: dict[int, int] = {}
        wanted: set[int] = set()
        for process, some in held.items():
            for one in some:
                if one.step == step:
                    wanted |= set(one.writers)
                    holders.setdefault(one.member, process)
        if wanted <= holders.keys():
            return step, {member: holders[member] for member in sorted(wanted)}
    return None


def next_generation(
    generation: Generation,
    places: tuple[int, ...],
    addresses: tuple[str, ...],
    loss: Loss,
) -> Generation:
    """Return the generation that follows one, after a loss."""
    return replace(
        generation,
        number=generation.number + 1,
        places=places,
        addresses=addresses,
        losses=(*generation.losses, loss),
    )
