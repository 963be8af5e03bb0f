"""The ring: reduce-scatter, update, all-gather; neighbours only.

Pure. Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", J. Parallel Distrib. Comput. 69 (2009).

    worker 0 --> worker 1 --> worker 2       each bucket is cut into one chunk a worker
       ^                         |
       +-------------------------+

Sum   n-1 rounds: in round s worker r passes chunk r-s on, and adds its own gradient to
      chunk r-s-1, which it receives; afterwards it has the full sum of chunk r+1.
Apply the owner of a chunk updates its parameters: no work is done twice.
Copy  n-1 rounds: the finished chunks go round once.

Cost a worker and step: 2(n-1) messages a bucket; 2(n-1)/n of the parameters' bytes sent
and as many received.
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


class Ring(ReduceGather):
    """The bandwidth-optimal ring all-reduce."""

    name = "ring"
    title = "Ring all-reduce"
    turns = True
    hue = 1

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        """Return a worker's plan; parameter servers have none in a ring."""
        seat = seat_of(group, member)
        if seat is None:
            return None
        return Plan(
            tuple(tuple(_sum_up(seat, bucket)) for bucket in layout.buckets),
            tuple(_hand_out(seat, layout)),
            overwrites=True,
        )

    def owners(self, layout: Layout, group: Group) -> tuple[Owned, ...]:
        """Worker r updates chunk r+1 of each bucket."""
        return tuple(
            Owned(bucket.chunks[seat.chunk(-1)], (seat.member,))
            for bucket in layout.buckets
            for seat in seats(group)
        )

    def traffic(self, layout: Layout, group: Group) -> Traffic:
        """Each worker hands on all chunks but one, twice."""
        whole = layout.payload_bytes
        traffic: Traffic = {}
        for seat in seats(group) if len(group.workers) > 1 else ():
            link = seat.member, seat.after
            complete, missing_part = (
                layout.chunk_bytes(seat.chunk(-ahead)) for ahead in (1, 2)
            )
            traffic[*link, TransferKind.REDUCE] = whole - complete
            traffic[*link, TransferKind.GATHER] = whole - missing_part
        return traffic

    def cost_in_words(self, n: int) -> str:
        """Return the formulas of messages and bytes as sentences."""
        return (
            f"Each of the {n} chunks goes round twice, n\u22121 messages each time: "
            f"2(n\u22121) messages a worker. A worker sends 2(n\u22121)/n of its "
            f"gradient's bytes: less than twice, however many workers there are."
        )


def _sum_up(seat: Seat, bucket: Bucket) -> Iterator[Op]:
    for hop in range(seat.n - 1):
        ours, theirs = (bucket.chunks[seat.chunk(hop + more)] for more in (0, 1))
        # Offered before anything is waited for: else each worker would wait for the one
        # before it, all the way round. The sum may overwrite our own share of a chunk,
        # since we pass that on only as part of this sum, in the next round.
        yield Send(seat.after, GRAD, ours, TransferKind.REDUCE)
        yield Receive(seat.before, GRAD, theirs, TransferKind.REDUCE)
        yield Add(theirs, (Term(seat.before, GRAD), Term(SELF, GRAD)))


def _hand_out(seat: Seat, layout: Layout) -> Iterator[Op]:
    for bucket in layout.buckets:
        mine = bucket.chunks[seat.chunk(-1)]
        yield Apply(mine)
        if seat.n > 1:
            yield Send(seat.after, NEXT, mine, TransferKind.GATHER)
    for hop in range(seat.n - 1):
        for bucket in layout.buckets:
            chunk = bucket.chunks[seat.chunk(hop)]
            yield Receive(seat.before, NEXT, chunk, TransferKind.GATHER)
            yield Copy(Term(seat.before, NEXT), NEXT, chunk)
            # Not after the last round: the next worker is the one that updated this
            # chunk.
            if hop < seat.n - 2:
                yield Send(seat.after, NEXT, chunk, TransferKind.GATHER)
