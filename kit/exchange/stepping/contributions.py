"""Which workers' numbers are in which sum: kept beside the buffers.

Pure. A buffer's numbers do not show what they were added up from. So each operation
that a member carries out is entered here as well, and each range (a column) of each
buffer has a note: the workers whose numbers are in it, in the order in which they were
added. A test adds them up again by the notes and compares the bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kit.exchange.layout import Range
from kit.exchange.plan import (
    GRAD,
    NEXT,
    SELF,
    SPARE,
    Add,
    Apply,
    Copy,
    Op,
    Term,
)
from kit.exchange.ports.memory import is_apart

Who = tuple[int, ...]


class BufferPlace(NamedTuple):
    """A buffer of a member: one of its own regions, or its window on a peer's."""

    region: int
    peer: int = SELF


def place_of(term: Term) -> BufferPlace:
    """Return the buffer in which a member finds a summand.

    >>> place_of(Term(2, GRAD)), place_of(Term(2, NEXT)).peer == SELF
    (BufferPlace(region=0, peer=2), True)
    """
    return BufferPlace(term.region, term.member if is_apart(term.region) else SELF)


class Contributions:
    """Which workers' numbers are in each buffer of one member."""

    def __init__(
        self,
        columns: Sequence[Range],
        own: Who,
        begin: Sequence[tuple[int, Range]] | None = None,
    ) -> None:
        """Begin with the worker's own gradient; a server (empty `own`) has nothing.

        `begin` are the regions and ranges in which its numbers are instead.
        """
        self._columns = columns
        self._notes: dict[tuple[BufferPlace, int], Who] = {}
        self._sent: set[tuple[BufferPlace, int]] = set()
        if own and begin is None:
            self._write(BufferPlace(GRAD), range(len(columns)), own)
        for region, part in begin or ():
            self._write(BufferPlace(region), self.columns_of(part), own)

    def columns_of(self, part: Range) -> tuple[int, ...]:
        """Return the columns that a range covers."""
        return tuple(
            number
            for number, column in enumerate(self._columns)
            if column.size and part.lo <= column.lo and column.hi <= part.hi
        )

    def who(self, buffer: BufferPlace, column: int) -> Who:
        """Return the workers in a column of a buffer; () if it holds nothing."""
        return self._notes.get((buffer, column), ())

    def was_sent(self, buffer: BufferPlace, column: int) -> bool:
        """Whether what a buffer holds there has been sent to anybody."""
        return (buffer, column) in self._sent

    def held(self, column: int) -> BufferPlace | None:
        """Return the buffer with the newest of a column: the result, else a sum.

        Of several sums, as recursive doubling has one for each round, the largest.
        """
        if self.who(BufferPlace(NEXT), column):
            return BufferPlace(NEXT)
        own = [BufferPlace(GRAD), *filter(_is_own_spare, self._places(column))]
        buffer = max(own, key=lambda buffer: len(self.who(buffer, column)))
        return buffer if self.who(buffer, column) else None

    def kept(self, column: int) -> list[BufferPlace]:
        """Return the buffers with what has arrived and is not added yet."""
        held = self.held(column)
        return [
            buffer
            for buffer in self._places(column)
            if buffer != held and (buffer.peer != SELF or _is_own_spare(buffer))
        ]

    def _places(self, column: int) -> list[BufferPlace]:
        return sorted(buffer for buffer, number in self._notes if number == column)

    def send(self, region: int, part: Range) -> list[Who]:
        """Return which workers' numbers are in a message, for each of its columns."""
        return [
            self.who(BufferPlace(region), column) for column in self.columns_of(part)
        ]

    def mark_sent(self, region: int, part: Range) -> None:
        """Enter that a range has reached another member."""
        self._sent |= {
            (BufferPlace(region), column) for column in self.columns_of(part)
        }

    def arrive(self, source: int, region: int, part: Range, who: Sequence[Who]) -> None:
        """Enter a message that has arrived."""
        buffer = place_of(Term(source, region))
        for column, note in zip(self.columns_of(part), who, strict=True):
            self._write(buffer, (column,), note)

    def carry_out(self, op: Op) -> None:
        """Enter what an operation changes in the member's own buffers."""
        columns = self.columns_of(op.range)
        match op:
            case Add(_, terms, into):
                places = [place_of(term) for term in terms]
                for column in columns:
                    note = sum((self.who(p, column) for p in places), start=())
                    self._use_up(places, column)
                    self._write(BufferPlace(into), (column,), note)
            case Copy(source, into, _):
                buffer = place_of(source)
                for column in columns:
                    note = self.who(buffer, column)
                    if buffer != BufferPlace(into):
                        self._use_up([buffer], column)
                        self._write(BufferPlace(into), (column,), note)
            case Apply():
                for column in columns:
                    note = self.who(BufferPlace(GRAD), column)
                    self._write(BufferPlace(NEXT), (column,), note)

    def _write(self, buffer: BufferPlace, columns: Iterable[int], note: Who) -> None:
        for column in columns:
            if self._columns[column].size:
                self._notes[buffer, column] = note
                self._sent.discard((buffer, column))

    def _use_up(self, places: Iterable[BufferPlace], column: int) -> None:
        """Forget what was kept only for this operation."""
        for buffer in places:
            if buffer.peer != SELF or _is_own_spare(buffer):
                self._notes.pop((buffer, column), None)


def _is_own_spare(buffer: BufferPlace) -> bool:
    return buffer.peer == SELF and buffer.region >= SPARE
