"""The sum of some workers' gradients, in the order that is promised."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from kit.exchange.ports.memory import Array
from kit.training.backup_workers.policy import order_of


class Sums:
    """Adds up the gradients of some workers, piece by piece."""

    def __init__(
        self, n: int, pieces: Sequence[tuple[int, Array, Mapping[int, Array]]]
    ) -> None:
        """Each piece's chunk, where its sum goes, and what each of `n` gave."""
        self._n, self._pieces = n, pieces

    def add(self, ranks: Collection[int]) -> None:
        """Set each sum to that of the gradients of these workers."""
        for number, out, views in self._pieces:
            first, *rest = order_of(number, self._n, ranks)
            np.copyto(out, views[first])
            for rank in rest:
                np.add(out, views[rank], out)
