"""The flat buffers of one member, as one stretch of memory cut into regions.

All members of a training have memory of the same form, so a byte range means the same
everywhere. The memory is an arena that neighbours on the same host map too, or private
memory if all neighbours are elsewhere. Pages that are never touched cost nothing, so
regions that a topology does not use take no memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kit.exchange.layout import Layout, Leaf, Range
from kit.exchange.plan import GRAD, NEXT, NOW, SPARE
from kit.wire.local.arena import Arena

_PAGE = 4096
_MOST_PRIVATE = 1 << 25  # bytes of a region
Array = npt.NDArray[Any]


def physical(
    region: int, parity: int, overwrites: bool = False, stays: bool = False
) -> int:
    """Return the physical region of a plan's region in steps of this parity.

    NOW and NEXT change places with each step. If the next parameters overwrite the
    gradients, NEXT is where GRAD is, and GRAD and NOW change places. If NOW stays, GRAD
    and NEXT do.

    >>> [physical(region, 0) for region in (GRAD, NOW, NEXT)]
    [0, 1, 2]
    >>> [physical(region, 1) for region in (GRAD, NOW, NEXT)]
    [0, 2, 1]
    >>> [physical(region, 0, overwrites=True) for region in (GRAD, NOW, NEXT)]
    [0, 1, 0]
    >>> [physical(region, 1, overwrites=True) for region in (GRAD, NOW, NEXT)]
    [1, 0, 1]
    >>> [physical(region, 1, stays=True) for region in (GRAD, NOW, NEXT)]
    [2, 1, 0]
    """
    if region > NEXT:
        return region
    if stays:
        return NEXT - region if parity else region
    if overwrites:
        return (region == NOW) ^ parity
    return NOW + NEXT - region if parity and region else region


def is_apart(region: int) -> bool:
    """Whether a neighbour's region is kept apart here from our own of that name.

    A gradient is, because the receiver's own is in that place. Parameters and slots are
    not: they are the same for all.
    """
    return region == GRAD or region >= SPARE


def n_regions(layout: Layout) -> int:
    """Return how many regions a member has: one spare for each worker."""
    return SPARE + layout.n_chunks


def region_bytes(layout: Layout) -> int:
    """Return the size of a region, in whole pages."""
    return max(_PAGE, -(-layout.total_bytes // _PAGE) * _PAGE)


def memory_bytes(layout: Layout) -> int:
    """Return the size of a member's memory."""
    return n_regions(layout) * region_bytes(layout)


class Memory:
    """Regions over a buffer. The views stay valid as long as the buffer does."""

    def __init__(self, layout: Layout, buffer: Any = None) -> None:
        """Cut `buffer` (of `memory_bytes`; default: private zeros) into regions."""
        self.layout = layout
        size = memory_bytes(layout)
        whole = (
            np.zeros(size, np.uint8)
            if buffer is None
            else np.frombuffer(buffer, np.uint8, count=size)
        )
        self._regions = whole.reshape(n_regions(layout), region_bytes(layout))
        # Made once: `raw` is called for each message, and slicing a memoryview costs
        # less than making one of a slice.
        self._bytes = [region.data for region in self._regions]

    def raw(self, region: int, part: Range) -> memoryview:
        """Return the bytes of a range of a physical region."""
        return self._bytes[region][part.lo : part.hi]

    def flat(self, region: int, part: Range) -> Array:
        """Return the same bytes as an array."""
        return self._regions[region, part.lo : part.hi]

    def typed(self, region: int, part: Range) -> Array:
        """Return a range of a physical region as a flat array of its dtype."""
        return self.flat(region, part).view(self.layout.dtype_at(part.lo))

    def bits(self, region: int, part: Range, dtype: str) -> Array:
        """Return a range of a physical region as whole items of an unsigned dtype."""
        size = part.size // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize
        return self.flat(region, Range(part.lo, part.lo + size)).view(dtype)

    def leaf(self, region: int, leaf: Leaf) -> Array:
        """Return one parameter's array inside a physical region."""
        flat = self.flat(region, leaf.range)
        return flat.view(leaf.spec.dtype).reshape(leaf.spec.shape)

    def leaves(self, region: int) -> dict[str, Array]:
        """Return all parameters' arrays inside a physical region, by name."""
        return {leaf.spec.name: self.leaf(region, leaf) for leaf in self.layout.leaves}

    def stage(self, region: int, number: int) -> dict[str, Array]:
        """Return the arrays of one of the layout's stages in a physical region."""
        start = self.layout.edges[number]
        return {
            leaf.spec.name: self.leaf(region, leaf._replace(lo=leaf.lo + start))
            for leaf in self.layout.stages[number].leaves
        }

    def another(self) -> Memory:
        """Return private memory of the same form, in the same place."""
        return Memory(self.layout)

    def gradients(self) -> dict[str, Array]:
        """Return where the gradients of an even step belong, by name."""
        return self.leaves(GRAD)


class Mirror:
    """A neighbour's regions as they come here, each made with its first use.

    Large ones are arenas, since private memory would count as taken before a page of it
    is touched, where the system promises no more than it has. Small ones are private:
    huge pages save a thirtieth of the time of receiving (16 MiB, a ring of 2).
    """

    def __init__(self, layout: Layout) -> None:
        """Make none yet."""
        self._layout = layout
        self._regions: dict[int, memoryview] = {}

    def raw(self, region: int, part: Range) -> memoryview:
        """Return the bytes of a range of a physical region."""
        if region not in self._regions:
            self._regions[region] = _new_region(region_bytes(self._layout))
        return self._regions[region][part.lo : part.hi]

    def typed(self, region: int, part: Range) -> Array:
        """Return a range of a physical region as a flat array of its dtype."""
        return np.frombuffer(self.raw(region, part), self._layout.dtype_at(part.lo))


def _new_region(size: int) -> memoryview:
    if size <= _MOST_PRIVATE:
        return np.zeros(size, np.uint8).data
    arena = Arena.create("mirror", size)
    view = arena.view()
    arena.close()  # its descriptor: the view keeps the memory
    return view


def address(array: Any) -> int:
    """Return the address of an array, or of the words of a memoryview."""
    if isinstance(array, memoryview):
        array = np.frombuffer(array, np.uint8)
    return int(array.__array_interface__["data"][0])


def unflatten(layout: Layout, flat: bytes | bytearray) -> dict[str, Array]:
    """Return the parameters of a flat buffer by name, in their order, as copies.

    >>> from kit.exchange.layout import Spec, lay_out
    >>> layout = lay_out([Spec("w", (2,), "float32")], n_workers=1)
    >>> unflatten(layout, np.float32([1, 2]).tobytes())["w"].tolist()
    [1.0, 2.0]
    """
    whole = np.frombuffer(flat, np.uint8, layout.n_bytes)
    return {
        leaf.spec.name: whole[leaf.range.lo : leaf.range.hi]
        .view(leaf.spec.dtype)
        .reshape(leaf.spec.shape)
        .copy()
        for leaf in layout.leaves
    }
