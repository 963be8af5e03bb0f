"""The mesh: each worker sums its own part of all gradients and hands it to all.

Pure. The reduce-scatter and all-gather of Thakur, Rabenseifner and Gropp, "Optimization
of collective communication operations in MPICH" (2005), in direct form: every worker
deals with every other, and there are two hops where a ring of n has 2(n-1).

    worker 0 <---> worker 1 <---> worker 2        each bucket is cut into one chunk
       ^                             ^            a worker; chunk c belongs to
       +-----------------------------+            worker c

Sum   each worker offers its gradient of chunk c to worker c, which adds them in the
      order c, c+1, ..., c-1, in which the chunk would travel round the ring.
Apply the owner of a chunk updates its parameters: no work is done twice.
Copy  each owner hands its finished chunk to all others; on one host it writes it into
      their memory itself, while the chunk is still in its cache.

Cost a worker and step: 2(n-1) messages a bucket sent and as many received; 2(n-1)/n of
the parameters' bytes sent and as many received. The ring moves the same, but each of
its messages has to wait for the one before.
"""

from __future__ import annotations

from collections.abc import Iterator

from kit.exchange.layout import Bucket, Layout
from kit.exchange.plan import (
    GRAD,
    NEXT,
    SELF,
    Add,
    Apply,
    Copy,
    Group,
    Op,
    Owned,
    Plan,
    Receive,
    Send,
    Term,
)
from kit.exchange.topologies.counting import Traffic
from kit.exchange.topologies.seats import ReduceGather, Seat, seat_of, seats
from kit.trace.traffic import TransferKind


class Mesh(ReduceGather):
    """The all-reduce of two hops, in which everybody talks to everybody."""

    name = "mesh"
    title = "Mesh all-reduce"
    turns = True
    hue = 2

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        """Return a worker's plan; parameter servers have none in a mesh."""
        seat = seat_of(group, member)
        if seat is None:
            return None
        return Plan(
            tuple(tuple(_sum_up(seat, bucket)) for bucket in layout.buckets),
            tuple(_hand_out(seat, layout)),
            placed=True,
            overwrites=True,
        )

    def owners(self, layout: Layout, group: Group) -> tuple[Owned, ...]:
        """Worker c updates chunk c of each bucket."""
        return tuple(
            Owned(bucket.chunks[seat.rank], (seat.member,))
            for bucket in layout.buckets
            for seat in seats(group)
        )

    def traffic(self, layout: Layout, group: Group) -> Traffic:
        """Each two workers swap gradients, then parameters, of each other's chunk."""
        traffic: Traffic = {}
        for chunk, owner in enumerate(group.workers):
            size = layout.chunk_bytes(chunk)
            for other in group.workers:
                if other != owner:
                    traffic[other, owner, TransferKind.REDUCE] = size
                    traffic[owner, other, TransferKind.GATHER] = size
        return traffic

    def cost_in_words(self, n: int) -> str:
        """Return the formulas of messages and bytes as sentences."""
        return (
            "Every worker sends each other one its chunk, and then gets the sum back: "
            "2(n\u22121) messages a worker, in two hops, and 2(n\u22121)/n of its "
            "gradient's bytes."
        )


def _sum_up(seat: Seat, bucket: Bucket) -> Iterator[Op]:
    # Each worker begins with the next one, so that they do not all turn to the same.
    others = [(rank, seat.workers[rank]) for rank in seat.others]
    mine = bucket.chunks[seat.rank]
    for rank, worker in others:
        yield Send(worker, GRAD, bucket.chunks[rank], TransferKind.REDUCE)
    # And hears first of the one before it, which has begun with it.
    for _, worker in reversed(others):
        yield Receive(worker, GRAD, mine, TransferKind.REDUCE)
    if others:
        yield Add(mine, (Term(SELF, GRAD), *(Term(w, GRAD) for _, w in others)))


def _hand_out(seat: Seat, layout: Layout) -> Iterator[Op]:
    others = [(rank, seat.workers[rank]) for rank in seat.others]
    for bucket in layout.buckets:
        mine = bucket.chunks[seat.rank]
        yield Apply(mine)
        for _, worker in others:
            yield Send(worker, NEXT, mine, TransferKind.GATHER)
    for rank, worker in reversed(others):
        for bucket in layout.buckets:
            yield Receive(worker, NEXT, bucket.chunks[rank], TransferKind.GATHER)
            yield Copy(Term(worker, NEXT), NEXT, bucket.chunks[rank])
