"""A worker's seat on the circle of workers: which ones come before and after it.

Pure. Also what all-reduces of two phases cost.

    seat 0 --> seat 1 --> seat 2
      ^                     |
      +---------------------+
"""

from __future__ import annotations

from typing import NamedTuple

from kit.exchange.plan import Group, chain
from kit.exchange.topologies.counting import ExchangeCost, Loads, of_each
from kit.exchange.topologies.topology import Topology


class Seat(NamedTuple):
    """One worker's place; `workers` are the member numbers of all workers, in order."""

    workers: tuple[int, ...]
    rank: int

    @property
    def n(self) -> int:
        """How many seats there are."""
        return len(self.workers)

    @property
    def member(self) -> int:
        """The member that sits here."""
        return self.workers[self.rank]

    @property
    def after(self) -> int:
        """The member that sits on the next seat."""
        return self.workers[(self.rank + 1) % self.n]

    @property
    def before(self) -> int:
        """The member that sits on the seat before."""
        return self.workers[self.rank - 1]

    @property
    def others(self) -> tuple[int, ...]:
        """The ranks of all others, beginning with the next one.

        >>> Seat((7, 8, 9, 10), rank=2).others
        (3, 0, 1)
        """
        return chain(self.rank, self.n)[1:]

    def chunk(self, hop: int) -> int:
        """Return the number of the chunk that lies `hop` seats behind this one.

        >>> Seat((7, 8, 9, 10), rank=1).chunk(0), Seat((7, 8, 9, 10), rank=1).chunk(2)
        (1, 3)
        """
        return (self.rank - hop) % self.n


def seat_of(group: Group, member: int) -> Seat | None:
    """Return the seat of a worker, None for a parameter server."""
    if member not in group.workers:
        return None
    return Seat(group.workers, group.workers.index(member))


def seats(group: Group) -> tuple[Seat, ...]:
    """Return the seats of all workers, in their order."""
    return tuple(Seat(group.workers, rank) for rank in range(len(group.workers)))


class ReduceGather(Topology):
    """An all-reduce in which each chunk is summed by one worker and handed to all."""

    def loads(self, n: int, n_ps: int, n_bytes: int, n_buckets: int) -> Loads:
        """All workers do the same: each adds and updates one gradient in all."""
        moved = 2 * (n - 1) / n * n_bytes
        return of_each(ExchangeCost(2 * (n - 1) * n_buckets, moved, n_bytes), n)
