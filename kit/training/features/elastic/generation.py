"""Which processes host the members of an elastic training, and who comes next.

Pure. A member is one of the tasks that the job names: it owns a split of the
mini-batch and a turn in the sums, so as long as the members stay the same, the bits
do. A process is known by the task that it was started for. It hosts that member, and
may host those of other tasks.

Theory of operation
-------------------

A *generation* is a stretch of the training in which no process is lost. It is a whole
training, with its own run id, links and coordinator, on the same members.
When a process is lost, the generation fails; the processes that are left agree on the
next one, which begins at the newest copy of the state that is whole, on the same
members. They do the steps since that copy again, and get the same bits.

A process that joins, because its task was started again or is a new one, asks for a
next generation too. So does the user who wants the members on more or fewer processes,
or otherwise spread (`placing`). Then there is time: the coordinator calls for one more
copy and holds all members there, so that no step is done again.

    lead        the first process that is left, by its task, claims the log for the
                number of a new generation
    claim       each process left lets it: it ends its members, says which copies it
                holds and what it knows of the log, and takes no lower number any more
    host        each starts servers for the members that it is to host from now on
    begin       each starts its members, which read the copies of what they update;
                those that host none, because they stand by or leave, hear of it

The number is the fence: each of the three, and each entry of the log, is refused by a
process that a higher one has claimed. So when the one that leads is lost as well, the
next one begins with `claim` again.

*Asynchronous workers* hold nothing that the servers lack. When a process is lost that
hosts only such, and not the coordinator, the others do not go back: they come to a
boundary without it, copy, and the next generation begins there. Of what its step
function kept, the copy before is the newest.

*Backup workers* are nowhere while their process is lost: nothing `rehosts` them, and
the others do all steps without them. Such a training copies nothing but for the next
generation, which begins when a new process asks to join; it takes no part in the one
that goes on. Nobody else can be done without, so those that are needed are all there,
and their copies with them, or the training ends.

*Who may go on.* A process whose connections are refused has ended; one that does not
answer may live behind a cut. Those that answered go on only if they are more than half
of those that may live, or half of them and among these the first. Two such sets of one
generation share a process, and of two numbers it takes the higher one alone; the other
cannot begin. That process may end, though, and with it what it knew: so each notes on
its host which generation it begins (`kit.server.elastic.begun_here`). Who was stopped
meanwhile reads there that a later one has begun, and goes on from an earlier one only
when that is over. Between hosts nobody reads it when no process of that host is left.
Then one that has ended counts as one that may live, as long as anybody is silent: the
two may have gone on with each other. When nobody is silent, all that may live are here.

*Who may go on from what.* A generation that has not begun everywhere decides nothing by
itself: of two processes that it was to have, only one may hear of it, and the other go
on with those before. So the next one needs enough of the generation before it as well,
the newest that has begun everywhere, until there is a copy of its own: then all have
begun. Each attempt has its own number.

*Who cannot begin.* A generation in which a member cannot open its links in time is
followed by another one. When that goes on for longer than a task may be silent and a
cluster may take to start, the training ends.

*What holds.* Of two attempts to begin a generation at most one commits steps: no step
is committed before all processes have begun, and those that a higher number has claimed
have ended their members, and begin no lower one, not even one that they were about to.
A copy that was whole when they let it is not passed over.
`tests.elastic.explorer` plays all histories of a few processes, up to a bound, and
looks whether this holds.

*What is requested* of the coordinator, a pause for example, is noted by the processes
before it is answered: by as many as may go on, so the next coordinator hears of it from
one of them. One that a higher number has claimed notes nothing any more. A request
without an answer is sent again, to the next coordinator; it has a ticket, and counts
once.

*Who has seen more.* All that had done the newest steps may be lost after the notebook
has seen these steps. It says how far it has seen the training come when it reports the
loss, and with each request: no pause and no end comes before these steps were done
again.

*Who misses a start.* The coordinator may be lost between two starts, or an answer may
be. A process that hears of a generation which it is part of, but which it was not told
to begin, takes it for the newest and asks for the next one. So does the one that leads
when not all could begin.

*Who wakes up.* A process that was stopped finds its links closed, asks the others, and
hears of a generation that it is not part of. It is fenced: it ends its members, and
nothing that it sends is taken, because its frames name an older run. It keeps its old
copies until it begins again: those that went on without it may be lost before they have
a whole one. Only then do they ask it, and all that have ever taken part. One that
stands by has no links; it asks the one that leads now and then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple

from kit.crc import crc32
from kit.errors import InvalidArgumentError
from kit.message_fields import (
    anything,
    check,
    fields_of,
    flag,
    list_of,
    optional,
    row_of,
    table_of,
    text,
    whole,
)
from kit.task import Task
from kit.trace.named_rows import Change
from kit.training.core.axes import OneGeneration
from kit.training.core.snapshot import CopyPoint, Held, is_whole
from kit.training.features.elastic.placing import Placing, in_order, placed

#: The most changes that go with a generation whenever a process hears of it.
MOST_CHANGES: Final = 50
_FIELDS: Final = {
    "origin": text(pattern="[0-9a-f]{32}"),
    "number": whole(0),
    "places": list_of(text(1000)),
    "standby": list_of(text(1000)),
    "known": list_of(text(1000)),
    "before": optional(list_of(text(1000))),
    "placing": table_of(anything()),
    "addresses": list_of(text(1000)),
    "changes": list_of(row_of(*fields_of(Change).values())),
    "n_changes": optional(whole(0)),
    "resumes": optional(flag()),
    "rehosts": optional(flag()),
}
_ATTEMPTS: Final = 2**32  # to follow one generation, by processes of any names
_LISTS: Final = ("places", "standby", "known", "before", "addresses")


@dataclass(frozen=True)
class Generation(OneGeneration):
    """One generation of an elastic training; see `OneGeneration` for what all have.

    Attributes:
        number: no two attempts have the same, see `number_after`.
        standby: they hold copies, and take over.
        known: all processes that have taken part so far.
        before: those of the newest generation before it of which its coordinator knew
            that it had begun everywhere.
        placing: how the members are to be spread over the processes.
        changes: the newest of them, one for each.
        resumes: else it begins anew, with the values that the coordinator was given.
        rehosts: else these are nowhere, "", until it is back.
    """

    placing: Placing = field(default_factory=Placing)
    rehosts: bool = True
    known: tuple[str, ...] = ()
    before: tuple[str, ...] = ()

    is_followed: ClassVar[bool] = True

    @classmethod
    def first(
        cls,
        origin: str,
        tasks: Sequence[Task],
        processes: Iterable[str],
        placing: Placing,
        *,
        rehosts: bool = True,
    ) -> Generation:
        """Return generation 0 of a training on these members and processes.

        >>> tasks = [Task("worker", n) for n in range(3)]
        >>> result = Generation.first("", tasks, ["worker:0", "worker:1"], Placing())
        >>> result.places, result.is_at_home(tasks)
        (('worker:0', 'worker:1', 'worker:0'), False)
        """
        hosts_in_order = in_order(processes)
        if rehosts:
            places = placed(tasks, hosts_in_order, placing)
        else:
            places = tuple(
                task.short if task.short in hosts_in_order else "" for task in tasks
            )
        standby = tuple(host for host in hosts_in_order if host not in places)
        return cls(
            origin,
            0,
            places,
            standby,
            known=hosts_in_order,
            placing=placing,
            rehosts=rehosts,
        )

    @property
    def processes(self) -> tuple[str, ...]:
        """The processes that take part: those that host members, and the others."""
        return in_order(filter(None, (*self.places, *self.standby)))

    def remembering(self, earlier: Sequence[Change]) -> Generation:
        """Return it with all changes since the first: `earlier` ones, and its own.

        >>> first, second = (Change((), (), (), step, 0, 0.0, "") for step in (1, 2))
        >>> result = Generation("", 2, changes=(second,), n_changes=2)
        >>> result.remembering((first,)).changes == (first, second)
        True
        """
        before = self.n_changes - len(self.changes)
        return replace(self, changes=(*earlier[:before], *self.changes))

    def hosted_by(self, process: str) -> tuple[int, ...]:
        """Return the members that a process hosts."""
        return tuple(n for n, host in enumerate(self.places) if host == process)

    def check(self, n_members: int) -> None:
        """Raise `InvalidArgumentError` unless it fits this number of members."""
        if len(self.places) != n_members or len(self.addresses) not in (0, n_members):
            raise InvalidArgumentError(
                f"a generation names the places {self.places} at {self.addresses} for "
                f"{n_members} members; give one for each."
            )
        for name in (*self.processes, *self.known):
            Task.parse(name)

    def to_plain(self) -> dict[str, Any]:
        """Return it as data that JSON can carry."""
        lists = {name: list(getattr(self, name)) for name in _LISTS}
        return (
            {name: getattr(self, name) for name in _FIELDS}
            | lists
            | {
                "placing": self.placing.to_plain(),
                "changes": [change.to_plain() for change in self.changes],
            }
        )

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Generation:
        """Rebuild it from `to_plain`."""
        values = check("generation", _FIELDS, plain)
        values |= {name: tuple(values.get(name, ())) for name in _LISTS}
        values["placing"] = Placing.from_plain(values["placing"])
        values["changes"] = tuple(map(Change.from_plain, values["changes"]))
        return cls(**values)


def number_after(number: int, process: str) -> int:
    """Return the number that a process claims the log for, above another one.

    Two that do so at once have different ones.

    >>> first = number_after(0, "worker:0"), number_after(0, "worker:1")
    >>> first[0] != first[1], number_after(max(first), "worker:0") > max(first)
    (True, True)
    """
    return (number // _ATTEMPTS + 1) * _ATTEMPTS + crc32(process.encode())


def run_of(origin: str, number: int) -> str:
    """Return the run id of a generation: another one for each attempt to begin it."""
    return hashlib.sha256(f"{origin} {number}".encode()).hexdigest()[:32]


def may_go_on(
    processes: Collection[str],
    answered: Collection[str],
    ended: Collection[str],
    vouched: Collection[str] = (),
) -> bool:
    """Whether those that answered are the greater part of those that may live.

    Of two halves, the one with the first process. While somebody is silent, one that
    has ended counts as one that may live: the two may have gone on before. But not if
    it is `vouched` for: what it had begun is known.

    >>> may_go_on(["ps:0", "worker:0"], answered=["worker:0"], ended=["ps:0"])
    True
    >>> may_go_on(["ps:0", "worker:0"], answered=["worker:0"], ended=[])
    False
    >>> tasks = ["ps:0", "worker:0", "worker:1"]
    >>> may_go_on(tasks, answered=["ps:0"], ended=["worker:0"])
    False
    >>> may_go_on(tasks, ["ps:0"], ["worker:0"], vouched=["worker:0"])
    True
    """
    # Two such sets always share a process; of two halves only one has the first.
    may_live = set(processes) - set(ended)
    if not may_live <= set(answered):
        may_live = set(processes) - (set(ended) & set(vouched))
    n_here = 2 * len(may_live & set(answered))
    is_half = n_here == len(may_live) > 0
    return n_here > len(may_live) or (is_half and in_order(may_live)[0] in answered)


def is_over(
    processes: Collection[str], answered: Collection[str], ended: Collection[str]
) -> bool:
    """Whether a generation that has begun somewhere commits no step any more.

    All its processes have ended, or one that answered has not begun it.

    >>> is_over(["ps:0", "ps:1"], answered=["worker:0"], ended=["ps:0"])
    False
    >>> is_over(["ps:0", "ps:1"], answered=["ps:1"], ended=["ps:0"])
    True
    """
    may_live = set(processes) - set(ended)
    return not may_live or not may_live.isdisjoint(answered)


class Holder(NamedTuple):
    """Which process holds a member's copy, and of when that is."""

    process: str
    moment: CopyPoint


def newest_whole(
    held: Mapping[str, Collection[Held]],
) -> tuple[CopyPoint, dict[int, Holder]] | None:
    """Return the newest moment of which all writers' copies are left, and who has them.

    For other members, an older copy if there is no newer one. None if there is no such
    moment. `held` says what each process holds.

    >>> at, before = CopyPoint(8), CopyPoint(4)
    >>> held = {"ps:0": [Held(at, 1, (1,))], "ps:1": [Held(before, 2, (1,))]}
    >>> moment, holders = newest_whole(held)
    >>> moment.step, {n: (who.process, who.moment.step) for n, who in holders.items()}
    (8, {1: ('ps:0', 8), 2: ('ps:1', 4)})
    """
    copies = [
        (item, Holder(process, item.moment))
        for process, some in held.items()
        for item in some
    ]
    copies.sort(key=lambda pair: pair[0].moment, reverse=True)
    for moment in dict.fromkeys(item.moment for item, _ in copies):
        if is_whole([item for item, _ in copies if item.moment == moment]):
            holders: dict[int, Holder] = {}
            for copy, holder in copies:  # from the newest on: the first one counts
                if copy.moment <= moment:
                    holders.setdefault(copy.member, holder)
            return moment, {member: holders[member] for member in sorted(holders)}
    return None


def next_generation(
    generation: Generation,
    tasks: Sequence[Task],
    here: Collection[str],
    placing: Placing,
    change: Change,
    *,
    number: int = 0,
    before: tuple[str, ...] = (),
) -> Generation:
    """Return the generation that follows one, on the processes that are here.

    `number` and `before`: see `Generation`. It has no addresses yet.
    """
    after = Generation.first(
        generation.origin,
        tasks,
        set(here) - set(placing.left),
        placing,
        rehosts=generation.rehosts,
    )
    return replace(
        after,
        number=number or generation.number + 1,
        before=before,
        known=in_order((*generation.known, *here)),
        changes=(*generation.changes, change)[-MOST_CHANGES:],
        n_changes=generation.n_changes + 1,
    )
