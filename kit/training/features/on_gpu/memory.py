"""The flat buffers of one worker on its GPU."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from kit.arrays import Gpu
from kit.exchange.layout import Range, merge
from kit.exchange.plan import SLOT, SPARE
from kit.exchange.ports.memory import Array, Memory, region_bytes

# CUDA shows another process memory in multiples of this: smaller allocations may share
# one with what is no business of that process.
_EXPORTED = 1 << 21
_NOBODY: Mapping[int, Sequence[Any]] = MappingProxyType({})


class GpuMemory(Memory):
    """Regions of the same form as those of a `host`'s memory, on a GPU.

    A region is made with its first use, as an allocation of its own that holds what the
    host has of it by then. Of the optimizer's slots only those ranges are made that the
    worker updates, since memory of a GPU is not taken as it is touched.

    The thread that uses it has entered the GPU. `raw` may be called by any.

    Attributes:
        opened: the regions of neighbours whose memory is read in place.
    """

    def __init__(self, gpu: Gpu, host: Memory) -> None:
        """Make no region yet."""
        self.layout, self.gpu, self.host = host.layout, gpu, host
        self.opened = _NOBODY
        self._parts: dict[tuple[int, Range], Any] = {}
        self._own: tuple[Range, ...] = ()
        self._pinned: dict[int, tuple[Array, Callable[[], None]]] = {}

    @property
    def whole(self) -> Range:
        """The bytes of a region."""
        return Range(0, self.layout.total_bytes)

    def flat(self, region: int, part: Range) -> Any:
        """See `Memory`: an array of the GPU."""
        whole, step = self.whole, _EXPORTED
        if SLOT <= region < SPARE:
            whole = next(r for r in self._own if r.lo <= part.lo and part.hi <= r.hi)
            step = 1
        if (region, whole) not in self._parts:
            new = self.gpu.empty(-(-whole.size // step) * step)[: whole.size]
            self.gpu.fill(new, self.host.flat(region, whole))
            self._parts[region, whole] = new
        lo = whole.lo
        return self._parts[region, whole][part.lo - lo : part.hi - lo]

    def raw(self, region: int, part: Range) -> memoryview:
        """Return a copy of the bytes of a range of a physical region."""
        copy: Array = np.empty(part.size, np.uint8)
        with self.gpu.entered():
            self.gpu.read(self.flat(region, part), copy)
        return copy.data

    def another(self) -> GpuMemory:
        """See `Memory`."""
        return GpuMemory(self.gpu, self.host.another())

    def own(self, ranges: Iterable[Range]) -> None:
        """Take note of the ranges that the worker updates in this epoch."""
        self._own = merge(part for part in ranges if part.size)

    def bring(self, now: int, slots: Collection[int]) -> None:
        """Copy the parameters from the host, and what there is here of the slots."""
        self.flat(now, self.whole)
        for region, part in [*self._parts]:  # another thread may read meanwhile
            if region == now or region in slots:
                new = self.host.flat(region, part)
                self.gpu.fill(self._parts[region, part], new)

    def give_back(self, now: int, slots: Collection[int]) -> None:
        """Copy to the host the parameters, and what there is here of the slots."""
        for region, part in [*self._parts]:  # another thread may read meanwhile
            if region == now or region in slots:
                self.gpu.read(self._parts[region, part], self.host.flat(region, part))

    def pin(self, window: Callable[[Range], Array]) -> None:
        """Pin a region of the host, from which or to which ranges are copied.

        `window` gives its bytes; a region is pinned once.
        """
        pages = window(Range(0, region_bytes(self.layout)))
        if (at := pages.ctypes.data) not in self._pinned:
            self._pinned[at] = pages, self.gpu.pin(pages)

    def close(self) -> None:
        """Close the memory of neighbours."""
        for arrays in self.opened.values():
            self.gpu.close(arrays)
        self.opened = _NOBODY

    def leave(self, *, everything: bool) -> None:
        """Forget neighbours and pinned regions, and the regions here: `everything`.

        Their memory is free once nobody has an array of them.
        """
        self.close()
        if everything:
            self._parts.clear()
        for _, undo in self._pinned.values():
            undo()
        self._pinned.clear()
        self.gpu.free()
