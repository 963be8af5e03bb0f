"""Gradients whose mean is made shorter where it is too long.

Pure. Each worker sees the sums of all gradients, so it knows the length of their mean
over all parameters together, which the owner of a range alone does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kit.errors import InvalidArgumentError
from kit.exchange.compression.compressor import (
    Arrays,
    Compressor,
    Exchange,
    Exchanged,
    Turn,
)
from kit.exchange.layout import Spec
from kit.handles import handle


@handle
@dataclass(frozen=True)
class ClipByNorm(Compressor):
    """Clip the mean gradient to a length, over all parameters together.

    Gradients travel as they are, and are clipped after they were added: workers that
    clipped their own would turn the mean into another direction.

    Parameters
    ----------
    norm : float
        The greatest length, above 0: a mean that is longer is scaled down to it.

    Raises
    ------
    InvalidArgumentError
        The length is not above 0.

    Notes
    -----
    After Pascanu et al., "On the difficulty of training recurrent neural networks",
    arXiv:1211.5063, 2012. Bytes are those of the gradients; each worker updates all
    parameters by itself.

    Examples
    --------
    >>> ClipByNorm(1.0)
    ClipByNorm(norm=1.0)
    """

    norm: float

    def __post_init__(self) -> None:
        """Check the length."""
        is_number = isinstance(self.norm, int | float) and self.norm is not True
        if not (is_number and 0 < self.norm < math.inf):
            raise InvalidArgumentError(
                f"ClipByNorm's norm is {self.norm!r}; give a length above 0, such as "
                f"1.0."
            )

    def stages(self, specs: Sequence[Spec], n_workers: int) -> Sequence[Sequence[Spec]]:
        """See `Compressor`: one stage, the gradients."""
        return [list(specs)]

    def exchange(self, gradients: Arrays, state: Arrays, turn: Turn) -> Exchange:
        """See `Compressor`; nothing is kept, and nothing lost."""
        sums = yield dict(gradients)
        n = turn.n_workers
        mean = {name: total * total.dtype.type(1 / n) for name, total in sums.items()}
        squares = (
            float(np.square(grad, dtype=np.float64).sum()) for grad in mean.values()
        )
        length = math.sqrt(math.fsum(squares))
        if length > self.norm:
            factor = self.norm / length
            mean = {name: grad * grad.dtype.type(factor) for name, grad in mean.items()}
        return Exchanged(mean)
