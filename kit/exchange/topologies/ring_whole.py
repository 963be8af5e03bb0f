"""The ring in its plainest form: whole gradients are handed on, n-1 times.

Pure. For teaching and for comparison: it is easier to explain than the ring of chunks,
takes half as many messages, and moves n/2 times as many bytes. Each worker keeps what
it receives and adds in the canonical order of each chunk, so its result has the same
bits as the other forms; that costs a buffer for each other worker, which is the lesson.

Cost a worker and step: n-1 messages a bucket; (n-1) times the parameters' bytes sent
and as many received. Every worker updates all parameters.
"""

from __future__ import annotations

from collections.abc import Iterator

from kit.exchange.layout import Bucket, Layout, Range
from kit.exchange.plan import (
    GRAD,
    SELF,
    SPARE,
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


class WholeRing:
    """The ring of n-1 messages, each a whole gradient."""

    name = "ring-whole"
    needs_ps = False

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        """Return a worker's plan; parameter servers have none in a ring."""
        if member not in group.workers:
            return None
        reduce = tuple(
            tuple(_pass_on(bucket, group.workers, group.workers.index(member)))
            for bucket in layout.buckets
        )
        updates = tuple(Apply(bucket.range) for bucket in layout.buckets)
        return Plan(reduce, updates, overwrites=True)

    def owners(self, layout: Layout, group: Group) -> tuple[Owned, ...]:
        """Every worker updates everything."""
        return tuple(Owned(bucket.range, group.workers) for bucket in layout.buckets)

    def traffic(self, layout: Layout, group: Group) -> Traffic:
        """Each worker hands on every gradient but its successor's own."""
        n = len(group.workers)
        return {
            (worker, group.workers[(rank + 1) % n], TransferKind.REDUCE): (n - 1)
            * layout.payload_bytes
            for rank, worker in enumerate(group.workers if n > 1 else ())
        }


def _pass_on(bucket: Bucket, workers: tuple[int, ...], rank: int) -> Iterator[Op]:
    n, whole = len(workers), bucket.range
    after, before = workers[(rank + 1) % n], workers[rank - 1]
    for hop in range(n - 1):  # SPARE + hop keeps the gradient of worker rank-hop-1
        source = GRAD if hop == 0 else SPARE + hop - 1
        yield Send(after, source, whole, TransferKind.REDUCE)
        yield Receive(before, source, whole, TransferKind.REDUCE)
        yield Copy(Term(before, source), SPARE + hop, whole)
    if n > 1:
        # The sum overwrites our gradient, so our successor must have read it first.
        yield Send(before, GRAD, Range(0, 0), TransferKind.REDUCE)
        yield Receive(after, GRAD, Range(0, 0), TransferKind.REDUCE)
    for number, chunk in enumerate(bucket.chunks):
        yield Add(chunk, tuple(_kept(w, rank, n) for w in chain(number, n)))


def _kept(worker: int, rank: int, n: int) -> Term:
    if worker == rank:
        return Term(SELF, GRAD)
    return Term(SELF, SPARE + (rank - worker - 1) % n)
