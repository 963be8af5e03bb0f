"""Carry the messages of a step's plans, without any memory or link."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping

from kit.exchange.plan import Op, Receive, Send


def walk(plans: Mapping[int, Iterable[Op]]) -> None:
    """Carry all messages; fails on a deadlock, on another message and on leftovers."""
    ops = {member: deque(own) for member, own in plans.items()}
    sent: dict[tuple[int, int], deque[tuple[object, ...]]] = defaultdict(deque)
    moving = True
    while moving:
        moving = False
        for member, own in ops.items():
            while own:
                op = own[0]
                if isinstance(op, Send):
                    sent[member, op.to].append((op.region, op.range, op.kind))
                elif isinstance(op, Receive):
                    if not sent[op.source, member]:
                        break
                    message = (op.region, op.range, op.kind)
                    assert sent[op.source, member].popleft() == message
                own.popleft()
                moving = True
    assert not any(ops.values()), "a deadlock"
    assert not any(sent.values()), "a message that nobody takes"
