"""Gradients as smaller numbers: float16 and int8, the compressors that have a name.

Pure. `float16` sends half of the bytes. As PyTorch's `fp16_compress_hook`: each worker
divides its gradient by the number of workers, rounds it to float16, and these are
added.

`int8` sends a quarter. The workers first add up their largest magnitudes, which gives
all of them the same scale; then they add up whole numbers, exactly, in 8 bits. As in
IntSGD (Mishchenko et al., "IntSGD: Adaptive floatless compression of stochastic
gradients", ICLR 2022), where the scale comes from past steps. QSGD (Alistarh et al.,
NeurIPS 2017) has one for each worker, so its gradients cannot be added up as they are.

    stage 0   M = the sum of all workers' max |g|          one number a parameter
    stage 1   s = M / (126 - n/2);  the sum of all round(g / s)

A worker gives at most max |g| / s + 1/2, so all together at most 126: no sum of any of
them leaves the 8 bits. Magnitudes so small that s would be rounded badly count as zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

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
from kit.exchange.ports.memory import Array

_MOST = 126  # of 127: leaves room for the rounding of the scale
_MOST_WORKERS = 100


@dataclass(frozen=True)
class Float16(Compressor):
    """Gradients as float16: 2 bytes per element, about three digits.

    What a worker's own rounding takes away is sent with the next step; what rounding
    the sums takes away is lost. A gradient beyond 65504 cannot be sent this way, and
    ends the training with `NotFinite`.
    """

    name = "float16"

    def stages(self, specs: Sequence[Spec], n_workers: int) -> Sequence[Sequence[Spec]]:
        """See `Compressor`: one stage."""
        return [[spec._replace(dtype="float16") for spec in specs]]

    def exchange(self, gradients: Arrays, state: Arrays, turn: Turn) -> Exchange:
        """See `Compressor`."""
        n = turn.n_workers
        # Without warnings: an infinity is found, and reported with its worker and step,
        # by the caller (`Feedback`).
        with np.errstate(over="ignore", under="ignore"):
            halves = {
                name: (gradient * gradient.dtype.type(1 / n)).astype(np.float16)
                for name, gradient in gradients.items()
            }
        sums = yield halves
        dtypes = {name: gradient.dtype for name, gradient in gradients.items()}
        own = {
            name: half.astype(dtypes[name]) * dtypes[name].type(n)
            for name, half in halves.items()
        }
        mean = {name: total.astype(dtypes[name]) for name, total in sums.items()}
        return Exchanged(mean, own)


@dataclass(frozen=True)
class Int8(Compressor):
    """Gradients as int8 with one scale per parameter: one byte per element.

    All workers share the range of -127 to 127, so the more there are, the coarser are
    each worker's own steps: with n workers about max |g| n / 126. At most 100 workers.
    """

    name = "int8"

    def stages(self, specs: Sequence[Spec], n_workers: int) -> Sequence[Sequence[Spec]]:
        """See `Compressor`: two stages."""
        if n_workers > _MOST_WORKERS:
            raise InvalidArgumentError(
                f"compress={self} adds up the shares of all workers in 8 bits, which "
                f"is too coarse for {n_workers} of them; use at most {_MOST_WORKERS}, "
                f"or compress='float16'."
            )
        return [
            [spec._replace(shape=()) for spec in specs],
            [spec._replace(dtype="int8") for spec in specs],
        ]

    def exchange(self, gradients: Arrays, state: Arrays, turn: Turn) -> Exchange:
        """See `Compressor`."""
        n = turn.n_workers
        sums = yield {
            name: np.max(np.abs(gradient), initial=0).astype(gradient.dtype)
            for name, gradient in gradients.items()
        }
        scales = {name: _scale(total, n) for name, total in sums.items()}
        numbers = {
            name: _rounded(grad, scales[name]) for name, grad in gradients.items()
        }
        sums = yield numbers
        mean = {name: total * (scales[name] / n) for name, total in sums.items()}
        own = {name: array * scales[name] for name, array in numbers.items()}
        return Exchanged(mean, own)


def _scale(total: Array, n: int) -> Any:
    """Return what 1 stands for; 0 if all is next to nothing."""
    dtype = total.dtype.type
    is_small = total < np.finfo(dtype).tiny * 2**20
    return dtype(0 if is_small else total / dtype(_MOST - n / 2))


def _rounded(values: Array, scale: Any) -> Array:
    if not scale:
        return np.zeros(values.shape, np.int8)
    rounded: Array = np.rint(values / scale).astype(np.int8)
    return rounded


_NAMED: dict[str, type[Compressor]] = {kind.name: kind for kind in (Float16, Int8)}


def compressor_of(name: Compressor | str | None) -> Compressor | None:
    """Return what `compress=` means; None if gradients travel as they are.

    >>> compressor_of("float16")
    Float16()
    """
    if name is None or isinstance(name, Compressor):
        return name
    if isinstance(name, str) and name in _NAMED:
        return _NAMED[name]()
    if isinstance(name, type) and issubclass(name, Compressor):
        raise InvalidArgumentError(
            f"compress is the class {name.__name__}; give an object of it, such as "
            f"{name.__name__}(...)."
        )
    near = get_close_matches(str(name), _NAMED, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InvalidArgumentError(
        f"compress is {name!r}; give {', '.join(map(repr, _NAMED))}, kit.TopK(0.01), "
        f"kit.PowerSGD(4), or another object of a class derived from "
        f"kit.exchange.Compressor, such as kit.Median().{hint}"
    )
