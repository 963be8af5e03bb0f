"""Which processes host the members of an elastic training, in picture and words.

Pure. The board draws processes, each named after the task that it was started for: a
lost process leaves the ring, and another one hosts its member from then on. So links
between members are added up to links between their processes, and what members of one
process send each other uses no link.

    worker:0 --> worker:1 --> worker:2           worker:0 <--> worker:1
        ^                         |      ==>
        +-------------------------+              worker:2 is gone, on worker:0
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kit.task import Task
from kit.trace.named_rows import listed
from kit.training.features.elastic.generation import Generation
from kit.training.features.elastic.placing import is_server

GONE, LEFT, STANDS_BY = "is gone", "has left", "stands by"
_FATES = {GONE: "are gone", LEFT: "have left", STANDS_BY: "stand by"}
Link = tuple[int, int]


class Hosting(NamedTuple):
    """The members of an elastic training, by their short names, and its generation."""

    members: tuple[str, ...]
    generation: Generation

    @property
    def processes(self) -> tuple[str, ...]:
        """All processes that took part so far, in the order of their tasks."""
        return self.generation.known

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that the processes were started for, by their full names."""
        return tuple(str(Task.parse(name)) for name in self.processes)

    def hosted_by(self, process: str) -> tuple[str, ...]:
        """Return the members that a process hosts."""
        return tuple(self.members[n] for n in self.generation.hosted_by(process))

    def host_of(self, member: str) -> str:
        """Return the process that hosts a member; "" if there is no such member."""
        pairs = zip(self.members, self.generation.places, strict=True)
        return dict(pairs).get(member, "")

    def fate(self, process: str) -> str:
        """Return what became of a process that hosts no member; "" if it hosts one."""
        now = self.generation
        if process in now.places:
            return ""
        if process in now.standby:
            return STANDS_BY
        # A process may have come and gone several times: the last change counts.
        last = next(
            (
                change
                for change in reversed(now.changes)
                if process in (*change.left, *change.lost)
            ),
            None,
        )
        return LEFT if last is not None and process in last.left else GONE

    def groups(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return which processes serve, and which work; one may do both.

        One that hosts no member counts by its name, so that it keeps its place.
        """
        parts = [self.hosted_by(process) or (process,) for process in self.processes]
        serve = tuple(n for n, some in enumerate(parts) if any(map(is_server, some)))
        work = [n for n, some in enumerate(parts) if not all(map(is_server, some))]
        return serve, tuple(work)

    def between(self, rates: Mapping[Link, float]) -> dict[Link, float]:
        """Return the rates between processes, from those between members."""
        at = [self.processes.index(host) for host in self.generation.places]
        rate_of: dict[Link, float] = {}
        for (source, target), rate in rates.items():
            link = at[source], at[target]
            if link[0] != link[1]:  # within a process no byte is sent
                rate_of[link] = rate_of.get(link, 0.0) + rate
        return rate_of

    def lost(self, members: Collection[str]) -> dict[str, str]:
        """Return a sentence for each process of which a member does not answer.

        Until the next generation begins, in which others host its members.
        """
        hosts = dict.fromkeys(map(self.host_of, members))
        return {
            host: f"{host} does not answer; the others agree on who takes its part."
            for host in hosts
            if host
        }

    def words(self) -> str:
        """Say which processes host no member, and which members are elsewhere."""
        words = []
        for fate, many in _FATES.items():
            some = [process for process in self.processes if self.fate(process) == fate]
            if some:
                words.append(f"{listed(some)} {fate if len(some) == 1 else many}")
        guests: dict[str, list[str]] = {}
        for member, host in zip(self.members, self.generation.places, strict=True):
            if member != host:
                guests.setdefault(host, []).append(member)
        words += [f"{listed(some)} on {item}" for item, some in sorted(guests.items())]
        return "; ".join(words) + "." if words else ""


def compact(members: Collection[str]) -> str:
    """Return members in short.

    >>> compact(["ps:0", "worker:0", "worker:2"])
    'ps:0, worker:0, 2'
    """
    numbers: dict[str, list[str]] = {}
    for member in members:
        job, _, number = member.partition(":")
        numbers.setdefault(job, []).append(number)
    return ", ".join(f"{job}:{', '.join(some)}" for job, some in numbers.items())
