"""The flat buffers of one worker on its GPU."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from kit.arrays import Gpu
from kit.exchange.layout import Range
from kit.exchange.plan import SLOT, SPARE
from kit.exchange.ports.memory import Array, Memory


class GpuMemory(Memory):
    """Regions of the same form as those of a `host`'s memory, on a GPU.

    A region is made with its first use, as an allocation of its own that holds what the
    host has of it by then. Of the optimizer's slots only those ranges are made that are
    asked for: a worker updates its own share, and memory of a GPU is not taken as it is
    touched.

    The thread that uses it has entered the GPU. `raw` may be called by any.
    """

    def __init__(self, gpu: Gpu, host: Memory) -> None:
        """Make no region yet."""
        self.layout, self.gpu, self.host = host.layout, gpu, host
        self._parts: dict[tuple[int, Range], Any] = {}

    def flat(self, region: int, part: Range) -> Any:
        """See `Memory`: an array of the GPU."""
        is_slot = SLOT <= region < SPARE
        whole = part if is_slot else Range(0, self.layout.total_bytes)
        if (region, whole) not in self._parts:
            new = self.gpu.empty(whole.size)
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

    def bring(self, now: int, slots: Collection[int]) -> None:
        """Copy the parameters from the host, and what there is here of the slots."""
        self.flat(now, Range(0, 0))
        regions = (now, *slots)
        for region, part in self._parts:
            if region in regions:
                new = self.host.flat(region, part)
                self.gpu.fill(self._parts[region, part], new)

    def give_back(self, now: int, slots: Collection[int]) -> None:
        """Copy to the host the parameters, and what there is here of the slots."""
        regions = (now, *slots)
        for region, part in self._parts:
            if region in regions:
                self.gpu.read(self._parts[region, part], self.host.flat(region, part))

    def drop(self, regions: Collection[int]) -> None:
        """Forget some regions; the memory is free once nobody has an array of them."""
        for key in [key for key in self._parts if key[0] in regions]:
            del self._parts[key]
