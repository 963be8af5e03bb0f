"""The parameter server: gradients go in, parameters come out.

Pure. Li et al., "Scaling distributed machine learning with the parameter server", OSDI
2014; the synchronous form of Dean et al., "Large scale distributed deep networks",
2012.

    worker 0 --+             each worker pushes its gradient of a range to the server
    worker 1 --+-- ps 0      that holds the range; the server adds, updates once, and
    worker 2 --+-- ps 1      each worker pulls the result

The server adds a chunk in the order in which it would travel round the ring, and not in
the order in which gradients arrive, so both topologies give the same bits.

Cost a step, with n workers and S bytes of parameters: each worker sends S and receives
S; the servers together receive n*S and send n*S.
"""

from __future__ import annotations

from collections.abc import Iterator

from kit.exchange.layout import Bucket, Layout, Range, intersect
from kit.exchange.plan import (
    GRAD,
    NEXT,
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

_NOTHING = Range(0, 0)


class ParameterServer(Topology):
    """Parameter servers; what is planned here is a synchronous step."""

    name = "ps"
    title = "Parameter server"
    needs_ps = True
    may_be_asynchronous = True
    may_have_backups = True
    hue = 0

    def plan(self, layout: Layout, group: Group, member: int) -> Plan | None:
        """Return the plan of a worker or of a server."""
        if member not in group.members:
            return None
        planned = _serve if member in group.ps else _work
        reduce, finish = planned(layout, group, member)
        return Plan(tuple(map(tuple, reduce)), tuple(finish), overwrites=True)

    def owners(self, layout: Layout, group: Group) -> tuple[Owned, ...]:
        """Each server updates what it holds."""
        return tuple(
            Owned(part, (server,))
            for bucket in layout.buckets
            for server in group.ps
            for part in parts(layout, group, server, bucket)
        )

    def traffic(self, layout: Layout, group: Group) -> Traffic:
        """Each worker pushes and pulls every byte once."""
        return {
            key: sum(part.size for part in shard)
            for server, shard in zip(group.ps, group.shards, strict=True)
            for worker in group.workers
            for key in (
                (worker, server, TransferKind.PUSH),
                (server, worker, TransferKind.PULL),
            )
        }

    def loads(self, n: int, n_ps: int, n_bytes: int, n_buckets: int) -> Loads:
        """Return what a server does for all workers, and what then each of these."""
        n_parts = max(n_buckets, n_ps)
        share = n * n_bytes / n_ps
        server = ExchangeCost(n * n_parts / n_ps, share, share)
        worker = ExchangeCost(n_parts, n_bytes, 0)
        whole = ExchangeCost(2 * n * n_parts, 2 * n * n_bytes, n * n_bytes)
        return add_costs(server, worker), whole

    def cost_in_words(self, n: int) -> str:
        """Return the formulas of messages and bytes as sentences."""
        return (
            "Every worker sends its gradient once and gets the sum once, whatever the "
            "number of workers. The servers send and receive that of all workers: they "
            "have n times as much to do."
        )


def parts(
    layout: Layout, group: Group, server: int, bucket: Bucket
) -> tuple[Range, ...]:
    """Return what a server holds of a bucket.

    A server that holds nothing at all still gets an empty message from each worker and
    sends one back in the first bucket: that keeps it in step with the others.
    """
    shard = group.shards[group.ps.index(server)]
    shared = [intersect(held, bucket.range) for held in shard]
    result = tuple(part for part in shared if part)
    if not any(held.size for held in shard) and bucket is layout.buckets[0]:
        return (_NOTHING,)
    return result


def _work(layout: Layout, group: Group, worker: int) -> tuple[list[list[Op]], list[Op]]:
    # All pushes leave before the first pull is waited for: servers work side by side.
    reduce: list[list[Op]] = [
        [
            Send(server, GRAD, part, TransferKind.PUSH)
            for server in group.ps
            for part in parts(layout, group, server, bucket)
        ]
        for bucket in layout.buckets
    ]
    finish: list[Op] = []
    for bucket in layout.buckets:
        for server in group.ps:
            for part in parts(layout, group, server, bucket):
                finish.append(Receive(server, NEXT, part, TransferKind.PULL))
                finish.append(Copy(Term(server, NEXT), NEXT, part))
    return reduce, finish


def _serve(
    layout: Layout, group: Group, server: int
) -> tuple[list[list[Op]], list[Op]]:
    held = [parts(layout, group, server, bucket) for bucket in layout.buckets]
    reduce: list[list[Op]] = []
    for bucket, shared in zip(layout.buckets, held, strict=True):
        # Worker by worker, as they send: what the last one sends is added as it comes.
        *others, last = group.workers
        ops: list[Op] = [
            Receive(worker, GRAD, part, TransferKind.PUSH)
            for worker in others
            for part in shared
        ]
        for part in shared:
            ops.append(Receive(last, GRAD, part, TransferKind.PUSH))
            ops += _sums(group, part, bucket)
        reduce.append(ops)
    whole = [part for shared in held for part in shared]
    finish: list[Op] = [Apply(part) for part in whole]
    # Worker by worker: the first computes and pushes again while others get theirs.
    finish += [
        Send(worker, NEXT, part, TransferKind.PULL)
        for worker in group.workers
        for part in whole
    ]
    return reduce, finish


def _sums(group: Group, part: Range, bucket: Bucket) -> Iterator[Op]:
    # By chunk, although a server holds whole parameters: each chunk is added from
    # another worker on, as on a ring, and only so are the bits the same.
    terms = tuple(Term(worker, GRAD) for worker in group.workers)
    for number, chunk in enumerate(bucket.chunks):
        shared = intersect(part, chunk)
        if shared:
            yield Add(shared, turned(terms, number))
