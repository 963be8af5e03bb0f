"""Half as many bytes: gradients travel as numbers of 16 bits.

Pure. As PyTorch's `fp16_compress_hook`: each worker divides its gradient by the number
of workers, rounds it to float16, and these are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kit.exchange.compression.compressor import (
    Arrays,
    Compressor,
    Exchange,
    Exchanged,
    Turn,
)
from kit.exchange.layout import Spec


@dataclass(frozen=True)
class Float16(Compressor):
    """Gradients as float16: 2 bytes an element, about three digits.

    What a worker's own rounding takes away is sent with the next step; what that of the
    sums does, is lost. A gradient beyond 65504 cannot be sent so, and ends the training
    with `NotFinite`.
    """

    name = "float16"

    def stages(self, specs: Sequence[Spec], n_workers: int) -> Sequence[Sequence[Spec]]:
        """See `Compressor`: one stage."""
        return [[spec._replace(dtype="float16") for spec in specs]]

    def exchange(self, gradients: Arrays, state: Arrays, turn: Turn) -> Exchange:
        """See `Compressor`."""
        n = turn.n_workers
        with np.errstate(over="ignore", under="ignore"):  # who calls looks for infinity
            halves = {
                name: (one * one.dtype.type(1 / n)).astype(np.float16)
                for name, one in gradients.items()
            }
        sums = yield halves
        dtypes = {name: one.dtype for name, one in gradients.items()}
        own = {
            name: half.astype(dtypes[name]) * dtypes[name].type(n)
            for name, half in halves.items()
        }
        mean = {name: one.astype(dtypes[name]) for name, one in sums.items()}
        return Exchanged(mean, own)
