"""Gossip: each worker takes the mean of its own parameters and its two neighbours'.

Pure. The mixing step of decentralised parallel SGD (Lian et al., "Can decentralized
algorithms outperform centralized algorithms? A case study for decentralized parallel
stochastic gradient descent", 2017), on a ring with equal weights:

    worker 0 <---> worker 1 <---> worker 2        x_i = (x_(i-1) + x_i + x_(i+1)) / 3
       ^                             ^
       +-----------------------------+

Nobody waits for more than its neighbours: no message follows on another in a step,
where a ring all-reduce has 2(n-1) in a row. But the workers agree only in the long run.
Of what they differ by, a step leaves (1 + 2 cos(2 pi / n)) / 3 at most: nothing with
three workers, 80 % with eight. Two workers take the mean of both.

The mean of all workers stays what it was. Each sum is in the order of the workers. A
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
from kit.exchange.topologies.seats import Seat, seat_of, seats
from kit.exchange.topologies.topology import Topology
from kit.trace.traffic import TransferKind


class Gossip(Topology):
    """Means of neighbours on a ring, in which workers do not agree."""

    name = "gossip"
    title = "Gossip with neighbours"
    agrees = False
    hue = 5

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        """Return a worker's plan; parameter servers have none."""
        seat = seat_of(group, member)
        if seat is None:
            return None
        return Plan(tuple(tuple(_mix(seat, bucket)) for bucket in layout.buckets), ())

    def neighbourhood(self, group: Group, worker: int) -> tuple[int, ...]:
        """Return a worker and those beside it, in the order of the workers."""
        seat = seat_of(group, worker)
        return _members(seat) if seat is not None else ()

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
            (seat.member, other, TransferKind.REDUCE): layout.payload_bytes
            for seat in seats(group)
            for other in _others(seat)
        }

    def n_messages(self, layout: Layout, group: Group) -> int:
        """One for each neighbour of each worker and each bucket that holds anything."""
        n_full = sum(bucket.range.size > 0 for bucket in layout.buckets)
        return n_full * sum(len(_others(seat)) for seat in seats(group))

    def hops(self, layout: Layout, group: Group) -> int:
        """One for each bucket, if there are neighbours on different hosts."""
        here = {
            (group.host(seat.member), group.host(other))
            for seat in seats(group)
            for other in _others(seat)
        }
        return len(layout.buckets) * any(one != other for one, other in here)

    def loads(self, n: int, n_ps: int, n_bytes: int, n_buckets: int) -> Loads:
        """All workers do the same: each adds what its neighbours have."""
        n_others = min(2, n - 1)
        moved = n_others * n_bytes
        return of_each(ExchangeCost(n_others * n_buckets, moved, moved), n)

    def cost_in_words(self, n: int) -> str:
        """Return the formulas of messages and bytes as sentences."""
        return (
            "Every worker sends all it has to its neighbours, and waits for nobody "
            "else: 2 messages a worker, none of which waits for another, and twice the "
            "bytes of its parameters, however many workers there are. They do not "
            "agree: each takes the mean of its own and its neighbours\u2019."
        )


def _others(seat: Seat) -> tuple[int, ...]:
    """Return the neighbours of a seat, the next one first; one that is both once."""
    return tuple(
        one for one in dict.fromkeys((seat.after, seat.before)) if one != seat.member
    )


def _members(seat: Seat) -> tuple[int, ...]:
    ranks = {(seat.rank + way) % seat.n for way in (-1, 0, 1)}
    return tuple(seat.workers[rank] for rank in sorted(ranks))


def _mix(seat: Seat, bucket: Bucket) -> Iterator[Op]:
    whole, others = bucket.range, _others(seat)
    for other in others:
        yield Send(other, GRAD, whole, TransferKind.REDUCE)
    for other in others:
        yield Receive(other, GRAD, whole, TransferKind.REDUCE)
    own = seat.member
    terms = (Term(SELF if one == own else one, GRAD) for one in _members(seat))
    # A neighbour may still read what we have sent: the sum has a place of its own.
    yield Add(whole, tuple(terms), NEXT)
