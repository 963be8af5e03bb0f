"""A ring of hosts: the tasks of a host add in its memory, and one talks to other hosts.

Pure. The first worker of a host is its leader. It adds for all of them, and it alone
has links to other hosts: to the leaders of the previous and the next one.

        host A                     host B
    worker 1 ---.              .--- worker 3      each bucket is cut into one chunk
                v              v                  a worker
    worker 0, leads <====> worker 2, leads

Chunk c is added in the order of the workers c, c+1, ..., c-1, as everywhere. Workers
are ordered by host, so a sum goes round the hosts: each leader adds its tasks'
gradients, one by one, to what comes from the host before. But if chunk c belongs to
worker j of its host (counted from 0), the first j workers of that host come last, after
all others. There are two ways for these *rests*:

short  They travel with the sum, to the last host of the round, which adds them: j
       chunks more than the sum, and no more messages in a row.
long   The sum travels on to them: one chunk more, and one more message in a row.

For j = 1 the short way costs no more. For the others it is taken if what it moves in
addition is less than `hop_bytes`, which takes less time than a message. The leader that
completes a sum updates the parameters of that chunk. These go round the hosts, and to
their tasks.

Cost a step, with n workers on H hosts, k on each, and S bytes: 2(H-1) messages between
hosts in a row, 2H-1 on the long way. A leader sends 2(H-1)/H of S to other hosts, and
for the rests (k-1)/2H of S more, on the long way (k-1)/n. A ring of the same workers
sends 2(n-1)/n of S from each host. Within a host, S goes to the leader from each other
task, and back; the leader adds all.

A host that comes again in the order of the workers (A, B, A) counts as several: the
bits are the same, but there are more messages. So a training orders its workers by
host.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from kit.exchange.layout import Bucket, Layout, Range
from kit.exchange.plan import (
    GRAD,
    NEXT,
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
from kit.exchange.topologies.counting import (
    ExchangeCost,
    Loads,
    Traffic,
    add_costs,
)
from kit.exchange.topologies.topology import Topology
from kit.trace.traffic import TransferKind

_NEAR = 2  # chunks of a host whose rests always travel with the sum


class Hierarchical(Topology):
    """A ring of hosts, each of which adds the gradients of its tasks in memory."""

    name = "hierarchical"
    title = "Ring of hosts"
    hue = 4
    hop_bytes = 64 * 1024  # half a millisecond at 1 Gbit/s

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        """Return the plan of a leader or of another worker; servers have none."""
        if member not in group.workers:
            return None
        hosts = self._hosts(layout, group)
        block, position = hosts.find(member)
        if position:
            leader = hosts.blocks[block][0]
            offers = [
                (Send(leader, GRAD, bucket.range, TransferKind.REDUCE),)
                for bucket in layout.buckets
            ]
            takes = tuple(
                op for bucket in layout.buckets for op in _take(leader, bucket)
            )
            return Plan(tuple(offers), takes, overwrites=True)
        seat = _Leader(hosts, block)
        return Plan(
            tuple(tuple(seat.sum_up(bucket)) for bucket in layout.buckets),
            tuple(seat.hand_out(layout)),
            overwrites=True,
        )

    def owners(self, layout: Layout, group: Group) -> tuple[Owned, ...]:
        """Return the member that completes the sum of a chunk."""
        hosts = self._hosts(layout, group)
        return tuple(
            Owned(part, (block[0],))
            for bucket in layout.buckets
            for number, block in enumerate(hosts.blocks)
            for part in hosts.completes(number, bucket)
        )

    def traffic(self, layout: Layout, group: Group) -> Traffic:
        """Tasks meet at their leader; sums, rests and parameters go round the hosts."""
        hosts, whole = self._hosts(layout, group), layout.payload_bytes
        result: Traffic = {}
        for leader, *others in hosts.blocks:
            for other in others:
                result[other, leader, TransferKind.REDUCE] = whole
                result[leader, other, TransferKind.GATHER] = whole
        for number, (leader, *_) in enumerate(hosts.blocks) if hosts.n > 1 else ():
            after, before = hosts.step(number, 1), hosts.step(number, -1)
            sums = rests = done = 0
            for bucket in layout.buckets:
                sums += bucket.range.size - hosts.whole(after, bucket).size
                sums += hosts.late(after, bucket).size
                rests += sum(rest.size for rest in hosts.rests(number, bucket))
                done += bucket.range.size
                done -= sum(
                    complete.size for complete in hosts.completes(after, bucket)
                )
            for to, kind, size in (
                (after, TransferKind.REDUCE, sums),
                (before, TransferKind.REDUCE, rests),
                (after, TransferKind.GATHER, done),
            ):
                link = leader, hosts.blocks[to][0], kind
                result[link] = result.get(link, 0) + size
        return result

    def loads(self, n: int, n_ps: int, n_bytes: int, n_buckets: int) -> Loads:
        """Return what is done on one host: all of it by the leader."""
        others = n - 1
        leader = ExchangeCost(others * n_buckets, others * n_bytes, n * n_bytes)
        each = ExchangeCost(n_buckets, n_bytes, 0)
        way = add_costs(leader, each) if others else leader
        return way, add_costs(leader, *[each] * others)

    def cost_in_words(self, n: int) -> str:
        """Return the formulas of messages and bytes as sentences."""
        return (
            "The tasks of a host add in its memory: a gradient to the leader, and the "
            "parameters back. Only leaders send to other hosts: 2(H\u22121) messages "
            "in a row for H hosts, and for k tasks on each 2(H\u22121)/H + "
            "(k\u22121)/2H of a gradient's bytes; for large ones one message more and "
            "fewer bytes."
        )

    def rows(self, group: Group) -> tuple[tuple[int, ...], ...]:
        """Leaders stand above the others."""
        leaders = tuple(block[0] for block in group.blocks)
        others = tuple(worker for block in group.blocks for worker in block[1:])
        return (leaders, others) if others else ()

    def _hosts(self, layout: Layout, group: Group) -> _Hosts:
        hosts = _Hosts(group.blocks, group.workers)
        if hosts.n == 1:
            return hosts
        more = [
            sum(
                (chunk - 1) * layout.chunk_bytes(hosts.first(number) + chunk)
                for chunk in range(_NEAR, len(block))
            )
            for number, block in enumerate(hosts.blocks)
        ]
        return _Hosts(hosts.blocks, hosts.workers, max(more) > self.hop_bytes)


@dataclass(frozen=True)
class _Hosts:
    """Which workers are on which host, and which parts of a bucket concern a host."""

    blocks: tuple[tuple[int, ...], ...]
    workers: tuple[int, ...]
    is_long: bool = False

    @property
    def n(self) -> int:
        return len(self.blocks)

    def find(self, member: int) -> tuple[int, int]:
        """Return the number of a member's host and its place there."""
        number = next(n for n, block in enumerate(self.blocks) if member in block)
        return number, self.blocks[number].index(member)

    def step(self, number: int, hops: int) -> int:
        """Return the number of the host so many hops further on."""
        return (number + hops) % self.n

    def first(self, number: int) -> int:
        """Return the first chunk of a host."""
        return self._firsts[number]

    @cached_property
    def _firsts(self) -> list[int]:
        places = {worker: position for position, worker in enumerate(self.workers)}
        return [places[block[0]] for block in self.blocks]

    def whole(self, number: int, bucket: Bucket) -> Range:
        """Return the chunks that belong to the workers of a host."""
        return self._part(number, bucket, 0, len(self.blocks[number]))

    def late(self, number: int, bucket: Bucket) -> Range:
        """Return those of them whose sums come back to this host to be completed."""
        n = len(self.blocks[number])
        return self._part(number, bucket, self._n_sent(number), n)

    def rests(self, number: int, bucket: Bucket) -> tuple[Range, ...]:
        """Return the range in which each of a host's workers is a rest that travels."""
        n = self._n_sent(number)
        return tuple(self._part(number, bucket, rank, n) for rank in range(1, n))

    def completes(self, number: int, bucket: Bucket) -> tuple[Range, ...]:
        """Return the ranges whose sum is complete at a host."""
        after = self.step(number, 1)
        near = self._part(after, bucket, 0, self._n_sent(after))
        return (near, self.late(number, bucket)) if self.is_long else (near,)

    def _n_sent(self, number: int) -> int:
        n = len(self.blocks[number])
        return min(n, _NEAR) if self.is_long else n

    def _part(self, number: int, bucket: Bucket, begin: int, end: int) -> Range:
        chunks, first = bucket.chunks, self.first(number)
        lo, hi = (
            chunks[first + at].lo if first + at < len(chunks) else bucket.range.hi
            for at in (begin, end)
        )
        return Range(lo, hi)


class _Leader:
    """What the leader of a host does."""

    def __init__(self, hosts: _Hosts, number: int) -> None:
        self._hosts, self._number = hosts, number
        self._others = hosts.blocks[number][1:]
        self._own = (Term(SELF, GRAD), *(Term(other, GRAD) for other in self._others))
        self._after, self._before = (
            hosts.blocks[hosts.step(number, hops)][0] for hops in (1, -1)
        )

    def sum_up(self, bucket: Bucket) -> Iterator[Op]:
        for other in self._others:
            yield Receive(other, GRAD, bucket.range, TransferKind.REDUCE)
        if self._hosts.n == 1:
            if self._others:
                for number, chunk in enumerate(bucket.chunks):
                    yield Add(chunk, turned(self._own, number))
            return
        yield from self._begin(bucket)
        # Sums that neither begin nor end here: our tasks are added on their way.
        for hop in range(1, self._hosts.n - 1):
            part = self._hosts.whole(self._hosts.step(self._number, -hop), bucket)
            yield Receive(self._before, GRAD, part, TransferKind.REDUCE)
            yield Add(part, (Term(self._before, GRAD), *self._own))
            yield Send(self._after, GRAD, part, TransferKind.REDUCE)
        yield from self._end(bucket)
        if self._hosts.is_long:
            yield from self._complete(bucket)

    def _begin(self, bucket: Bucket) -> Iterator[Op]:
        """Begin the sums of our own chunks; keep what is to be added last."""
        hosts, number = self._hosts, self._number
        rests = hosts.rests(number, bucket)
        # A chunk is summed from its own worker on, as on a ring, so the terms of the
        # workers before that one come last. They are copied first, since the sum
        # overwrites our gradient.
        for index, rest in enumerate(rests):
            yield Copy(self._own[index], SPARE + index, rest)
        if hosts.is_long:
            yield Copy(self._own[0], SPARE, hosts.late(number, bucket))
        for index in range(len(self._own) if self._others else 0):
            chunk = bucket.chunks[hosts.first(number) + index]
            yield Add(chunk, self._own[index:])
        whole = hosts.whole(number, bucket)
        yield Send(self._after, GRAD, whole, TransferKind.REDUCE)
        for index, rest in enumerate(rests):
            if rest.size:
                yield Send(self._before, SPARE + index, rest, TransferKind.REDUCE)

    def _end(self, bucket: Bucket) -> Iterator[Op]:
        """Add as the last host of a round, with the rests of the first one."""
        hosts, after = self._hosts, self._hosts.step(self._number, 1)
        part = hosts.whole(after, bucket)
        yield Receive(self._before, GRAD, part, TransferKind.REDUCE)
        rests = hosts.rests(after, bucket)
        for index, rest in enumerate(rests):
            if rest.size:
                yield Receive(self._after, SPARE + index, rest, TransferKind.REDUCE)
        for index in range(len(rests) + 1):
            last = [Term(self._after, SPARE + rest) for rest in range(index)]
            chunk = bucket.chunks[hosts.first(after) + index]
            yield Add(chunk, (Term(self._before, GRAD), *self._own, *last))
        if hosts.is_long:
            late = hosts.late(after, bucket)
            yield Add(late, (Term(self._before, GRAD), *self._own))
            # Even if it is empty: the pipeline cuts a plan into stages at its messages,
            # and all hosts must have the same number of stages.
            yield Send(self._after, GRAD, late, TransferKind.REDUCE)

    def _complete(self, bucket: Bucket) -> Iterator[Op]:
        """Add our own rests to the sums that have come back."""
        late = self._hosts.late(self._number, bucket)
        yield Receive(self._before, GRAD, late, TransferKind.REDUCE)
        kept = (Term(SELF, SPARE), *self._own[1:])
        for index in range(_NEAR, len(self._own)):
            chunk = bucket.chunks[self._hosts.first(self._number) + index]
            yield Add(chunk, (Term(self._before, GRAD), *kept[:index]))

    def hand_out(self, layout: Layout) -> Iterator[Op]:
        hosts = self._hosts
        # All that is ours leaves before the first wait, so all hosts send at the same
        # time.
        for bucket in layout.buckets:
            for part in hosts.completes(self._number, bucket):
                yield Apply(part)
                if hosts.n > 1:
                    yield Send(self._after, NEXT, part, TransferKind.GATHER)
        for hop in range(1, hosts.n):
            for bucket in layout.buckets:
                parts = hosts.completes(hosts.step(self._number, -hop), bucket)
                for part in parts:
                    yield Receive(self._before, NEXT, part, TransferKind.GATHER)
                    yield Copy(Term(self._before, NEXT), NEXT, part)
                # Not after the last hop: the next host is the one that completed that
                # sum.
                for part in parts if hop < hosts.n - 1 else ():
                    yield Send(self._after, NEXT, part, TransferKind.GATHER)
        for bucket in layout.buckets:
            for other in self._others:
                yield Send(other, NEXT, bucket.range, TransferKind.GATHER)


def _take(leader: int, bucket: Bucket) -> Iterator[Op]:
    yield Receive(leader, NEXT, bucket.range, TransferKind.GATHER)
    yield Copy(Term(leader, NEXT), NEXT, bucket.range)
