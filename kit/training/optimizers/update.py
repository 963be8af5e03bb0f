"""From the sum of all gradients to new parameters: the mean, then the optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.exchange.ports.memory import Array
from kit.training.optimizers.rule import Optimizer, Rule


class MeanUpdate:
    """The `Update` of an exchange: an optimizer fed with the sum over `n` workers."""

    def __init__(self, optimizer: Optimizer, n: int) -> None:
        """Divide by `n`; asynchronous training, one gradient at a time, by 1."""
        self._optimizer, self._n = optimizer, n
        self._rule: Rule | None = None
        if isinstance(optimizer, Rule) and type(optimizer).apply is Rule.apply:
            self._rule = optimizer

    def descent(self, dtype: np.dtype[Any]) -> tuple[float, float] | None:
        """Return weight and rate, if this is gradient descent and nothing else."""
        rate = None if self._rule is None else self._rule.descent(dtype)
        return None if rate is None else (dtype.type(1 / self._n), rate)

    @property
    def spends(self) -> bool:
        """Whether the next parameters may be written over the sum itself."""
        # A rule that was derived from one may do otherwise: each has to say so itself.
        rule = self._rule
        return rule is not None and bool(vars(type(rule)).get("spends", False))

    def __call__(
        self, now: Array, total: Array, slots: Sequence[Array], out: Array, step: int
    ) -> None:
        """Write the next parameters to `out`; overwrites `total` with the mean.

        `out` may be `total` where the optimizer `spends` its gradient.
        """
        if self._n > 1:
            np.multiply(total, total.dtype.type(1 / self._n), out=total)
        if self._rule is None:
            self._optimizer.apply(now, total, slots, out, step)
            return
        # The exchange cut these arrays alike: what `apply` checks holds.
        self._rule.update(now, total, slots, out, self._rule.rate_at(now.dtype, step))
