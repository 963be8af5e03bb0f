"""Sums that are made where the arrays of a group's caller lie, without copies. Pure.

An all-reduce copies its value into the arena, where others read it, and the result out
of it. Of a large array over shared memory only what others read is copied: a task sums
from its caller's array, and puts what is finished there at once, while it is in the
cache. Two tasks, the half of one:

    caller's array    | other's half |    | own half |      | other's half |
                         | copy             | sum, and back    ^
    arena                v                  v                  | copy
                      |    offer     |    |   sum    |       the other's sum

All that others see stays as it was: messages, and what lies in the ranges that they
name. So one task may lend its array where another cannot.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kit.exchange.layout import Range
from kit.exchange.plan import (
    GRAD,
    LENT,
    NEXT,
    RESULT,
    SELF,
    Add,
    Copy,
    Op,
    Plan,
    Receive,
    Send,
    Term,
)
from kit.exchange.ports.memory import Array

_OWN, _DONE = Term(SELF, GRAD), Term(SELF, NEXT)
_LEAST = 1 << 20  # bytes; what stays in the cache is copied as fast


class Lent(NamedTuple):
    """A caller's array of summands, and its room for the result: the same, or apart."""

    value: Array
    result: Array

    @property
    def into(self) -> int:
        """The region of the result."""
        is_same = self.value.ctypes.data == self.result.ctypes.data
        return LENT if is_same else RESULT

    @property
    def regions(self) -> dict[int, Array]:
        """The arrays by region."""
        return {LENT: self.value, self.into: self.result}


def maybe_lent(value: Array, room: Array | None) -> Lent | None:
    """Return an array to be summed and the room for it, where both can be lent.

    That is a large one whose numbers lie one behind the other, as those of `room` do,
    which is made if it is None.
    """
    if value.nbytes < _LEAST or not _is_plain(value):
        return None
    result = np.empty_like(value) if room is None else room
    is_alike = result.dtype == value.dtype and _is_plain(result)
    lent = Lent(value, result)
    is_shifted = lent.into != LENT and np.may_share_memory(value, result)
    return lent if is_alike and not is_shifted else None


def _is_plain(array: Array) -> bool:
    return array.flags.c_contiguous and array.flags.aligned


def lending(plan: Plan, into: int) -> Plan | None:
    """Return a plan of sums whose summand is in LENT and whose result goes to `into`.

    `into` may be LENT too. Returns None where the plan does not write all of the
    result, or reads a summand again after that.
    """
    return _Lending(plan, into).plan()


class _Lending:
    """One plan, and what it has read, copied and written so far, by segments."""

    def __init__(self, plan: Plan, into: int) -> None:
        self._plan, self._into = plan, into
        self._ops = list[Op]()
        # Between two edges everything is done to all bytes alike.
        self._edges = sorted({edge for op in plan.ops for edge in op.range})
        n = len(self._edges)
        self._is_shared = bytearray(n)  # our summand, or a sum, lies in the arena
        self._is_done = bytearray(n)
        self._is_wrong = False
        self._read_last = [-1] * n  # by the number of the operation
        for number, op in enumerate(plan.ops):
            if _reads_result(op):
                for at in self._span(op.range):
                    self._read_last[at] = number

    def plan(self) -> Plan | None:
        """Return the plan, if there is one."""
        for number, op in enumerate(self._plan.ops):
            match op:
                case Send(region=region):
                    if region == GRAD:
                        self._share(op.range)
                    self._ops.append(op)
                case Add(part, terms, into):
                    terms = tuple(self._term(term, part) for term in terms)
                    self._write(number, op._replace(terms=terms), into)
                case Copy(source, into, part):
                    source = self._term(source, part)
                    self._write(number, op._replace(source=source), into)
                case Receive():
                    self._ops.append(op)
        is_whole = all(self._is_done[at] for at in range(len(self._edges) - 1))
        if self._is_wrong or not is_whole:
            return None
        return self._plan._replace(reduce=(tuple(self._ops),), finish=())

    def _span(self, part: Range) -> range:
        """Return the segments of a range."""
        lo, hi = (bisect_left(self._edges, edge) for edge in part)
        return range(lo, hi)

    def _share(self, part: Range) -> None:
        """Copy what others will read, where it is not in the arena yet."""
        span = self._span(part)
        missing = [at for at in span if not self._is_shared[at]]
        parts = [Range(self._edges[at], self._edges[at + 1]) for at in missing]
        if missing and len(missing) == len(span):
            parts = [part]
        for piece in parts:
            self._read(piece)
            self._ops.append(Copy(Term(SELF, LENT), GRAD, piece))
        self._mark(self._is_shared, part)

    def _term(self, term: Term, part: Range) -> Term:
        """Return where a summand is; one that is there in part is copied as a whole."""
        if term != _OWN:
            return term
        if any(self._is_shared[at] for at in self._span(part)):
            self._share(part)
            return term
        self._read(part)
        return Term(SELF, LENT)

    def _write(self, number: int, op: Add | Copy, into: int) -> None:
        """Write a sum or a copy: what is finished goes to the result."""
        part = op.range
        if into != NEXT:
            if into == GRAD:
                self._mark(self._is_shared, part)
            self._ops.append(op)
            return
        # A finished range that its sender has put here itself has no other way.
        is_here = isinstance(op, Copy) and self._plan.placed and op.source.member >= 0
        if is_here or any(self._read_last[at] > number for at in self._span(part)):
            self._ops += op, Copy(_DONE, self._into, part)
        else:
            self._ops.append(op._replace(into=self._into))
        self._mark(self._is_done, part)

    def _read(self, part: Range) -> None:
        if self._into == LENT and any(self._is_done[at] for at in self._span(part)):
            self._is_wrong = True

    def _mark(self, marks: bytearray, part: Range) -> None:
        for at in self._span(part):
            marks[at] = True


def _reads_result(op: Op) -> bool:
    """Whether somebody reads our NEXT: another task, or we ourselves."""
    terms: Sequence[Term] = ()
    match op:
        case Send(region=region):
            return region == NEXT
        case Add(terms=terms):
            return _DONE in terms
        case Copy(source=source):
            return source == _DONE
    return False
