r"""The binary tree: sums rise to the root, and what the root makes of them comes down.

Pure. The reduce and broadcast of small messages in MPI (Thakur, Rabenseifner and
Gropp, "Optimization of collective communication operations in MPICH", 2005), and, as
two trees, in NCCL. Workers stand as in a heap: below worker r are 2r+1 and 2r+2.

             worker 0
            /        \
       worker 1    worker 2        0 + (1 + 3 + 4) + 2
       /      \
   worker 3  worker 4

Sum   each worker adds to its gradient the sums of the two below it, and offers the sum
      to the one above.
Apply the root updates all parameters.
Copy  each worker hands the parameters to the two below it.

The brackets are an order of addition of its own, the same for all chunks: its sums
differ from those of a ring in the last bits. Buckets follow each other up the tree.

Cost of a step: 2(n-1) messages a bucket, about 2 log2(n) of them in a row; 2(n-1) times
the parameters' bytes. A worker with two below it sends and receives them three times,
the root twice.
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
from kit.exchange.topologies.topology import Order, Topology, register
from kit.trace.traffic import TransferKind


class Tree(Topology):
    """The all-reduce of a binary tree, with an order of addition of its own.

    >>> Tree().order(5, chunk=0)
    (0, (1, 3, 4), 2)
    """

    name = "tree"
    title = "Binary tree"

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        """Return a worker's plan; parameter servers have none in a tree."""
        if member not in group.workers:
            return None
        above, below = _neighbours(group.workers, member)
        reduce = tuple(
            tuple(_sum_up(bucket, above, below)) for bucket in layout.buckets
        )
        finish = tuple(
            op for bucket in layout.buckets for op in _hand_down(bucket, above, below)
        )
        return Plan(reduce, finish, overwrites=True)

    def order(self, n: int, chunk: int) -> Order:
        """Return a worker's share, then the sums of the two below it; all the way."""

        def sum_at(rank: int) -> Order | int:
            below = _below(rank, n)
            return (rank, *map(sum_at, below)) if below else rank

        total = sum_at(0)
        return total if isinstance(total, tuple) else (total,)

    def owners(self, layout: Layout, group: Group) -> tuple[Owned, ...]:
        """Return that the root updates everything."""
        root = group.workers[:1]
        return tuple(Owned(bucket.range, root) for bucket in layout.buckets)

    def traffic(self, layout: Layout, group: Group) -> Traffic:
        """Each worker but the root sends a gradient up, and gets parameters."""
        traffic: Traffic = {}
        for rank, worker in enumerate(group.workers[1:], 1):
            above = group.workers[_above(rank)]
            traffic[worker, above, TransferKind.REDUCE] = layout.payload_bytes
            traffic[above, worker, TransferKind.GATHER] = layout.payload_bytes
        return traffic

    def cost_in_words(self, n: int) -> str:
        """Return the formulas of messages and bytes as sentences."""
        depth = n.bit_length() - 1
        return (
            f"Sums rise through {depth} levels and the result comes down again, where "
            f"a ring passes through 2(n\u22121) messages in a row. But a worker with "
            f"two below it sends three whole gradients, and receives three."
        )

    def rows(self, group: Group) -> tuple[tuple[int, ...], ...]:
        """Return the levels, the root's on top."""
        depth = len(group.workers).bit_length()
        return tuple(group.workers[2**k - 1 : 2 ** (k + 1) - 1] for k in range(depth))


def _above(rank: int) -> int:
    return (rank - 1) // 2


def _below(rank: int, n: int) -> tuple[int, ...]:
    return tuple(child for child in (2 * rank + 1, 2 * rank + 2) if child < n)


def _neighbours(
    workers: tuple[int, ...], member: int
) -> tuple[int | None, tuple[int, ...]]:
    """Return the member above, if there is one, and those below."""
    rank = workers.index(member)
    above = workers[_above(rank)] if rank else None
    return above, tuple(workers[child] for child in _below(rank, len(workers)))


def _sum_up(bucket: Bucket, above: int | None, below: tuple[int, ...]) -> Iterator[Op]:
    whole = bucket.range
    for other in below:
        yield Receive(other, GRAD, whole, TransferKind.REDUCE)
    if below:
        yield Add(whole, (Term(SELF, GRAD), *(Term(child, GRAD) for child in below)))
    if above is not None:
        yield Send(above, GRAD, whole, TransferKind.REDUCE)


def _hand_down(
    bucket: Bucket, above: int | None, below: tuple[int, ...]
) -> Iterator[Op]:
    whole = bucket.range
    if above is None:
        yield Apply(whole)
    else:
        yield Receive(above, NEXT, whole, TransferKind.GATHER)
        yield Copy(Term(above, NEXT), NEXT, whole)
    for other in below:
        yield Send(other, NEXT, whole, TransferKind.GATHER)


register(Tree())
