"""Carry out plans step after step in any order that their messages allow.

No threads: the next operation is chosen at random, and a member that waits for nothing
may run far ahead of the rest. Memory is shared, so a read that is too early or too late
gives another number. Sums of whole numbers are exact in any order; with fractions,
another order of addition also gives another number.
"""

from __future__ import annotations

import math
import random
from bisect import bisect
from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.exchange.plan import (
    GRAD,
    NEXT,
    NOW,
    SELF,
    SPARE,
    Add,
    Apply,
    Copy,
    Op,
    Plan,
    Receive,
    Send,
    Term,
)
from kit.exchange.ports.memory import physical
from kit.trace.traffic import TransferKind

Numbers = npt.NDArray[Any]
Gradients = Sequence[Mapping[int, Numbers]]  # of each step: worker -> its gradient
_ENDLESS = 1 << 30  # turns


class InterleavedMembers:
    """All members' memory, one number a byte, and the messages under way."""

    def __init__(
        self,
        plans: Mapping[int, Plan],
        start: Numbers,
        *,
        overwrites: bool = False,
        stays: bool = False,
    ) -> None:
        """Give all members the parameters `start`; nothing has moved yet.

        `overwrites`: the next parameters lie where the gradients were. `stays`: there
        are none; what a step leaves in NEXT is where the next gradient is added.
        """
        self._plans, self._overwrites, self._stays = plans, overwrites, stays
        shape = (2 * SPARE, start.size)
        self._memory = {member: np.zeros(shape, start.dtype) for member in plans}
        for memory in self._memory.values():
            memory[physical(NOW, 0)] = start
        self._sent: dict[tuple[int, int], int] = defaultdict(int)
        self._asleep: set[tuple[int, int]] = set()  # whose message who waits for
        self._woken: list[int] = []

    def run(self, gradients: Gradients, dice: random.Random) -> dict[int, Numbers]:
        """Do one step for each of the gradients; returns all members' parameters.

        Where these stay, it returns what the last step has left in NEXT.
        Raises `AssertionError` if some wait for a message that nobody sends.
        """
        lives = {member: self._live(member, gradients) for member in self._plans}
        eager = {member: 10 ** dice.uniform(-2, 2) for member in lives}
        rates: dict[tuple[int, ...], list[float]] = {}  # of who is able, added up
        able = tuple(sorted(lives))
        while able:
            if able not in rates:
                rates[able] = list(
                    accumulate(eager[member_able] for member_able in able)
                )
            total = rates[able][-1]
            member = able[bisect(rates[able], dice.random() * total, hi=len(able) - 1)]
            for _ in range(_turns(eager[member] / total, dice)):
                if not next(lives[member], False):
                    able = tuple(other for other in able if other != member)
                    break
                if self._woken:  # the others' chances are now less
                    able = tuple(sorted({*able, *self._woken}))
                    self._woken.clear()
                    break
        if self._asleep:
            stuck = sorted(member for _, member in self._asleep)
            raise AssertionError(f"these members wait for ever: {stuck}")
        region = GRAD if self._stays else NOW  # NEXT is GRAD now, or it is NOW
        return {member: self._at(member, region, len(gradients)) for member in lives}

    def _live(self, member: int, gradients: Gradients) -> Generator[bool, None, None]:
        """Yield after each operation True, or False to sleep until a message comes."""
        taken: dict[int, int] = defaultdict(int)
        for step, slopes in enumerate(gradients):
            if member in slopes:
                target = self._at(member, GRAD, step)
                target[...] = target + slopes[member] if self._stays else slopes[member]
                yield True
            for op in self._plans[member].ops:
                if isinstance(op, Receive):
                    taken[op.source] += 1
                    if self._sent[op.source, member] < taken[op.source]:
                        self._asleep.add((op.source, member))
                        yield False
                    continue  # it does nothing by itself: not worth a turn
                self._do(member, op, step)
                yield True

    def _do(self, member: int, op: Op, step: int) -> None:
        placed = self._plans[member].placed
        match op:
            case Send(to, region, part, kind):
                if placed and kind == TransferKind.GATHER:
                    bounds = slice(*part)
                    own = self._at(member, region, step)[bounds]
                    self._at(to, region, step)[bounds] = own
                self._sent[member, to] += 1
                if (member, to) in self._asleep:
                    self._asleep.remove((member, to))
                    self._woken.append(to)
            case Add(part, terms, into):
                views = [self._view(member, term, step)[slice(*part)] for term in terms]
                self._at(member, into, step)[slice(*part)] = sum(views)
            case Copy(source, into, part) if not placed:
                view = self._view(member, source, step)[slice(*part)]
                self._at(member, into, step)[slice(*part)] = view
            case Apply(part):
                now = self._at(member, NOW, step)[slice(*part)]
                total = self._at(member, GRAD, step)[slice(*part)]
                self._at(member, NEXT, step)[slice(*part)] = now - total

    def _view(self, member: int, term: Term, step: int) -> Any:
        own = term.member == SELF
        return self._at(member if own else term.member, term.region, step)

    def _at(self, member: int, region: int, step: int) -> Any:
        where = physical(region, step % 2, self._overwrites, self._stays)
        return self._memory[member][where]


def _turns(chance: float, dice: random.Random) -> int:
    """Draw how many turns in a row come to the member that has the first of them.

    They are as many as if each were drawn by itself, which took most of the time.
    """
    if chance >= 1:
        return _ENDLESS
    return 1 + int(math.log(1 - dice.random()) / math.log(chance))
