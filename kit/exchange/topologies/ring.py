"""The ring: reduce-scatter, update, all-gather; neighbours only.

Pure. Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", J. Parallel Distrib. Comput. 69 (2009).

    worker 0 --> worker 1 --> worker 2       each bucket is cut into one chunk a worker
       ^                         |
       +-------------------------+

Sum   n-1 rounds: worker r hands chunk r-s on and adds the chunk r-s-1 that it is
handed;
      afterwards it holds the full sum of chunk r+1.
Apply the owner of a chunk updates its parameters: no work is done twice.
Copy  n-1 rounds: the finished chunks go round once.

Cost a worker and step: 2(n-1) messages a bucket; 2(n-1)/n of the parameters' bytes sent
and as many received.
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
)
from kit.exchange.topologies.topology import Traffic
from kit.trace.traffic import TransferKind


class Ring:
    """The bandwidth-optimal ring all-reduce."""

    name = "ring"
    needs_ps = False

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        """Return a worker's plan; parameter servers have none in a ring."""
        if member not in group.workers:
            return None
        seat = _Seat(group.workers, group.workers.index(member))
        return Plan(
            tuple(tuple(seat.sum_up(bucket)) for bucket in layout.buckets),
            tuple(seat.hand_out(layout)),
            overwrites=True,
        )

    def owners(self, layout: Layout, group: Group) -> tuple[Owned, ...]:
        """Worker r updates chunk r+1 of each bucket."""
        n = len(group.workers)
        return tuple(
            Owned(bucket.chunks[(rank + 1) % n], (worker,))
            for bucket in layout.buckets
            for rank, worker in enumerate(group.workers)
        )

    def traffic(self, layout: Layout, group: Group) -> Traffic:
        """Each worker hands on all chunks but one, twice."""
        n = len(group.workers)
        whole = layout.payload_bytes
        traffic: Traffic = {}
        for rank, worker in enumerate(group.workers if n > 1 else ()):
            after = group.workers[(rank + 1) % n]
            complete, known = (rank + 1) % n, (rank + 2) % n
            traffic[worker, after, TransferKind.REDUCE] = whole - layout.chunk_bytes(
                complete
            )
            traffic[worker, after, TransferKind.GATHER] = whole - layout.chunk_bytes(
                known
            )
        return traffic


class _Seat(NamedTuple):
    """A worker's place in the ring."""

    workers: tuple[int, ...]
    rank: int

    @property
    def after(self) -> int:
        return self.workers[(self.rank + 1) % len(self.workers)]

    @property
    def before(self) -> int:
        return self.workers[self.rank - 1]

    def sum_up(self, bucket: Bucket) -> Iterator[Op]:
        n, chunks = len(self.workers), bucket.chunks
        for hop in range(n - 1):
            ours, theirs = chunks[(self.rank - hop) % n], chunks[self.rank - hop - 1]
            yield Send(self.after, GRAD, ours, TransferKind.REDUCE)
            yield Receive(self.before, GRAD, theirs, TransferKind.REDUCE)
            yield Add(theirs, (Term(self.before, GRAD), Term(SELF, GRAD)))

    def hand_out(self, layout: Layout) -> Iterator[Op]:
        n = len(self.workers)
        for bucket in layout.buckets:
            yield Apply(bucket.chunks[(self.rank + 1) % n])
            if n > 1:
                mine = bucket.chunks[(self.rank + 1) % n]
                yield Send(self.after, NEXT, mine, TransferKind.GATHER)
        for hop in range(n - 1):
            for bucket in layout.buckets:
                chunk = bucket.chunks[(self.rank - hop) % n]
                yield Receive(self.before, NEXT, chunk, TransferKind.GATHER)
                yield Copy(Term(self.before, NEXT), NEXT, chunk)
                if hop < n - 2:
                    yield Send(self.after, NEXT, chunk, TransferKind.GATHER)
