"""What each member does in a step: who sends which bytes to whom, in which order.

Pure data. A plan is a list of five kinds of operations on flat buffers; a topology
makes one for each member (`kit.exchange.topologies.ring`,
`kit.exchange.topologies.ps`), a `Program` carries it out, a test checks that all plans
of a step fit together.

Messages between two members need no name: both sides make the same plans, so the n-th
message from a to b is the same on both sides. A sender copies nothing but what is
`placed`: the receiver reads the sender's own buffer (its *window* on it), so a plan
must not let a member write to a range again before its reader has read it.

A step has two parts. In `reduce`, bucket by bucket, gradients become sums. Only when
the owner of a range has the contributions of all workers to all buckets does it update
its parameters, in `finish`, and hands them out. So a worker that refuses its
contribution stops the step everywhere before anything has changed. Without slots the
two parts may be woven together (`kit.exchange.pipeline`): NEXT may be written as
soon as its range is summed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from kit.exchange.layout import Range
from kit.exchange.topologies.parameter_placement import Shards
from kit.trace.traffic import TransferKind

# Regions: the flat buffers that every member has. NOW and NEXT change places with each
# step, so that the parameters of the last step stay whole until the next are complete.
# If the next ones overwrite the gradients, GRAD and NOW change places, for the same
# reason; if NOW stays, since the step ends without agreement, GRAD and NEXT do.
GRAD = 0
NOW = 1
NEXT = 2
SLOT = 3  # and the next ones: the optimizer's state, one region a slot
MAX_SLOTS = 5
SPARE = SLOT + MAX_SLOTS  # and the next ones, one a worker: gradients kept or copies
# In a group, which has no optimizer: its caller's summand and room for the result. They
# are not in our memory: a `Program` is lent them.
LENT, RESULT = SLOT, SLOT + 1

SELF = -1


class Send(NamedTuple):
    """Tell member `to` that a range of our region is ready to be read."""

    to: int
    region: int
    range: Range
    kind: TransferKind


class Receive(NamedTuple):
    """Wait until member `source` says that a range of its region is ready."""

    source: int
    region: int
    range: Range
    kind: TransferKind


class Term(NamedTuple):
    """One summand: a region of a member; `SELF` is the member that adds."""

    member: int
    region: int


class Add(NamedTuple):
    """Set our region `into` to the sum of the terms, strictly from left to right."""

    range: Range
    terms: tuple[Term, ...]
    into: int = GRAD


class Copy(NamedTuple):
    """Copy a range from a window (or an own region) into our region `into`."""

    source: Term
    into: int
    range: Range


class Apply(NamedTuple):
    """Update the parameters: NEXT from NOW, the summed GRAD and the slots."""

    range: Range


Op = Send | Receive | Add | Copy | Apply


class Plan(NamedTuple):
    """One member's part of a step."""

    reduce: tuple[tuple[Op, ...], ...]  # one list for each bucket
    finish: tuple[Op, ...]
    # Whether the sender of finished ranges (`TransferKind.GATHER`) also writes them to
    # their place in the receiver's memory, so that the receiver has nothing to copy.
    placed: bool = False
    # Whether NEXT may be where GRAD was: by the time that the sum of a range, or its
    # next parameters, are written there, everybody has read those gradients.
    overwrites: bool = False

    @property
    def ops(self) -> tuple[Op, ...]:
        """All operations in their order."""
        return tuple(op for bucket in self.reduce for op in bucket) + self.finish


@dataclass(frozen=True)
class Group:
    """Who takes part, by member number, and what each parameter server holds.

    The place of a worker in `workers` decides its data and its turn in every sum.
    """

    ps: tuple[int, ...]
    workers: tuple[int, ...]
    shards: Shards
    hosts: tuple[int, ...] = ()  # the host of member 0, 1, ...; empty: all on one

    @property
    def members(self) -> tuple[int, ...]:
        """All member numbers, in order."""
        return tuple(sorted((*self.ps, *self.workers)))

    def host(self, member: int) -> int:
        """Return the number of a member's host."""
        return self.hosts[member] if self.hosts else 0

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """The workers, in their order, cut wherever the next one is on another host.

        Workers that are ordered by host make one block for each host.

        >>> Group((), (0, 1, 2, 3), (), hosts=(5, 5, 6, 6)).blocks
        ((0, 1), (2, 3))
        """
        groups = groupby(self.workers, self.host)
        return tuple(tuple(block) for _, block in groups)


def by_host(members: Iterable[int], hosts: Sequence[str]) -> tuple[int, ...]:
    """Return members with those of one host together; `hosts` has the host of each.

    >>> by_host([0, 1, 2], ["a", "b", "a"])
    (0, 2, 1)
    """
    members = tuple(members)
    names = list(dict.fromkeys(hosts[member] for member in members))
    return tuple(sorted(members, key=lambda member: names.index(hosts[member])))


class Owned(NamedTuple):
    """A range of the parameters and the members that update it."""

    range: Range
    members: tuple[int, ...]


def chain(chunk: int, n_workers: int) -> tuple[int, ...]:
    """Return the order in which the workers' shares of a chunk are added.

    It is the order in which the chunk travels round the ring, and the same everywhere.

    >>> chain(2, 4)
    (2, 3, 0, 1)
    """
    return tuple((chunk + hop) % n_workers for hop in range(n_workers))


def turned(terms: tuple[Term, ...], chunk: int) -> tuple[Term, ...]:
    """Return one term per worker in the order of `chain`, by two slices.

    >>> own = tuple(Term(worker, GRAD) for worker in range(4))
    >>> [term.member for term in turned(own, 2)]
    [2, 3, 0, 1]
    """
    return terms[chunk:] + terms[:chunk]
