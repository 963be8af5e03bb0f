"""An all-reduce that sums in place, made of a training's plan.

Pure. A training keeps the parameters of the last step until the next are complete, so
its exchange ends in a second array. A sum that replaces the summands, as users of MPI
and Gloo want it, needs no such array: finished chunks are handed out where they were
summed. So no member may write again before its readers have read, which the last
message of a call says.
"""

from __future__ import annotations

from collections.abc import Sequence

from kit.exchange.layout import Range
from kit.exchange.plan import GRAD, NEXT, Apply, Copy, Op, Plan, Receive, Send, Term
from kit.trace.traffic import TransferKind

_NOTHING = Range(0, 0)


def in_place(plan: Plan) -> Plan:
    """Return the plan without its updates, and with the sums in GRAD on all members."""
    reduce = tuple(_without_updates(ops) for ops in plan.reduce)
    finish = _without_updates(plan.finish)
    if plan.placed:  # the member that has the sums has been read
        return plan._replace(reduce=reduce, finish=finish)
    handed = [op for op in plan.ops if isinstance(op, Send) and op.region == NEXT]
    taken = [op for op in plan.ops if isinstance(op, Receive) and op.region == NEXT]
    readers = dict.fromkeys(op.to for op in handed)
    sources = dict.fromkeys(op.source for op in taken)
    done = [Send(source, GRAD, _NOTHING, TransferKind.GATHER) for source in sources]
    read = [Receive(reader, GRAD, _NOTHING, TransferKind.GATHER) for reader in readers]
    return plan._replace(reduce=reduce, finish=(*finish, *done, *read))


def _without_updates(ops: Sequence[Op]) -> tuple[Op, ...]:
    return tuple(_moved(op) for op in ops if not isinstance(op, Apply))


def _moved(op: Op) -> Op:
    match op:
        case Send(_, region) | Receive(_, region) if region == NEXT:
            return op._replace(region=GRAD)
        case Copy(source, into, part) if into == NEXT:
            return Copy(Term(source.member, GRAD), GRAD, part)
    return op
