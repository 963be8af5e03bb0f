"""Keep every link busy: begin with a bucket before those ahead of it are done.

Pure: it turns a plan into another one with the same operations. What a member does with
a bucket falls into stages, and each stage but the first begins with a wait for another
member. Done bucket by bucket, a link would be idle during each of these waits; so the
stages of neighbouring buckets are interleaved, one slot for each bucket.

    ring of two   stage 0: offer   stage 1: take, sum, update, hand out   stage 2: copy

    slot 0   0: offer
    slot 1   1: offer    0: take ... hand out
    slot 2   2: offer    1: take ... hand out    0: copy
    finish               2: take ... hand out    1: copy    then 2: copy

What is sent in a slot is received in the next one, in the same order, so the messages
between two members still fit together. A sum is still in the cache when the parameters
are made of it, and finished ones travel while the next bucket is summed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from kit.exchange.layout import Layout
from kit.exchange.plan import Apply, Op, Plan, Receive, Send

Stage = list[Op]


def pipelined(plan: Plan, layout: Layout, *, early: bool) -> Plan:
    """Return the plan with its buckets interleaved.

    `early`: each bucket is updated and handed out as soon as it is summed, not after
    all of them. Only for an optimizer without slots: an early update writes to NEXT,
    which nobody reads before the step is complete everywhere, and no member can
    complete it without all shares of all workers, so a refused step leaves the
    parameters as they were. Slots are changed in place, so they have to wait until
    every worker has contributed everything.

    All members of a group must do this, or none: messages come in another order.
    """
    lanes, last = [[*ops] for ops in plan.reduce], plan.finish
    if early:
        updates, handed = _by_bucket(plan.finish, layout)
        lanes = [ops + update for ops, update in zip(lanes, updates, strict=True)]
        last = ()
        if any(isinstance(op, Receive) for ops in plan.reduce for op in ops):
            lanes = [ops + rest for ops, rest in zip(lanes, handed, strict=True)]
        else:
            # A worker of a server only offers in `reduce`. If pulls were interleaved,
            # its later offers would wait for earlier buckets' parameters.
            last = tuple(op for rest in handed for op in rest)
    slots = _woven([_stages(ops) for ops in lanes])
    n_buckets = len(lanes)
    late = (op for slot in slots[n_buckets:] for op in slot)
    reduce = tuple(tuple(slot) for slot in slots[:n_buckets])
    return plan._replace(reduce=reduce, finish=(*late, *last))


def _stages(ops: Sequence[Op]) -> list[Stage]:
    """Cut where a wait follows something that was sent.

    What members send in one stage, others receive in their next. Waits in a row, with
    nothing sent between them, are for one and the same stage of the others.
    """
    stages: list[Stage] = [[]]
    has_sent = False
    for op in ops:
        if isinstance(op, Receive) and has_sent:
            stages.append([])
            has_sent = False
        has_sent = has_sent or isinstance(op, Send)
        stages[-1].append(op)
    return stages


def _woven(lanes: Sequence[Sequence[Stage]]) -> list[list[Op]]:
    """Return the slots: stage k of bucket b is in slot b + k."""
    n_slots = max((b + len(stages) for b, stages in enumerate(lanes)), default=0)
    slots: list[list[Op]] = [[] for _ in range(n_slots)]
    for bucket in range(len(lanes) - 1, -1, -1):  # the newest bucket offers first
        for number, stage in enumerate(lanes[bucket]):
            slots[bucket + number] += stage
    return slots


def _by_bucket(
    ops: Sequence[Op], layout: Layout
) -> tuple[list[list[Op]], list[list[Op]]]:
    """Return each bucket's updates, and the rest of its operations, in their order."""
    starts = [bucket.range.lo for bucket in layout.buckets]
    updates: list[list[Op]] = [[] for _ in starts]
    rest: list[list[Op]] = [[] for _ in starts]
    for op in ops:
        # If a bucket has fewer elements than chunks, the empty ones are at its end,
        # where the next bucket starts: they belong to the former, other ranges to the
        # latter.
        bisect = bisect_right if op.range.size else bisect_left
        number = max(0, bisect(starts, op.range.lo) - 1)
        (updates if isinstance(op, Apply) else rest)[number].append(op)
    return updates, rest
