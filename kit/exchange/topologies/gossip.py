"""Gossip: each worker takes the mean of its own parameters and its two neighbours'.

Pure. The mixing step of decentralised parallel SGD (Lian et al., "Can decentralized
algorithms outperform centralized algorithms? A case study for decentralized parallel
stochastic gradient descent", 2017), on a ring with equal weights:

    worker 0 <---> worker 1 <---> worker 2        x_i = (x_(i-1) + x_i + x_(i+1)) / 3
       ^                             ^
       +-----------------------------+

A worker waits for its neighbours only: no message follows another in a step, while a
ring all-reduce has 2(n-1) in a row. But the workers agree only in the long run. A step
leaves at most (1 + 2 cos(2 pi / n)) / 3 of their difference: nothing with three
workers, 80 % with eight. Two workers take the mean of both.

The mean of all workers stays the same. Each sum is in the order of the workers. A
worker steps first and mixes then; the other order converges as fast.

Cost a worker and step, of two neighbours: 2 messages a bucket; twice the parameters'
bytes sent and as many received. Of one neighbour: half of that.
"""

from __future__ import annotations

from collections.abc import Iterator

from kit.exchange.layout import Bucket, Layout
from kit.exchange.plan import (
    GRAD,
    NEXT,
    SELF,
    Add,
    Group,
    Op,
    Owned,
    Plan,
    Receive,
    Send,
    Term,
)
from kit.exchange.topologies.counting import ExchangeCost, Loads, Traffic, of_each
from kit.exchange.topologies.seats import seats
from kit.exchange.topologies.topology import Topology, register
from kit.trace.traffic import TransferKind


class Gossip(Topology):
    """Means of neighbours on a ring, in which workers do not agree.

    A class derived from it needs a name and another `neighbourhood`: that of any
    connected, undirected graph in which all workers have equally many neighbours.

    >>> class Wider(Gossip):
    ...     name = "wider"
    ...     def neighbourhood(self, group, worker):
    ...         place, n = group.workers.index(worker), len(group.workers)
    ...         ranks = {(place + way) % n for way in (-2, -1, 0, 1, 2)}
    ...         return tuple(group.workers[rank] for rank in sorted(ranks))
    >>> Wider().neighbourhood(Group((), (0, 1, 2, 3, 4, 5), ()), worker=0)
    (0, 1, 2, 4, 5)
    """

    name = "gossip"
    title = "Gossip with neighbours"
    agrees = False
    hue = 5

    def neighbourhood(self, group: Group, worker: int) -> tuple[int, ...]:
        """Return a worker and those beside it, in the order of the workers."""
        rank, n = group.workers.index(worker), len(group.workers)
        ranks = {(rank + way) % n for way in (-1, 0, 1)}
        return tuple(group.workers[item] for item in sorted(ranks))

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        """Return a worker's plan; parameter servers have none."""
        if member not in group.workers:
            return None
        members = self.neighbourhood(group, member)
        mixing = (tuple(_mix(member, members, bucket)) for bucket in layout.buckets)
        return Plan(tuple(mixing), ())

    def owners(self, layout: Layout, group: Group) -> tuple[Owned, ...]:
        """Worker r keeps chunk r+1 of each bucket, as on a ring; nobody updates."""
        return tuple(
            Owned(bucket.chunks[seat.chunk(-1)], (seat.member,))
            for bucket in layout.buckets
            for seat in seats(group)
        )

    def traffic(self, layout: Layout, group: Group) -> Traffic:
        """Each worker sends all its parameters to each of its neighbours."""
        return {
            (*link, TransferKind.REDUCE): layout.payload_bytes
            for link in self._links(group)
        }

    def loads(self, n: int, n_ps: int, n_bytes: int, n_buckets: int) -> Loads:
        """All workers do the same: each adds what its neighbours have."""
        n_others = len(self._links(Group((), tuple(range(n)), ()))) // n
        moved = n_others * n_bytes
        return of_each(ExchangeCost(n_others * n_buckets, moved, moved), n)

    def cost_in_words(self, n: int) -> str:
        """Return the formulas of messages and bytes as sentences."""
        return (
            "Every worker sends all it has to its neighbours, and waits for nobody "
            "else: a message for each of them, none of which waits for another, and as "
            "often the bytes of its parameters, however many workers there are. They "
            "do not agree: each takes the mean of its own and its neighbours\u2019."
        )

    def _links(self, group: Group) -> list[tuple[int, int]]:
        return [
            (worker, other)
            for worker in group.workers
            for other in self.neighbourhood(group, worker)
            if other != worker
        ]


def _mix(own: int, members: tuple[int, ...], bucket: Bucket) -> Iterator[Op]:
    others = [other for other in members if other != own]
    for other in others:
        yield Send(other, GRAD, bucket.range, TransferKind.REDUCE)
    for other in others:
        yield Receive(other, GRAD, bucket.range, TransferKind.REDUCE)
    terms = (Term(SELF if member == own else member, GRAD) for member in members)
    # Not into GRAD: a neighbour may still be reading what we have sent from there.
    yield Add(bucket.range, tuple(terms), NEXT)


register(Gossip())
