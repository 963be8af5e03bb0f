"""How much memory a member's buffers take, by its plan.

Pure. The regions are those of `kit.exchange.ports.memory`, of which only pages that are
touched cost anything. So what counts is which ranges a plan writes: gradients and
parameters of a worker whole, of others what they hold, slots where parameters are
updated, gradients that are kept, and what comes from other hosts and is kept apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from kit.exchange.layout import Layout, Range, merge
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
from kit.trace.traffic import TransferKind

Touched = tuple[int, int, Range]  # whose memory (SELF, or a far peer's copy), region


def buffer_bytes(
    plan: Plan,
    layout: Layout,
    group: Group,
    member: int,
    *,
    n_slots: int,
    overwrites: bool,
    stays: bool = False,
) -> int:
    """Return the bytes that a member's buffers take in synchronous steps.

    `overwrites`: the next parameters lie where the gradients were; `stays`: there are
    none, and the agreed ones stay.
    """
    found: dict[tuple[int, int], set[Range]] = {}
    for whose, region, part in set(_touched(plan, layout, group, member, n_slots)):
        for parity in (0, 1):
            place = physical(region, parity, overwrites, stays)
            found.setdefault((whose, place), set()).add(part)
    return sum(part.size for parts in found.values() for part in merge(parts))


def _touched(
    plan: Plan, layout: Layout, group: Group, member: int, n_slots: int
) -> Iterator[Touched]:
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
