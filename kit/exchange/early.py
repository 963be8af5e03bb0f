"""Update and hand out each bucket as soon as it is summed, not after all of them.

Pure: it turns a plan into another one with the same operations. A sum is then still in
the cache when the parameters are made of it, and finished ones travel while the next
bucket is summed.

    plan     sum 0 | sum 1 | sum 2 | update 0 1 2 | hand out 0 1 2
    early    sum 0, update 0 | sum 1, update 1, hand out 0 | ... | hand out 2

Only for an optimizer without slots. An early update writes to NEXT, which nobody reads
before the step is complete everywhere, and no member can complete it without all shares
of all workers: a refused step leaves the parameters as they were. Slots are changed in
place, so they have to wait until every worker has contributed everything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from kit.exchange.layout import Layout
from kit.exchange.plan import Apply, Op, Plan


def early(plan: Plan, layout: Layout) -> Plan:
    """Return the plan with its second part spread over the buckets of the first.

    All members of a group must do so, or none: the messages change their order.
    """
    updates, handed = _by_bucket(plan.finish, layout)
    before: list[list[Op]] = [[], *handed[:-1]]
    reduce = [
        (*sums, *updates[bucket], *before[bucket])
        for bucket, sums in enumerate(plan.reduce)
    ]
    return Plan(tuple(reduce), tuple(handed[-1]))


def _by_bucket(
    ops: Sequence[Op], layout: Layout
) -> tuple[list[list[Op]], list[list[Op]]]:
    """Return each bucket's updates, and the rest of its operations, in their order."""
    starts = [bucket.range.lo for bucket in layout.buckets]
    updates: list[list[Op]] = [[] for _ in starts]
    rest: list[list[Op]] = [[] for _ in starts]
    for op in ops:
        place = max(0, bisect_right(starts, op.range.lo) - 1)
        (updates if isinstance(op, Apply) else rest)[place].append(op)
    return updates, rest
