"""Recursive doubling: in each round two workers swap sums, of twice as many each time.

Pure. Thakur, Rabenseifner and Gropp, "Optimization of collective communication
operations in MPICH" (2005): the all-reduce of short messages.

    round 0   0 <-> 1   2 <-> 3        worker r swaps with worker r xor 2^k in round k;
    round 1   0 <-> 2   1 <-> 3        each adds the lower one's sum first

If n is no power of two, p is the next lower one, and the first 2(n-p) workers stand in
pairs: the first of a pair gives its gradient to the second, and gets the result.

Sum   log2(p) rounds of whole gradients. What a worker sends is read where it lies, so
      the sum of each round lies in a buffer of its own.
Apply all of the p workers update all parameters.
Done  each tells those with whom it has swapped that it has read theirs: messages
      without contents, which keep a worker from writing to its buffers too early.

Adding the lower one first gives all the same bits; these are of a balanced tree of
brackets, ((0+1)+(2+3)), and differ from those of a ring in the last bits.

Cost of a step: p log2(p) + 2(n-p) messages a bucket, log2(p) + 1 of them in a row, two
more if n is no power of two; log2(p) times the parameters' bytes sent by each worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
)
from kit.exchange.topologies.counting import Traffic
from kit.exchange.topologies.topology import Order, Topology, register
from kit.trace.traffic import TransferKind


class RecursiveDoubling(Topology):
    """The all-reduce of log2(n) rounds, with an order of addition of its own.

    >>> RecursiveDoubling().order(4, chunk=0), RecursiveDoubling().order(5, chunk=0)
    (((0, 1), (2, 3)), (((0, 1), 2), (3, 4)))
    """

    name = "recursive-doubling"
    title = "Recursive doubling"

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        """Return a worker's plan; parameter servers have none."""
        if member not in group.workers:
            return None
        if member in _givers(group):
            taker = group.workers[group.workers.index(member) + 1]
            return _giver(layout, taker)
        swapper = _Swapper.of(group, member)
        return Plan(
            tuple(tuple(swapper.sum_up(bucket)) for bucket in layout.buckets),
            tuple(swapper.finish(layout)),
            overwrites=True,
        )

    def order(self, n: int, chunk: int) -> Order:
        """Return a balanced tree of brackets over those that swap."""
        n_pairs = n - _power(n)
        pairs = [(2 * pair, 2 * pair + 1) for pair in range(n_pairs)]
        sums: list[Order | int] = [*pairs, *range(2 * n_pairs, n)]
        while len(sums) > 1:
            sums = [(sums[at], sums[at + 1]) for at in range(0, len(sums), 2)]
        total = sums[0]
        return total if isinstance(total, tuple) else (total,)

    def owners(self, layout: Layout, group: Group) -> tuple[Owned, ...]:
        """All that swap update everything."""
        return tuple(Owned(bucket.range, _swappers(group)) for bucket in layout.buckets)

    def traffic(self, layout: Layout, group: Group) -> Traffic:
        """Each pair of a round swaps a gradient; a giver gives one and gets one."""
        size, swappers, traffic = layout.payload_bytes, _swappers(group), Traffic()
        for position, worker in enumerate(swappers):
            for hop in range(_rounds(group)):
                traffic[worker, swappers[position ^ 2**hop], TransferKind.REDUCE] = size
        for giver, taker in zip(_givers(group), swappers, strict=False):
            traffic[giver, taker, TransferKind.REDUCE] = size
            traffic[taker, giver, TransferKind.GATHER] = size
        return traffic

    def cost_in_words(self, n: int) -> str:
        """Return the formulas of messages and bytes as sentences."""
        n_rounds = _power(n).bit_length() - 1
        return (
            f"In {n_rounds} hops each worker sends a whole gradient, and knows twice "
            f"as many workers' sum each time: few messages in a row, and many bytes. "
            f"It suits short messages."
        )


def _power(n: int) -> int:
    """Return the largest power of two that is not above n."""
    return 1 << (n.bit_length() - 1)


def _rounds(group: Group) -> int:
    return _power(len(group.workers)).bit_length() - 1


def _givers(group: Group) -> tuple[int, ...]:
    n = len(group.workers)
    return group.workers[: 2 * (n - _power(n)) : 2]


def _swappers(group: Group) -> tuple[int, ...]:
    givers = _givers(group)
    return tuple(worker for worker in group.workers if worker not in givers)


def _giver(layout: Layout, taker: int) -> Plan:
    reduce = tuple(
        (Send(taker, GRAD, bucket.range, TransferKind.REDUCE),)
        for bucket in layout.buckets
    )
    finish: list[Op] = []
    for bucket in layout.buckets:
        finish.append(Receive(taker, NEXT, bucket.range, TransferKind.GATHER))
        finish.append(Copy(Term(taker, NEXT), NEXT, bucket.range))
    return Plan(reduce, tuple(finish), overwrites=True)


@dataclass(frozen=True)
class _Swapper:
    """A worker that swaps: with whom, whether it comes first, and who gives to it."""

    partners: tuple[int, ...]
    is_lower: tuple[bool, ...]
    giver: int | None

    @classmethod
    def of(cls, group: Group, member: int) -> _Swapper:
        swappers, givers = _swappers(group), _givers(group)
        position = swappers.index(member)
        hops = range(_rounds(group))
        return cls(
            tuple(swappers[position ^ 2**hop] for hop in hops),
            tuple(not position & 2**hop for hop in hops),
            givers[position] if position < len(givers) else None,
        )

    def sum_up(self, bucket: Bucket) -> Iterator[Op]:
        """Yield the rounds; SPARE + k is what is swapped in round k."""
        whole = bucket.range
        # The last sum has to lie in GRAD, and nobody else may be reading there.
        regions = [*range(SPARE, SPARE + len(self.partners)), GRAD]
        if self.giver is not None:
            yield Receive(self.giver, GRAD, whole, TransferKind.REDUCE)
            yield Add(whole, (Term(self.giver, GRAD), Term(SELF, GRAD)), regions[0])
        elif self.partners:
            yield Copy(Term(SELF, GRAD), SPARE, whole)
        for hop, other in enumerate(self.partners):
            region = regions[hop]
            yield Send(other, region, whole, TransferKind.REDUCE)
            yield Receive(other, region, whole, TransferKind.REDUCE)
            pair = (Term(SELF, region), Term(other, region))
            terms = pair if self.is_lower[hop] else pair[::-1]
            yield Add(whole, terms, regions[hop + 1])

    def finish(self, layout: Layout) -> Iterator[Op]:
        """Yield the updates, the result for the giver, and who has read what."""
        for bucket in layout.buckets:
            yield Apply(bucket.range)
            if self.giver is not None:
                yield Send(self.giver, NEXT, bucket.range, TransferKind.GATHER)
        # Of the last bucket, so that it is sent after all of them have been read.
        end = layout.buckets[-1].range.hi if layout.buckets else 0
        for other in self.partners:
            yield Send(other, GRAD, Range(end, end), TransferKind.REDUCE)
        for other in self.partners:
            yield Receive(other, GRAD, Range(end, end), TransferKind.REDUCE)


register(RecursiveDoubling())
