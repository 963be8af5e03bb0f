"""What the plans of a step move and do, counted by walking them.

Pure. A topology without formulas is described by these counts; the formulas of the
others are compared with them (`kit.testing.check_topology`). Only messages with a
payload are counted, as by the meter: an empty message only keeps two members in step.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kit.exchange.plan import Add, Apply, Group, Op, Plan, Receive, Send
from kit.trace.traffic import TransferKind

Traffic = dict[
    tuple[int, int, TransferKind], int
]  # (source, destination, kind) -> bytes a step


class ExchangeCost(NamedTuple):
    """What there is to do: messages to wait for, bytes to move, bytes to work on."""

    messages: float
    moved: float
    worked: float


Loads = tuple[ExchangeCost, ExchangeCost]  # on the longest way, of all tasks together


def add_costs(*costs: ExchangeCost) -> ExchangeCost:
    """Return the sum of some costs.

    >>> add_costs(ExchangeCost(1, 8, 0), ExchangeCost(2, 8, 4))
    ExchangeCost(messages=3, moved=16, worked=4)
    """
    return ExchangeCost(*map(sum, zip(*costs, strict=True)))


def of_each(cost: ExchangeCost, n_tasks: int) -> Loads:
    """Return the loads of an exchange in which all tasks do the same."""
    return cost, ExchangeCost(*(n_tasks * part for part in cost))


def counted_traffic(plans: Mapping[int, Plan]) -> Traffic:
    """Return the bytes that the plans of a step move."""
    total: Traffic = {}
    for member, op in _taken(plans):
        key = op.source, member, op.kind
        total[key] = total.get(key, 0) + op.range.size
    return total


def counted_messages(plans: Mapping[int, Plan]) -> int:
    """Return how many messages of a step carry something."""
    return sum(1 for _ in _taken(plans))


def counted_hops(plans: Mapping[int, Plan], group: Group, n_steps: int = 1) -> int:
    """Return how many messages between hosts follow on each other, at most.

    One follows another if it cannot leave before that one has come. Messages within a
    host take no time here; empty ones count like all others, since they take as long.
    All members begin together. In several steps, each member begins the next one as
    soon as it has ended the last, so there may be fewer than in as many single steps.
    """
    # Every member goes on until it needs a message that nobody has sent yet. It ends,
    # since each round moves somebody; plans that do not fit together just stop early.
    left = {member: deque(plan.ops * n_steps) for member, plan in plans.items()}
    sent: dict[tuple[int, int], deque[int]] = defaultdict(deque)
    hops = dict.fromkeys(plans, 0)
    moving = True
    while moving:
        moving = False
        for member, ops in left.items():
            while ops and _hop(member, ops[0], group, sent, hops):
                ops.popleft()
                moving = True
    return max(hops.values(), default=0)


def _hop(
    member: int,
    op: Op,
    group: Group,
    sent: Mapping[tuple[int, int], deque[int]],
    hops: dict[int, int],
) -> bool:
    """Do an operation; False if its message has not been sent yet."""
    if isinstance(op, Send):
        sent[member, op.to].append(hops[member])
    if isinstance(op, Receive):
        if not sent[op.source, member]:
            return False
        n_hops = sent[op.source, member].popleft()
        n_hops += group.host(op.source) != group.host(member)
        hops[member] = max(hops[member], n_hops)
    return True


def counted_loads(plans: Mapping[int, Plan], group: Group) -> Loads:
    """Return what the busiest server and then the busiest worker do, and what all do.

    With servers, a step is over when these are done and the workers have their result;
    without, when the busiest worker is done.
    """
    each = {member: _cost(plan) for member, plan in plans.items()}
    nothing = ExchangeCost(0, 0, 0)
    way = [
        max((each[member] for member in job if member in each), default=nothing)
        for job in (group.ps, group.workers)
    ]
    return add_costs(*way), add_costs(nothing, *each.values())


def _taken(plans: Mapping[int, Plan]) -> Iterator[tuple[int, Receive]]:
    for member, plan in plans.items():
        for op in plan.ops:
            if isinstance(op, Receive) and op.range.size:
                yield member, op


def _cost(plan: Plan) -> ExchangeCost:
    taken = [op.range.size for op in plan.ops if isinstance(op, Receive)]
    added = sum(
        (len(op.terms) - 1) * op.range.size for op in plan.ops if isinstance(op, Add)
    )
    applied = sum(op.range.size for op in plan.ops if isinstance(op, Apply))
    return ExchangeCost(sum(size > 0 for size in taken), sum(taken), added + applied)
