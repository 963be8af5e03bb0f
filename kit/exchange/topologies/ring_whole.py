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
    turned,
)
from kit.exchange.topologies.counting import ExchangeCost, Loads, Traffic, of_each
from kit.exchange.topologies.seats import Seat, seat_of, seats
from kit.exchange.topologies.topology import Topology
from kit.trace.traffic import TransferKind


class WholeRing(Topology):
    """The ring of n-1 messages, each a whole gradient."""

    name = "ring-whole"
    title = "Ring of whole gradients"
    turns = True
    hue = 3

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        """Return a worker's plan; parameter servers have none in a ring."""
        seat = seat_of(group, member)
        if seat is None:
            return None
        reduce = tuple(tuple(_pass_on(seat, bucket)) for bucket in layout.buckets)
        updates = tuple(Apply(bucket.range) for bucket in layout.buckets)
        return Plan(reduce, updates, overwrites=True)

    def owners(self, layout: Layout, group: Group) -> tuple[Owned, ...]:
        """Every worker updates everything."""
        return tuple(Owned(bucket.range, group.workers) for bucket in layout.buckets)

    def traffic(self, layout: Layout, group: Group) -> Traffic:
        """Each worker hands on every gradient but its successor's own."""
        size = (len(group.workers) - 1) * layout.payload_bytes
        return {
            (seat.member, seat.after, TransferKind.REDUCE): size
            for seat in (seats(group) if len(group.workers) > 1 else ())
        }

    def loads(self, n: int, n_ps: int, n_bytes: int, n_buckets: int) -> Loads:
        """All workers do the same, and each adds and updates everything."""
        cost = ExchangeCost((n - 1) * n_buckets, (n - 1) * n_bytes, n * n_bytes)
        return of_each(cost, n)

    def cost_in_words(self, n: int) -> str:
        """Return the formulas of messages and bytes as sentences."""
        return (
            "Every worker passes whole gradients on: n\u22121 messages a worker, and "
            "n\u22121 times the bytes of a gradient, more with every worker."
        )


def _pass_on(seat: Seat, bucket: Bucket) -> Iterator[Op]:
    whole, after, before = bucket.range, seat.after, seat.before
    for hop in range(seat.n - 1):  # SPARE + hop keeps the gradient of seat rank-hop-1
        source = GRAD if hop == 0 else SPARE + hop - 1
        yield Send(after, source, whole, TransferKind.REDUCE)
        yield Receive(before, source, whole, TransferKind.REDUCE)
        yield Copy(Term(before, source), SPARE + hop, whole)
    if seat.n > 1:
        # The sum overwrites our gradient, so our successor must have read it first.
        yield Send(before, GRAD, Range(0, 0), TransferKind.REDUCE)
        yield Receive(after, GRAD, Range(0, 0), TransferKind.REDUCE)
    kept = tuple(_kept(seat, rank) for rank in range(seat.n))
    for number, chunk in enumerate(bucket.chunks):
        yield Add(chunk, turned(kept, number))


def _kept(seat: Seat, rank: int) -> Term:
    """Return where the gradient of a seat is kept on this one."""
    if rank == seat.rank:
        return Term(SELF, GRAD)
    return Term(SELF, SPARE + seat.chunk(rank + 1))
