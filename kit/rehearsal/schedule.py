"""The plans of all members of a step as columns, with each message's two ends paired.

Pure. A thousand plans of a ring have some millions of operations. Each plan is made,
read and dropped before the next one is made; what is kept of an operation takes some
twenty bytes.

Copies have no row: to copy a range is part of what taking its message costs, as in
`kit.exchange.topologies.time_model`. Neighbouring additions are one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kit.errors import InvalidArgumentError, ResourceExhaustedError
from kit.exchange.layout import Layout, Range
from kit.exchange.plan import Add, Apply, Op, Plan, Receive, Send
from kit.trace.log import Rows
from kit.trace.traffic import TOTAL

Array = npt.NDArray[Any]
# What to do, with whom, why, and with how many arrays of which range.
Row = tuple[int, int, int, int, Range]
READY, SEND, RECEIVE, ADD, APPLY = range(5)  # what a row is
MOST_ROWS = 8_000_000  # some 600 MB with their times
MOST_PLANNED = 3_000_000  # each made and read as an object, which takes some 10 s


class Columns(NamedTuple):
    """Rows: what to do, with whom, why, and how much.

    `amount` is a number of bytes: of a message, added, or updated. In a READY row it is
    the number of the bucket whose gradients are waited for.
    """

    code: Array
    peer: Array
    kind: Array
    amount: Array


@dataclass(frozen=True)
class CommunicationSchedule:
    """A step: the rows of all members, one after the other in the order of `members`.

    `first` is where each member's rows begin, and the end of the last one's. `message`
    is the number of the message that a row sends or takes, -1 for other rows; both ends
    of a message have its number.
    """

    members: tuple[int, ...]
    first: Array
    rows: Columns
    message: Array
    n_messages: int  # with the empty ones

    @cached_property
    def owner(self) -> Array:
        """The place in `members` of each row's member."""
        places = np.arange(len(self.members), dtype=np.uint16)
        return np.repeat(places, np.diff(self.first))

    @cached_property
    def number(self) -> Array:
        """The member numbers, as an array."""
        return np.array(self.members, np.uint16)

    @cached_property
    def taken(self) -> Array:
        """The rows that take a message which holds anything, as their numbers."""
        return np.flatnonzero((self.rows.code == RECEIVE) & (self.rows.amount > 0))

    def totals(self) -> Rows:
        """Return what a step moves on each link, by kind, as in a trace; exact."""
        rows = self.taken
        source = self.rows.peer[rows].astype(np.int64)
        target = self.number[self.owner[rows]].astype(np.int64)
        link = (source << 32) | (target << 8) | self.rows.kind[rows]
        keys, row_of, counts = np.unique(link, return_inverse=True, return_counts=True)
        table = np.zeros(len(keys), TOTAL)
        table["source"], table["destination"] = keys >> 32, keys >> 8 & 0xFFFF
        table["kind"], table["messages"] = keys & 0xFF, counts
        np.add.at(table["bytes"], row_of, self.rows.amount[rows])
        return table


def build_schedule(
    rows_of_members: Iterable[tuple[int, Columns]], layout: Layout, name: str
) -> CommunicationSchedule:
    """Return the step of members, whose rows are asked for one by one.

    `name` is the topology's, for messages. Raises `InvalidArgumentError` when the plans
    do not fit together, `ResourceExhaustedError` when they are too many operations.
    """
    members, parts, total = [], [], 0
    for member, part in rows_of_members:
        total += len(part.code)
        if total > MOST_ROWS:
            raise too_many(name, layout, MOST_ROWS)
        members.append(member)
        parts.append(part)
    if not members:
        raise InvalidArgumentError(
            f"topology {name!r} has a plan for none of the tasks; mend its plan."
        )
    rows = Columns(*(np.concatenate(some) for some in zip(*parts, strict=True)))
    first = np.array(list(accumulate((len(p.code) for p in parts), initial=0)))
    schedule = CommunicationSchedule(tuple(members), first, rows, _NONE, 0)
    message, n_messages = _paired(schedule, name)
    return replace(schedule, message=message, n_messages=n_messages)


def too_many(name: str, layout: Layout, most: int) -> ResourceExhaustedError:
    """Return the error for a step that has more than `most` operations."""
    return ResourceExhaustedError(
        f"a step of topology {name!r} with {layout.n_chunks} workers and "
        f"{len(layout.buckets)} buckets has more than {most:,} operations, too "
        f"many to play. Rehearse fewer tasks, a smaller model, or larger buckets with "
        f"settings(bucket_bytes=...)."
    )


_NONE = np.zeros(0, np.int32)


def columns_of(plan: Plan) -> Columns:
    """Return the rows of a plan as it is carried out, with its buckets woven together.

    Takes about 3 microseconds for an operation.
    """
    code, peer, kind, amount = (list[int]() for _ in range(4))
    for what, whom, why, times, part in rows_of(plan):
        if what == ADD and code[-1] == ADD:
            amount[-1] += times * part.size
            continue
        code.append(what)
        peer.append(whom)
        kind.append(why)
        amount.append(times * part.size)
    return Columns(
        np.array(code, np.uint8),
        np.array(peer, np.uint16),
        np.array(kind, np.uint8),
        np.array(amount, np.int64),
    )


def rows_of(plan: Plan) -> Iterator[Row]:
    """Yield what a plan does, one addition after the other."""
    for bucket, ops in enumerate(plan.reduce):
        yield READY, 0, 0, 1, Range(0, bucket)
        yield from _of(ops)
    yield READY, 0, 0, 1, Range(0, max(0, len(plan.reduce) - 1))
    yield from _of(plan.finish)


def _of(ops: tuple[Op, ...]) -> Iterator[Row]:
    for op in ops:
        if isinstance(op, Send):
            yield SEND, op.to, op.kind, 1, op.range
        elif isinstance(op, Receive):
            yield RECEIVE, op.source, op.kind, 1, op.range
        elif isinstance(op, Add):
            yield ADD, 0, 0, len(op.terms) - 1, op.range
        elif isinstance(op, Apply):
            yield APPLY, 0, 0, 1, op.range


def _paired(schedule: CommunicationSchedule, name: str) -> tuple[Array, int]:
    """Return the number of each row's message, and how many messages there are.

    The n-th message that a sends to b is the n-th that b takes from a.
    """
    rows = schedule.rows
    message = np.full(len(rows.code), -1, np.int32)
    sends = np.flatnonzero(rows.code == SEND)
    takes = np.flatnonzero(rows.code == RECEIVE)
    me = schedule.number[schedule.owner].astype(np.int64)
    sent = (me[sends] << 16) | rows.peer[sends]
    taken = (rows.peer[takes].astype(np.int64) << 16) | me[takes]
    sends, takes = (
        of[np.argsort(link, kind="stable")]
        for of, link in ((sends, sent), (takes, taken))
    )
    # Ordered by link, and by time within one (the sort is stable), so both lists have
    # the same message at the same place, if the plans fit together.
    sent, taken = np.sort(sent), np.sort(taken)
    fit = len(sent) == len(taken) and np.array_equal(sent, taken)
    if not fit or not np.array_equal(rows.amount[sends], rows.amount[takes]):
        raise InvalidArgumentError(
            f"the plans of topology {name!r} do not fit together: what some "
            f"members send, others do not take. kit.testing.check_topology names the "
            f"first such message."
        )
    message[sends] = message[takes] = np.arange(len(sends), dtype=np.int32)
    return message, len(sends)
