"""What each member does in a step and what it holds: rows of a schedule, and bytes.

Pure. Of most topologies each member's plan is made and read. Where workers differ by
their seat alone, as on a ring (`Topology.turns`), one plan is enough, made over a
layout in which each chunk is one byte long: a range there is the numbers of its chunks,
and what the other workers do is arithmetic with their seats. To make all plans would
take most of the time of a rehearsal with a thousand workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kit.exchange.layout import Bucket, Layout, Range, merge
from kit.exchange.plan import (
    GRAD,
    NEXT,
    NOW,
    SELF,
    SLOT,
    Add,
    Apply,
    Copy,
    Group,
    Plan,
    Receive,
    Send,
)
from kit.exchange.ports.memory import is_apart, physical
from kit.exchange.topologies.topology import Topology, by_name
from kit.rehearsal.schedule import (
    ADD,
    READY,
    RECEIVE,
    SEND,
    Array,
    Columns,
    columns_of,
    rows_of,
)
from kit.trace.traffic import TransferKind
from kit.training.core.job import Job
from kit.training.optimizers.rule import MeanUpdate

Buffers = Mapping[tuple[int, int], set[Range]]  # by whose memory it is (SELF, or a far
# peer's copy), and by the physical region


class MemberRows(NamedTuple):
    """A member that takes part, the rows of its step, and the bytes of its buffers."""

    member: int
    rows: Columns
    n_bytes: int


def turns(topology: Topology) -> bool:
    """Whether the plan of one worker tells those of all."""
    # A class that is derived from one that turns may do otherwise: it says so itself.
    return bool(vars(type(topology)).get("turns", False))


def members_of(job: Job, topology: Topology) -> Iterator[MemberRows]:
    """Yield the members that do something in a step, in their order."""
    if turns(topology):
        yield from _turned(job, topology)
        return
    for member in job.group.members:
        plan = job.plan(topology, member)
        if plan is not None:
            rows = columns_of(job.payload.woven(plan))
            yield MemberRows(member, rows, memory_of(job, plan, member))


def memory_of(job: Job, plan: Plan, member: int) -> int:
    """Return the bytes of a member's buffers in synchronous steps.

    Of the regions of `kit.exchange.ports.memory`, only pages that are touched cost
    anything. So what counts is the ranges that a plan writes: all gradients and
    parameters of a worker, those that others hold, slots where parameters are updated,
    gradients that are kept, and what comes from other hosts and is kept apart. With
    compressed gradients each worker updates all parameters, and has all slots.
    """
    buffers = _buffers(job, job.layout, job.group, plan, member)
    size = sum(part.size for parts in buffers.values() for part in merge(parts))
    return size + _slots_of_all(job) * (member in job.workers)


def _slots_of_all(job: Job) -> int:
    return len(job.slots) * job.layout.payload_bytes * job.payload.encodes


def _buffers(
    job: Job, layout: Layout, group: Group, plan: Plan, member: int
) -> Buffers:
    """Return the ranges of each buffer that a member uses."""
    overwrites = plan.overwrites and MeanUpdate(job.optimizer, len(job.workers)).spends
    stays = not by_name(job.topology).agrees  # there are no next parameters
    ranges: dict[tuple[int, int], set[Range]] = {}
    n_slots = 0 if job.payload.encodes else len(job.slots)
    for whose, region, part in set(_touched(plan, layout, group, member, n_slots)):
        for parity in (0, 1):
            buffer = physical(region, parity, overwrites, stays)
            ranges.setdefault((whose, buffer), set()).add(part)
    return ranges


def _touched(
    plan: Plan, layout: Layout, group: Group, member: int, n_slots: int
) -> Iterator[tuple[int, int, Range]]:
    """Yield whose memory (`SELF`, or a far peer's copy), the region and the range."""
    if member in group.workers:
        whole = Range(0, layout.n_bytes)
        yield from ((SELF, region, whole) for region in (GRAD, NOW))
    here = group.host(member)
    for op in plan.ops:
        match op:
            case Send():
                yield SELF, op.region, op.range
            case Receive():
                far = group.host(op.source) != here
                if far and is_apart(op.region) and op.kind != TransferKind.GATHER:
                    yield op.source, op.region, op.range
            case Add():
                yield SELF, op.into, op.range
            case Copy():
                yield SELF, op.into, op.range
            case Apply():
                slots = (SLOT + slot for slot in range(n_slots))
                for region in (NOW, NEXT, *slots):
                    yield SELF, region, op.range


# --------------------------------------------------------------------------------------
# All workers from the plan of the first one.


def _unit(layout: Layout) -> Layout:
    """Return a layout with as many buckets and chunks, of one byte each."""
    n = layout.n_chunks
    chunks = [Range(at, at + 1) for at in range(len(layout.buckets) * n)]
    buckets = tuple(
        Bucket(bucket.dtype, Range(lo, lo + n), tuple(chunks[lo : lo + n]))
        for lo, bucket in zip(range(0, len(chunks), n), layout.buckets, strict=True)
    )
    stages = tuple(map(_unit, layout.stages))
    # One byte more, for the gaps between dtypes: all of it is no bucket then.
    return replace(layout, buckets=buckets, n_bytes=len(chunks) + 1, stages=stages)


class _Sizes:
    """How large ranges of a unit layout are, for each seat to which they are turned."""

    def __init__(self, layout: Layout, unit: Layout) -> None:
        n = self.n = layout.n_chunks
        buckets = [b for part in (layout, *layout.stages) for b in part.buckets]
        sizes = np.array([[chunk.size for chunk in b.chunks] for b in buckets])
        # Round the circle three times, so that no sum goes over its end.
        self._before = np.zeros((len(buckets), 3 * n + 1), np.int64)
        np.cumsum(np.tile(sizes, 3), axis=1, out=self._before[:, 1:])
        starts = (0, *unit.edges[:-1]) if unit.stages else (0,)
        self._bucket = np.zeros(unit.total_bytes + 1, np.int64)
        self._chunk = np.zeros_like(self._bucket)
        lows = [
            start + bucket.range.lo
            for start, part in zip(starts, (unit, *unit.stages), strict=True)
            for bucket in part.buckets
        ]
        for number, lo in enumerate(lows):
            self._bucket[lo : lo + n], self._chunk[lo : lo + n] = number, range(n)

    def at(self, seat: Array | int, lo: Array, n: Array) -> Array:
        """Return the bytes of the `n` chunks from `lo` on, each `seat` places on."""
        bucket, first = self._bucket[lo], self._chunk[lo] + seat
        size: Array = self._before[bucket, first + n] - self._before[bucket, first]
        return size


def _turned(job: Job, topology: Topology) -> Iterator[MemberRows]:
    unit, workers = _unit(job.layout), np.array(job.workers)
    payload = replace(job.payload, layout=unit)
    plan = payload.plan(topology, int(workers[0]))
    assert plan is not None, "every worker takes part"
    sizes = _Sizes(job.layout, unit)
    held = _turned_bytes(job, unit, plan, sizes)
    all_rows = zip(*rows_of(payload.woven(plan)), strict=True)
    code, peer, kind, times, ranges = all_rows
    codes, kinds = np.array(code, np.uint8), np.array(kind, np.uint8)
    each = np.array(times, np.int64)
    lo, hi = np.array(ranges).T
    seat_of = np.zeros(workers.max() + 1, np.int64)
    seat_of[workers] = range(len(workers))
    has_peer, is_ready = (codes == SEND) | (codes == RECEIVE), codes == READY
    seats = seat_of[np.array(peer)]
    n_chunks = np.where(is_ready, 0, hi - lo)
    # Additions in a row are one.
    goes_on = (codes == ADD) & (np.roll(codes, 1) == ADD)
    goes_on[0] = False
    begins = np.flatnonzero(~goes_on)
    for member in sorted(job.workers):
        seat = int(seat_of[member])
        amount = each * sizes.at(seat, lo, n_chunks)
        amount[is_ready] = hi[is_ready]  # the number of a bucket
        peers = np.where(has_peer, workers[(seats + seat) % len(workers)], 0)
        rows = Columns(
            codes[begins],
            peers[begins].astype(np.uint16),
            kinds[begins],
            np.add.reduceat(amount, begins),
        )
        yield MemberRows(member, rows, int(held[seat]))


def _turned_bytes(job: Job, unit: Layout, plan: Plan, sizes: _Sizes) -> Array:
    """Return the bytes of the buffers of the worker on each seat."""
    n, workers = len(job.workers), job.workers
    seats, hosts = np.arange(n), np.array([job.group.host(w) for w in workers])
    # As if all were far from each other; who is not keeps nothing of the other.
    group = replace(job.group, hosts=tuple(range(len(job.tasks))))
    buffers = _buffers(job, unit, group, plan, workers[0])
    total = np.full(n, _slots_of_all(job))
    all_of_it = Range(0, unit.n_bytes)
    for (whose, _), parts in buffers.items():
        counts, size = np.ones(n, bool), np.zeros(n, np.int64)
        if whose != SELF:
            counts = hosts[(seats + workers.index(whose)) % n] != hosts
        begin = 0
        if all_of_it in parts:
            size += job.layout.n_bytes  # with the gaps between dtypes
            begin = unit.n_bytes
        for part in merge(parts):
            for at in range(max(part.lo, begin), part.hi):
                size += sizes.at(seats, np.array(at), np.array(1))
        total += size * counts
    return total
