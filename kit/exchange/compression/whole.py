"""Gradients as they are, whose mean every worker gets as a whole.

Pure. For optimizers that look at all of a parameter: the owner of a range cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.exchange.compression.compressor import (
    Arrays,
    Compressor,
    Exchange,
    Exchanged,
    Turn,
)
from kit.exchange.layout import Spec


@dataclass(frozen=True)
class Whole(Compressor):
    """Send gradients as they are; each worker updates all parameters."""

    def stages(self, specs: Sequence[Spec], n_workers: int) -> Sequence[Sequence[Spec]]:
        """See `Compressor`: one stage, the gradients."""
        return [list(specs)]

    def exchange(self, gradients: Arrays, state: Arrays, turn: Turn) -> Exchange:
        """See `Compressor`; nothing is kept, and nothing lost."""
        sums = yield dict(gradients)
        n = turn.n_workers
        return Exchanged(
            {name: total * total.dtype.type(1 / n) for name, total in sums.items()}
        )
