"""Where a step may write its gradients: straight into the memory that neighbours read.

A step function with a parameter called `grads` gets these places and returns the loss
alone. That saves the copy of every gradient, which is most of what a training adds to
the computation of a large model on one host.

    def step(params, batch, grads):
        ...
        np.matmul(x.T, delta, out=grads["w"])
        return loss
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Self

import numpy as np

from kit.arrays import copy_into
from kit.exchange.layout import Range
from kit.exchange.plan import GRAD
from kit.exchange.ports.memory import Array, Memory
from kit.training.worker.native import marker

# A NaN with a special bit pattern: arithmetic gives other NaNs, so a value that still
# has it was not written.
_MARK = {"float32": 0x7FC0_6B69, "float64": 0x7FF8_0000_0000_6B69}
_BITS = {"float32": "uint32", "float64": "uint64"}


class GradientViews(dict[str, Array]):
    """Writable arrays by parameter name; assigning one copies the values into it.

    No name comes or goes, so that one object serves all steps of a training.
    """

    def __setitem__(self, name: str, gradient: Any) -> None:
        """Copy a gradient in; `GradientMismatch` if name, shape or dtype differ."""
        if name not in self:
            known = ", ".join(map(repr, self))
            raise KeyError(f"no parameter is called {name!r}; there are {known}.")
        # An augmented assignment (grads["w"] += ...) assigns the array to itself.
        if gradient is not self[name]:
            copy_into(self[name], gradient, what=f"the gradient of {name!r}")

    def _keep(self, *_: Any) -> NoReturn:
        """Refuse: a place stays where it is."""
        raise TypeError("grads keeps its arrays; write into them.")

    __delitem__ = _keep
    clear = pop = popitem = setdefault = _keep

    def update(self, *others: Any, **named: Any) -> None:
        """Assign many."""
        for name, gradient in dict(*others, **named).items():
            self[name] = gradient

    def __ior__(self, other: Any) -> Self:  # type: ignore[override, misc]
        """Assign many: `grads |= gradients`."""
        self.update(other)
        return self


class Marks:
    """Marks the first value of each gradient, to find those that a step left out."""

    def __init__(
        self, memory: Memory, region: int = GRAD, *, native: bool = True
    ) -> None:
        self._markers: list[Callable[[], None]] = []
        self._first: dict[str, tuple[Array, int]] = {}
        whole = Range(0, memory.layout.n_bytes)
        for dtype, bits in _BITS.items():
            found = [
                leaf
                for leaf in memory.layout.leaves
                if leaf.spec.dtype == dtype and leaf.range.size
            ]
            flat = memory.bits(region, whole, bits)
            where = np.array([leaf.lo // flat.itemsize for leaf in found], np.intp)
            self._markers.append(marker(flat, where, _MARK[dtype], native=native))
            for leaf, place in zip(found, where.tolist(), strict=True):
                self._first[leaf.spec.name] = flat[place : place + 1], _MARK[dtype]

    def set(self) -> None:
        """Mark all."""
        for mark in self._markers:
            mark()

    def is_on(self, name: str) -> bool:
        """Whether a gradient still begins with the mark."""
        first, mark = self._first.get(name, (None, 0))
        return first is not None and int(first[0]) == mark
