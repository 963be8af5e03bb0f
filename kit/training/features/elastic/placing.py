"""Which process hosts which member of an elastic training.

Pure. A process is known by the task that it was started for, as "worker:2".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from kit.errors import InvalidArgumentError
from kit.message_fields import check, list_of, table_of, text, whole
from kit.task import Task
from kit.training.core.log import SHARE

_FIELDS: Final = {
    "number": whole(0),
    "workers": whole(0),
    "shares": table_of(SHARE),
    "left": list_of(text(1000)),
}


@dataclass(frozen=True)
class Placing:
    """How the members of a training are to be spread, as its user asked for.

    Attributes:
        number: counts the changes of it: of two, the one with the higher number holds.
        workers: how many workers' processes host members; 0: all that are there. The
            others stand by.
        shares: how many members a process hosts, relative to one that is not named.
        left: the processes that are to host none and to stand by no more.
    """

    number: int = 0
    workers: int = 0
    shares: Mapping[str, float] = field(default_factory=dict)
    left: tuple[str, ...] = ()

    def changed(self, **changes: Any) -> Placing:
        """Return it with changes, and the next number."""
        return replace(self, number=self.number + 1, **changes)

    def without(self, process: str) -> Placing:
        """Return it with one more process that has left."""
        return self.changed(left=in_order((*self.left, process)))

    def to_plain(self) -> dict[str, Any]:
        """Return it as data that JSON can carry."""
        return asdict(self) | {"shares": dict(self.shares), "left": list(self.left)}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Placing:
        """Rebuild it from `to_plain`."""
        values = check("placing", _FIELDS, plain)
        return cls(**{**values, "left": tuple(values["left"])})


def in_order(processes: Iterable[str]) -> tuple[str, ...]:
    """Return the processes in the order of their tasks, each once.

    >>> in_order(["worker:10", "worker:2", "ps:0", "ps:0"])
    ('ps:0', 'worker:2', 'worker:10')
    """
    return tuple(sorted(set(processes), key=Task.parse))


def hosting(here: Collection[str], placing: Placing) -> tuple[str, ...]:
    """Return which of the processes that are here host members.

    All servers do, and the first workers, as many as are wanted.

    >>> hosting(["ps:0", "worker:0", "worker:2", "worker:3"], Placing(workers=2))
    ('ps:0', 'worker:0', 'worker:2')
    """
    hosts_left = in_order(set(here) - set(placing.left))
    workers = [host for host in hosts_left if not is_server(host)]
    unwanted = workers[placing.workers :] if placing.workers else []
    return tuple(host for host in hosts_left if host not in unwanted)


def placed(
    tasks: Sequence[Task], here: Collection[str], placing: Placing
) -> tuple[str, ...]:
    """Return the process of each member, of those that are `here`.

    A member is at home in its own task's process. If that does not host any, it goes to
    the process that has the fewest for its share, the first of these; to one of its own
    kind, server or worker, if there is one.

    >>> tasks = [Task("ps", 0), *(Task("worker", n) for n in range(4))]
    >>> here = ["ps:0", "worker:0", "worker:1"]
    >>> placed(tasks, here, Placing())
    ('ps:0', 'worker:0', 'worker:1', 'worker:0', 'worker:1')
    >>> placed(tasks, here, Placing(shares={"worker:1": 3}))
    ('ps:0', 'worker:0', 'worker:1', 'worker:1', 'worker:1')
    """
    hosts = hosting(here, placing)
    # A function of its arguments alone, and in one order: any process that leads the
    # next attempt must come to the same places.
    hosts_of_members = [task.short if task.short in hosts else "" for task in tasks]
    for member, task in enumerate(tasks):
        if not hosts_of_members[member]:

            def burden(host: str, serves: bool = is_server(task.short)) -> Any:
                n_members, is_other = (
                    hosts_of_members.count(host) + 1,
                    is_server(host) != serves,
                )
                return is_other, n_members / placing.shares.get(host, 1.0)

            hosts_of_members[member] = min(hosts, key=burden)
    return tuple(hosts_of_members)


def check_workers(n: int, tasks: Sequence[Task], processes: Collection[str]) -> None:
    """Raise `InvalidArgumentError` unless `n` workers' processes can host members.

    `tasks` are the members, `processes` those that take part.
    """
    members = [task.short for task in tasks if not is_server(task.short)]
    here = [host for host in in_order(processes) if not is_server(host)]
    if n < 1:
        raise InvalidArgumentError(f"worker is {n}; give a number of tasks, 1 or more.")
    if n > len(members):
        raise InvalidArgumentError(
            f"{n} worker tasks are too many: this training has {len(members)} logical "
            f"workers, as it was begun, so at most {len(members)} tasks can take part. "
            f"For more, begin it with elastic=kit.Elastic(logical_workers={n})."
        )
    if n > len(here):
        raise InvalidArgumentError(
            f"{n} worker tasks are too many: only {', '.join(here)} take part. Add one "
            f"with cluster.add('worker')."
        )


def check_shares(shares: Mapping[str, float], processes: Collection[str]) -> None:
    """Raise `InvalidArgumentError` for a share that no process can have."""
    for name, share in shares.items():
        if name not in processes:
            names = ", ".join(in_order(processes))
            raise InvalidArgumentError(
                f"shares names {name!r}, which takes no part; there are {names}."
            )
        check("shares", {name: SHARE}, {name: share})


def check_leaves(task: str, processes: Collection[str]) -> None:
    """Raise `InvalidArgumentError` unless a process takes part that may leave."""
    if task not in processes:
        names = ", ".join(in_order(processes))
        raise InvalidArgumentError(f"{task} takes no part; there are {names}.")
    if len(processes) == 1:
        raise InvalidArgumentError(
            f"{task} is the only task that is left; without it the training would end."
        )


def is_server(process: str) -> bool:
    """Whether a process was started for a parameter server."""
    return Task.parse(process).job == "ps"
