"""What a member writes into a checkpoint: a copy of the ranges that it updates.

Every range of the parameters has one writer, the first of its owners. The writer copies
it, and the optimizer's slots beside it, into a buffer; the pieces that a shard is made
of are views of that buffer, made once for all copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from kit.checkpoint import Piece
from kit.crc import digest
from kit.exchange.layout import ITEMSIZE, Layout, Range, intersect
from kit.exchange.plan import SLOT, Owned
from kit.exchange.ports.memory import Array, Memory

_ALIGNMENT = 8


def writers_of(owners: Iterable[Owned], coordinator: int) -> tuple[int, ...]:
    """Return the members that write shards; the coordinator if nobody owns a byte.

    >>> writers_of([Owned(Range(0, 8), (2, 3)), Owned(Range(8, 8), (4,))], 0)
    (2,)
    """
    found = {owned.members[0] for owned in owners if owned.range.size}
    return tuple(sorted(found)) or (coordinator,)


def ranges_of(owners: Iterable[Owned], member: int) -> tuple[Range, ...]:
    """Return the ranges that a member writes."""
    return tuple(
        owned.range
        for owned in owners
        if owned.range.size and owned.members[0] == member
    )


def _private(n_bytes: int) -> Array:
    return np.empty(n_bytes, np.uint8)


class OwnState:
    """A buffer for the parameters and slots of some ranges.

    Attributes:
        n_bytes: size of the copy.
        room: how many bytes more fit into the buffer.
    """

    def __init__(
        self,
        layout: Layout,
        ranges: Sequence[Range],
        slots: Sequence[str],
        room: int = 0,
        allocate: Callable[[int], Array] = _private,
    ) -> None:
        """Reserve as many bytes as parameters and slots of the ranges have.

        `room`: how many more may follow them; see `followed_by`. `allocate` returns
        memory of so many bytes.
        """
        self._ranges = tuple(ranges)
        places, size = [], 0
        for _ in range(1 + len(slots)):
            for part in self._ranges:
                places.append(size)
                size += self.stride(part)
        self.n_bytes, self.room = size, room
        self._buffer = allocate(size + room)
        self._buffer.fill(0)  # its pages are there now, not when the training waits
        self._views = [
            self._buffer[place : place + part.size]
            for place, part in zip(places, self._ranges * (1 + len(slots)), strict=True)
        ]
        views = iter(self._views)
        self.pieces = tuple(
            piece
            for slot in ("", *slots)
            for part in self._ranges
            for piece in _pieces(layout, part, next(views), slot)
        )

    @staticmethod
    def stride(part: Range) -> int:
        """Return how many bytes of the copy a range takes, with those to align it."""
        return -(-part.size // _ALIGNMENT) * _ALIGNMENT

    @property
    def data(self) -> Array:
        """The copy: the ranges of the parameters, then of each slot, as bytes."""
        return self._buffer[: self.n_bytes]

    def followed_by(self, rest: bytes) -> Array:
        """Return the copy with at most `room` bytes behind it, without copying it."""
        end = self.n_bytes + len(rest)
        self._buffer[self.n_bytes : end] = np.frombuffer(rest, np.uint8)
        return self._buffer[:end]

    def copy(self, memory: Memory, now: int) -> None:
        """Take the values: parameters from the physical region `now`, and the slots.

        Blocks for the copy alone, a few milliseconds for ten million parameters.
        """
        views = iter(self._views)
        n_regions = len(self._views) // len(self._ranges) if self._ranges else 0
        for number in range(n_regions):
            region = SLOT + number - 1 if number else now
            for part in self._ranges:
                next(views).data[:] = memory.raw(region, part)

    def digest(self) -> int:
        """Return the digest of the copied parameters, without the slots."""
        return digest(view.data for view in self._views[: len(self._ranges)])


def _pieces(layout: Layout, part: Range, view: Array, slot: str) -> Iterable[Piece]:
    for leaf in layout.leaves:
        shared = intersect(part, leaf.range)
        if shared is None:
            continue
        name, shape, dtype = leaf.spec
        values = view[shared.lo - part.lo : shared.hi - part.lo].view(dtype)
        offset = (shared.lo - leaf.range.lo) // ITEMSIZE[dtype]
        yield Piece(f"{name}/{slot}" if slot else name, dtype, shape, offset, values)


def empty_pieces(layout: Layout, slots: Sequence[str]) -> tuple[Piece, ...]:
    """Return the pieces of parameters without elements, which nobody owns."""
    return tuple(
        Piece(f"{name}/{slot}" if slot else name, dtype, shape, 0, np.zeros(0, dtype))
        for name, shape, dtype in (leaf.spec for leaf in layout.leaves)
        if 0 in shape
        for slot in ("", *slots)
    )


def fill(
    memory: Memory, now: int, slots: Sequence[str], values: dict[str, Array]
) -> None:
    """Write a whole state into a member's memory: the other way round.

    Touches every page of the parameters and of all slots.
    """
    for leaf in memory.layout.leaves:
        for number, slot in enumerate(("", *slots)):
            region = SLOT + number - 1 if number else now
            name = f"{leaf.spec.name}/{slot}" if slot else leaf.spec.name
            memory.leaf(region, leaf)[...] = values[name]
