"""What the workers of a topology must end with, by plain numpy.

Pure. Where all agree, each has the sum of all gradients, added chunk by chunk in the
order that the topology names; else the sum of its neighbourhood, in that order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.exchange.layout import Layout
from kit.exchange.plan import GRAD, NEXT, NOW, Group
from kit.exchange.ports.memory import Memory
from kit.exchange.topologies.topology import Order, Topology

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class WantedSums:
    """The sums of one topology, layout and group."""

    topology: Topology
    layout: Layout
    group: Group

    def after(
        self, start: Array, gradients: Sequence[Mapping[int, Array]]
    ) -> dict[int, Array]:
        """Return what each worker has after some steps, one number for each byte.

        Where all agree, `start` less the sums. Else each worker adds a gradient to
        what the step before has left, from zeros on.
        """
        workers = self.group.workers
        if self.topology.agrees:
            want = start.copy()
            for of_step in gradients:
                want -= self._total(of_step)
            return dict.fromkeys(workers, want)
        totals = dict.fromkeys(workers, np.zeros(self.layout.n_bytes))
        for of_step in gradients:
            own = {worker: totals[worker] + of_step[worker] for worker in workers}
            totals = {worker: self._around(worker, own) for worker in workers}
        return totals

    def step(self, filled: Mapping[int, Memory]) -> dict[int, Memory]:
        """Return what each worker has in NEXT after one step, of all workers' GRAD."""
        if self.topology.agrees:
            return dict.fromkeys(filled, self._stepped([*filled.values()]))
        made = {worker: Memory(self.layout) for worker in filled}
        for worker, memory in made.items():
            for part in self.layout.stretches:
                own = {other: item.typed(GRAD, part) for other, item in filled.items()}
                memory.typed(NEXT, part)[...] = self._around(worker, own)
        return made

    def _stepped(self, memories: Sequence[Memory]) -> Memory:
        made = Memory(self.layout)
        for bucket in self.layout.buckets:
            for number, chunk in enumerate(bucket.chunks):
                order = self.topology.order(len(memories), number)
                total = added([memory.typed(GRAD, chunk) for memory in memories], order)
                made.typed(NEXT, chunk)[...] = made.typed(NOW, chunk) - total
        return made

    def _total(self, gradients: Mapping[int, Array]) -> Array:
        """Return the sum in the order that the topology names."""
        total = np.zeros(self.layout.n_bytes)
        workers = self.group.workers
        for bucket in self.layout.buckets:
            for number, chunk in enumerate(bucket.chunks):
                bounds = slice(*chunk)
                order = self.topology.order(len(workers), number)
                shares = [gradients[worker][bounds] for worker in workers]
                total[bounds] = added(shares, order)
        return total

    def _around(self, worker: int, own: Mapping[int, Array]) -> Array:
        """Return the sum over a neighbourhood, from left to right."""
        first, *rest = self.topology.neighbourhood(self.group, worker)
        total = own[first]
        for other in rest:
            total = total + own[other]
        return total


def added(shares: Sequence[Array], order: Order, combine: np.ufunc = np.add) -> Array:
    """Return the sum of an order, inner brackets first."""
    parts = [
        shares[number] if isinstance(number, int) else added(shares, number, combine)
        for number in order
    ]
    total: Array = reduce(combine, parts)
    return total
