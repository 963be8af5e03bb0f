"""What moves once: parameters at the start, the optimizer's state at a switch.

Pure. Both are lists of the same operations as a step, so they are carried out, counted
and tested like everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kit.exchange.layout import Layout, Range, intersect
from kit.exchange.plan import (
    NOW,
    SLOT,
    Copy,
    Group,
    Op,
    Owned,
    Receive,
    Send,
    Term,
)
from kit.exchange.topologies.topology import Traffic
from kit.trace.traffic import TransferKind


class Move(NamedTuple):
    """One range of one region that goes from one member to another."""

    source: int
    target: int
    region: int
    range: Range
    kind: TransferKind


def broadcast(layout: Layout, group: Group, root: int) -> tuple[Move, ...]:
    """Return how the initial parameters get from `root` to all members that need them.

    A worker needs all of them, a parameter server those that it holds.
    """
    whole = [bucket.range for bucket in layout.buckets]
    needs = {worker: whole for worker in group.workers if worker != root}
    needs |= {
        server: list(shard)
        for server, shard in zip(group.ps, group.shards, strict=True)
        if server != root
    }
    return tuple(
        Move(root, member, NOW, part, TransferKind.BROADCAST)
        for member, ranges in needs.items()
        for part in ranges
    )


def handover(
    before: Iterable[Owned], after: Iterable[Owned], n_slots: int, group: Group
) -> tuple[Move, ...]:
    """Return what moves when parameters get other owners.

    The new owner of a range gets its slots from an old one and, if it is a parameter
    server, the parameters too; workers have all of these already.
    """
    moves: list[Move] = []
    old = tuple(before)
    for new in after:
        for owned in old:
            shared = intersect(new.range, owned.range)
            for member in new.members if shared else ():
                if shared and member not in owned.members:
                    regions = [SLOT + slot for slot in range(n_slots)]
                    regions += [NOW] if member in group.ps else []
                    moves += [
                        Move(
                            owned.members[0], member, region, shared, TransferKind.MOVE
                        )
                        for region in regions
                    ]
    return tuple(moves)


def refresh(owners: Iterable[Owned], workers: Iterable[int]) -> tuple[Move, ...]:
    """Return how workers get the newest parameters from those that update them.

    After asynchronous steps a worker has only what it pulled last, and one that joins
    has nothing.
    """
    targets = tuple(workers)
    return tuple(
        Move(owned.members[0], worker, NOW, owned.range, TransferKind.MOVE)
        for owned in owners
        for worker in targets
        if worker not in owned.members
    )


def restored(
    layout: Layout, group: Group, root: int, after: Iterable[Owned], n_slots: int
) -> tuple[Move, ...]:
    """Return what moves when `root` has read a whole state: parameters and all slots.

    It is the broadcast of the start, and then a handover from a member that owned all.
    """
    whole = [Owned(bucket.range, (root,)) for bucket in layout.buckets]
    slots = (
        move
        for move in handover(whole, after, n_slots, group)
        if move.region != NOW  # the broadcast brings the parameters to all
    )
    return (*broadcast(layout, group, root), *slots)


def resumed(after: Iterable[Owned], group: Group, n_slots: int) -> tuple[Move, ...]:
    """Return what moves when the first owner of each range has read its state.

    Workers need all parameters, and the other owners of a range its slots. A server
    tells each worker; workers pass on parameters as on a ring, so that each needs a
    link to two others alone.

    >>> thirds = [Owned(Range(8 * n, 8 * n + 8), (n,)) for n in range(3)]
    >>> moves = resumed(thirds, Group((), (0, 1, 2), ()), 0)
    >>> [(move.source, move.target, move.range.lo // 8) for move in moves]
    [(0, 1, 0), (1, 2, 1), (2, 0, 2), (1, 2, 0), (2, 0, 1), (0, 1, 2)]
    """
    owned = [owned_part for owned_part in after if owned_part.range.size]
    shared = [part for part in owned if len(part.members) > 1]
    slots = handover(map(_of_first, shared), shared, n_slots, group)
    return (*_passed_on(map(_of_first, owned), group.workers), *slots)


def _of_first(owned: Owned) -> Owned:
    return Owned(owned.range, owned.members[:1])


def _passed_on(owned: Iterable[Owned], ring: tuple[int, ...]) -> Iterator[Move]:
    """Yield how parameters come from one member each to all on a ring, hop by hop."""
    # By hops, not by parts: what a worker passes on must have come in the hop before.
    # Part by part, each worker would wait for the whole way of a part before the next
    # one.
    sources = [(item.members[0], item.range) for item in owned]
    position = {worker: number for number, worker in enumerate(ring)}
    for hop in range(len(ring)):
        for source, part in sources:
            if source not in position:
                yield Move(source, ring[hop], NOW, part, TransferKind.BROADCAST)
            elif hop:
                at = position[source] + hop
                ends = ring[(at - 1) % len(ring)], ring[at % len(ring)]
                yield Move(*ends, NOW, part, TransferKind.BROADCAST)


def ops(moves: Iterable[Move], member: int) -> Iterator[Op]:
    """Yield one member's operations for a list of moves that all members share."""
    for move in moves:
        if move.source == member:
            yield Send(move.target, move.region, move.range, move.kind)
        if move.target == member:
            yield Receive(move.source, move.region, move.range, move.kind)
            yield Copy(Term(move.source, move.region), move.region, move.range)


def traffic(moves: Iterable[Move]) -> Traffic:
    """Return the bytes of a list of moves."""
    total: Traffic = {}
    for move in moves:
        key = move.source, move.target, move.kind
        total[key] = total.get(key, 0) + move.range.size
    return total
