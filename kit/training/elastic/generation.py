"""Which processes host the members of an elastic training, and who comes next.

Pure. A member is one of the tasks that the job names: it owns a split of the
mini-batch and a turn in the sums, so as long as the members stay the same, the bits
do. A process is known by the task that it was started for. It hosts that member, and
may host those of other tasks.

Theory of operation
-------------------

A *generation* is a stretch of the training in which no process is lost. It is a
training of its own, with its own run id, links and coordinator, on the same members.
When a process is lost, the generation fails; the processes that are left agree on the
next one, which begins at the newest copy of the state that is whole, on the same
members. They do the steps since that copy again, and get the same bits. A process that
joins, because its task was started again, asks for a next generation too, and takes
its member back.

    lead        the first process that is left, by its task
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
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from kit.errors import InvalidArgumentError
from kit.message_fields import check, list_of, row_of, seconds, text, whole
from kit.task import Task


class Change(NamedTuple):
    """Why one generation followed another, and what it cost.

    Attributes:
        lost: the tasks whose processes were lost, as "worker:2".
        joined: the tasks whose processes take part again, or for the first time.
        step: how many steps the training had committed.
        repeated: how many of them were done again.
        seconds: from the first sign of it to the next generation's begin.
        reason: what was noticed.
    """

    lost: tuple[str, ...]
    joined: tuple[str, ...]
    step: int
    repeated: int
    seconds: float
    reason: str


_FIELDS: Final = {
    "origin": text(pattern="[0-9a-f]{32}"),
    "number": whole(0),
    "places": list_of(text(1000)),
    "addresses": list_of(text(1000)),
    "changes": list_of(
        row_of(
            *(list_of(text(1000)), list_of(text(1000))),
            *(whole(0), whole(0), seconds(), text()),
        )
    ),
}


@dataclass(frozen=True)
class Generation:
    """One generation of an elastic training.

    Attributes:
        origin: the run of generation 0, by which all generations belong together.
        number: counts the generations from 0.
        places: for each member, the task whose process hosts it, as "worker:2".
        addresses: where each member's server listens; empty: as the cluster says.
        changes: why there were generations before this one.
    """

    origin: str
    number: int = 0
    places: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def processes(self) -> tuple[str, ...]:
        """The processes that host members.

        >>> Generation("", places=("worker:10", "worker:2", "ps:0")).processes
        ('ps:0', 'worker:2', 'worker:10')
        """
        return in_order(self.places)

    @property
    def reached(self) -> int:
        """How many steps the generations before this one have committed."""
        return max((change.step for change in self.changes), default=0)

    def hosted_by(self, process: str) -> tuple[int, ...]:
        """Return the members that a process hosts."""
        return tuple(n for n, place in enumerate(self.places) if place == process)

    def check(self, n_members: int) -> None:
        """Raise `InvalidArgumentError` unless it fits so many members."""
        if len(self.places) != n_members or len(self.addresses) not in (0, n_members):
            raise InvalidArgumentError(
                f"a generation names the places {self.places} at {self.addresses} for "
                f"{n_members} members; give one for each."
            )
        for place in self.places:
            Task.parse(place)

    def to_plain(self) -> dict[str, Any]:
        """Return it as data that JSON can carry."""
        return {name: getattr(self, name) for name in _FIELDS} | {
            "places": list(self.places),
            "addresses": list(self.addresses),
            "changes": [
                [list(one.lost), list(one.joined), *one[2:]] for one in self.changes
            ],
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any] | None) -> Generation | None:
        """Rebuild it from `to_plain`; None from None."""
        if plain is None:
            return None
        values = check("generation", _FIELDS, plain)
        values["places"] = tuple(values["places"])
        values["addresses"] = tuple(values["addresses"])
        values["changes"] = tuple(
            Change(tuple(lost), tuple(joined), *rest)
            for lost, joined, *rest in values["changes"]
        )
        return cls(**values)


def in_order(processes: Iterable[str]) -> tuple[str, ...]:
    """Return the processes in the order of their tasks, each once."""
    return tuple(sorted(set(processes), key=Task.parse))


def run_of(origin: str, number: int, ballot: Sequence[int | str]) -> str:
    """Return the run id of a generation: another one for each attempt to begin it."""
    name = f"{origin} {number} {' '.join(map(str, ballot))}"
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def may_go_on(
    processes: Collection[str], answered: Collection[str], ended: Collection[str]
) -> bool:
    """Whether those that answered are more than half of those that may live.

    >>> may_go_on("abc", answered="b", ended="ac")
    True
    >>> may_go_on("abcd", answered="ab", ended="")
    False
    """
    may_live = set(processes) - set(ended)
    return 2 * len(may_live & set(answered)) > len(may_live)


def moved(
    places: Sequence[str], tasks: Sequence[Task], here: Collection[str]
) -> tuple[str, ...]:
    """Return the places of the next generation, on the processes that are `here`.

    A member is at home in its own task's process, and else stays where it is. If that
    is not here either, it goes to the process that hosts the fewest, the first of
    these; rather to one of its own job.

    >>> tasks = [Task("ps", 0), Task("worker", 0), Task("worker", 1)]
    >>> moved(["ps:0", "worker:0", "worker:1"], tasks, ["ps:0", "worker:0"])
    ('ps:0', 'worker:0', 'worker:0')
    """
    found: list[str | None] = [
        next((one for one in (task.short, place) if one in here), None)
        for task, place in zip(tasks, places, strict=True)
    ]
    for member, task in enumerate(tasks):
        if found[member] is None:

            def load(process: str, job: str = task.job) -> tuple[bool, int]:
                return Task.parse(process).job != job, found.count(process)

            found[member] = min(in_order(here), key=load)
    return tuple(place for place in found if place is not None)


class Moment(NamedTuple):
    """When a copy was made: before which step, in which epoch of which generation.

    In another epoch other members may hold other parts of the state, so copies make a
    whole only with those of the same epoch.
    """

    step: int
    generation: int = 0
    epoch: int = 0


class Held(NamedTuple):
    """A copy that a process holds: of when and of whom, and who else writes."""

    moment: Moment
    member: int
    writers: tuple[int, ...]


def newest_whole(
    held: Mapping[str, Collection[Held]],
) -> tuple[Moment, dict[int, str]] | None:
    """Return the newest moment of which all writers' copies are left, and who has each.

    None if there is no such moment. `held` says what each process holds.

    >>> at = Moment(8)
    >>> newest_whole({"ps:0": [Held(at, 1, (1, 2))], "ps:1": [Held(at, 2, (1, 2))]})
    (Moment(step=8, generation=0, epoch=0), {1: 'ps:0', 2: 'ps:1'})
    """
    for moment in sorted({one.moment for some in held.values() for one in some})[::-1]:
        holders: dict[int, str] = {}
        wanted: set[int] = set()
        for process, some in held.items():
            for one in some:
                if one.moment == moment:
                    wanted |= set(one.writers)
                    holders.setdefault(one.member, process)
        if wanted <= holders.keys():
            return moment, {member: holders[member] for member in sorted(wanted)}
    return None


def next_generation(
    generation: Generation,
    places: tuple[str, ...],
    addresses: tuple[str, ...],
    change: Change,
) -> Generation:
    """Return the generation that follows one."""
    return replace(
        generation,
        number=generation.number + 1,
        places=places,
        addresses=addresses,
        changes=(*generation.changes, change),
    )
