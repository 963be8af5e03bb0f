"""The options of a session that its master must know, and a cluster that it brings.

Pure.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from kit.message_fields import check, flag, list_of, optional, row_of, text
from kit.task import Task

_FIELDS: Final = {
    "soft": optional(flag()),
    "filters": optional(list_of(text(1000))),
    "isolated": optional(flag()),
    "whole": optional(flag()),
}


@dataclass(frozen=True)
class SessionOptions:
    """The same for all runs of a session.

    Attributes:
        soft: a device that does not exist is replaced by another of the same task.
        filters: the only tasks to use besides the target; empty: all.
        isolated: variables and other state belong to the session, and end with it.
        whole: an op that fits no device fails every run of the graph, as in TensorFlow;
            else only runs that need the op.

    >>> plain = SessionOptions(filters=("/job:ps",)).to_plain()
    >>> SessionOptions.from_plain(plain).filters
    ('/job:ps',)
    """

    soft: bool = False
    filters: tuple[str, ...] = ()
    isolated: bool = False
    whole: bool = False

    def to_plain(self) -> dict[str, Any]:
        """Return them as plain data that JSON can carry."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: object) -> SessionOptions:
        """Rebuild them from `to_plain`; `InvalidArgumentError` for anything else."""
        values = check("options", _FIELDS, plain)
        return cls(**{**values, "filters": tuple(values.get("filters", ()))})


_CLUSTER: Final = {"task": text(), "addresses": list_of(row_of(text(), text(1000)))}


@dataclass(frozen=True)
class SessionCluster:
    """A cluster that a session brings, for servers that were started with another one.

    Attributes:
        task: which task of it a server is to be.
        addresses: where each of its tasks is.

    >>> tasks = ((Task("worker", 0), "h0:80"), (Task("worker", 1), "h1:80"))
    >>> plain = SessionCluster(Task("worker", 0), tasks).seen_by(tasks[1][0]).to_plain()
    >>> SessionCluster.from_plain(plain).task.short
    'worker:1'
    """

    task: Task
    addresses: tuple[tuple[Task, str], ...]

    def seen_by(self, task: Task) -> SessionCluster:
        """Return the same cluster, for another of its tasks."""
        return replace(self, task=task)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data that JSON can carry."""
        rows = [[task.short, address] for task, address in self.addresses]
        return {"task": self.task.short, "addresses": rows}

    @classmethod
    def from_plain(cls, plain: object) -> SessionCluster:
        """Rebuild it from `to_plain`; `InvalidArgumentError` for anything else."""
        values = check("a session's cluster", _CLUSTER, plain)
        rows = [(Task.parse(task), address) for task, address in values["addresses"]]
        return cls(Task.parse(values["task"]), tuple(rows))
