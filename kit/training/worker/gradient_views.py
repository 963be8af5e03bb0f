"""Where a step may write its gradients: straight into the memory that neighbours read.

A step function with a parameter called `grads` gets these places and returns the loss
alone. That saves the copy of every gradient, which is most of what a training adds to
the computation of a large model on one host.

    def step(params, batch, grads):
        ...
        np.matmul(x.T, delta, out=grads["w"])
        return loss

They are zero when a step begins: rows of an embedding that it does not write stay zero.
"""

from __future__ import annotations

from typing import Any, NoReturn, Self

import numpy as np

from kit.arrays import copy_into, module_of
from kit.exchange.layout import Leaf, Range
from kit.exchange.plan import GRAD
from kit.exchange.ports.memory import Array, Memory

# A number so small that it is lost in any gradient added to it, and whose bits no
# computation gives by chance: a first value that still has them was not written.
_MARK = 0x6B69
_BITS = {"float32": "uint32", "float64": "uint64"}


class GradientViews(dict[str, Array]):
    """Writable arrays by parameter name; assigning one copies the values into it.

    No name comes or goes, so that one object serves all steps of a training.
    """

    def __setitem__(self, name: str, gradient: Any) -> None:
        """Copy a gradient in; `GradientMismatch` if name, shape or dtype differ."""
        if name not in self:
            names = ", ".join(map(repr, self))
            raise KeyError(f"no parameter is called {name!r}; there are {names}.")
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
    """Zeros all gradients and marks the first value of each before a step writes them.

    So what a step leaves out is zero, not what an earlier step or a neighbour has left
    there, and a gradient into which nothing was written is known.
    """

    def __init__(self, memory: Memory, region: int = GRAD) -> None:
        self._wholes = [
            memory.typed(region, whole) for whole in memory.layout.stretches
        ]
        self._kinds: list[tuple[Array, Array, list[Leaf]]] = []
        self._leaves: dict[str, tuple[Array, Leaf]] = {}
        whole = Range(0, memory.layout.n_bytes)
        for dtype, bits in _BITS.items():
            leaves = [
                leaf
                for leaf in memory.layout.leaves
                if leaf.spec.dtype == dtype and leaf.range.size
            ]
            flat = memory.bits(region, whole, bits)
            starts = [leaf.lo // flat.itemsize for leaf in leaves]
            where = module_of(flat).asarray(starts, np.intp)
            self._kinds.append((flat, where, leaves))
            self._leaves |= {leaf.spec.name: (flat, leaf) for leaf in leaves}

    def set(self) -> None:
        """Zero and mark all."""
        for whole in self._wholes:
            whole.fill(0)
        for flat, where, _ in self._kinds:
            flat[where] = _MARK

    def unset(self) -> list[str]:
        """Take all marks off; return the gradients into which nothing was written."""
        marked = [
            leaves[number].spec.name
            for flat, where, leaves in self._kinds
            for number in np.flatnonzero(flat[where] == _MARK).tolist()
        ]
        return [name for name in marked if not self.was_written(name)]

    def was_written(self, name: str) -> bool:
        """Take the mark off one gradient; whether anything was written into it."""
        if name not in self._leaves:
            return True  # it has no elements
        flat, leaf = self._leaves[name]
        values = flat[leaf.lo // flat.itemsize : leaf.range.hi // flat.itemsize]
        if values[0] != _MARK:
            return True
        values[0] = 0
        return bool(values.any())
