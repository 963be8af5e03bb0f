"""The mesh: each worker sums its own part of all gradients and hands it to all.

Pure. The reduce-scatter and all-gather of Thakur, Rabenseifner and Gropp, "Optimization
of collective communication operations in MPICH" (2005), in direct form: every worker
deals with every other, and there are two hops where a ring of n has 2(n-1).

    worker 0 <---> worker 1 <---> worker 2        each bucket is cut into one chunk
       ^                             ^            a worker; chunk c belongs to
       +-----------------------------+            worker c

Sum   each worker offers its gradient of chunk c to worker c, who adds them in the order
      c, c+1, ..., c-1: that in which the chunk would travel round the ring.
Apply the owner of a chunk updates its parameters: no work is done twice.
Copy  each owner hands its finished chunk to all others; on one host it writes it into
      their memory itself, as long as it has it in its cache.

Cost a worker and step: 2(n-1) messages a bucket sent and as many received; 2(n-1)/n of
the parameters' bytes sent and as many received. The ring moves the same, but each of
its messages has to wait for the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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
    chain,
)
from kit.exchange.topologies.topology import Traffic
from kit.trace.traffic import TransferKind


class Mesh:
    """The all-reduce of two hops, in which everybody talks to everybody."""

    name = "mesh"
    needs_ps = False

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        """Return a worker's plan; parameter servers have none in a mesh."""
        if member not in group.workers:
            return None
        seat = _Seat(group.workers, group.workers.index(member))
        return Plan(
            tuple(tuple(seat.sum_up(bucket)) for bucket in layout.buckets),
            tuple(seat.hand_out(layout)),
            placed=True,
            overwrites=True,
        )

    def owners(self, layout: Layout, group: Group) -> tuple[Owned, ...]:
        """Worker c updates chunk c of each bucket."""
        return tuple(
            Owned(chunk, (worker,))
            for bucket in layout.buckets
            for worker, chunk in zip(group.workers, bucket.chunks, strict=True)
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


class _Seat(NamedTuple):
    """A worker's place in the mesh."""

    workers: tuple[int, ...]
    rank: int

    @property
    def others(self) -> tuple[int, ...]:
        """The ranks of all others in the order in which their gradients are added.

        Everybody begins with another one, so nobody is asked by all at once.
        """
        return chain(self.rank, len(self.workers))[1:]

    def sum_up(self, bucket: Bucket) -> Iterator[Op]:
        mine = bucket.chunks[self.rank]
        for rank in self.others:
            yield Send(
                self.workers[rank], GRAD, bucket.chunks[rank], TransferKind.REDUCE
            )
        for rank in self.others:
            yield Receive(self.workers[rank], GRAD, mine, TransferKind.REDUCE)
        terms = tuple(Term(self.workers[rank], GRAD) for rank in self.others)
        if terms:
            yield Add(mine, (Term(SELF, GRAD), *terms))

    def hand_out(self, layout: Layout) -> Iterator[Op]:
        for bucket in layout.buckets:
            mine = bucket.chunks[self.rank]
            yield Apply(mine)
            for rank in self.others:
                yield Send(self.workers[rank], NEXT, mine, TransferKind.GATHER)
        for rank in self.others:
            worker = self.workers[rank]
            for bucket in layout.buckets:
                yield Receive(worker, NEXT, bucket.chunks[rank], TransferKind.GATHER)
                yield Copy(Term(worker, NEXT), NEXT, bucket.chunks[rank])
