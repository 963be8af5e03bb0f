"""Matrices of low rank: a gradient travels as the product of two narrow ones.

Pure. Vogels et al., "PowerSGD: Practical low-rank gradient compression for distributed
optimization", NeurIPS 2019, algorithm 1: one step of power iteration for each step of
the training, which begins with what the last one has found (warm start).

    stage 0   P = M Q, summed; then made orthonormal          M: n x m, a gradient
    stage 1   Q = M' P, summed; the mean gradient is P Q' / n

A parameter of more than two axes is a matrix of its first one and the rest. One of
fewer than two, or too small for this to save anything, travels whole, in stage 0.

Each worker computes the products by itself, so BLAS must use the same kernel on all
processors; a cluster's survey compares that. If it does not, parameters come to differ,
and the comparison of their digests ends the training.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kit.crc import crc32
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
from kit.handles import handle


@handle
@dataclass(frozen=True)
class PowerSGD(Compressor):
    """Matrices of low rank in place of gradients.

    Parameters
    ----------
    rank : int
        Columns of the two factors. A matrix of n x m elements travels as rank (n + m).

    Examples
    --------
    >>> import kit
    >>> kit.PowerSGD(4)
    PowerSGD(rank=4)
    """

    rank: int

    def __post_init__(self) -> None:
        """Check the rank."""
        if type(self.rank) is not int or self.rank < 1:
            raise InvalidArgumentError(
                f"PowerSGD's rank is {self.rank!r}; give a whole number from 1 on, "
                f"such as 4."
            )

    def stages(self, specs: Sequence[Spec], n_workers: int) -> Sequence[Sequence[Spec]]:
        """See `Compressor`: two stages, one if all parameters travel whole."""
        matrices = {spec.name: self._matrix(spec.shape) for spec in specs}
        left, right = [], []
        for spec in specs:
            matrix = matrices[spec.name]
            if matrix is None:
                left.append(spec)
            else:
                left.append(spec._replace(shape=(matrix[0], self.rank)))
                right.append(spec._replace(shape=(matrix[1], self.rank)))
        return [left, right] if right else [left]

    def exchange(self, gradients: Arrays, state: Arrays, turn: Turn) -> Exchange:
        """See `Compressor`; keeps the last Q of each matrix."""
        n, matrices = turn.n_workers, dict[str, Array]()
        for name, gradient in gradients.items():
            shape = self._matrix(gradient.shape)
            if shape is not None:
                matrices[name] = gradient.reshape(shape)
                fresh = _start(name, shape[1], self.rank).astype(gradient.dtype)
                state[name] = _revived(state.get(name, fresh), fresh)
        own = dict(gradients)
        own |= {name: matrix @ state[name] for name, matrix in matrices.items()}
        sums = yield own
        mean = {name: total * total.dtype.type(1 / n) for name, total in sums.items()}
        left = {name: orthonormal(mean[name]) for name in matrices}
        if matrices:
            right = {name: matrix.T @ left[name] for name, matrix in matrices.items()}
            sums = yield right
            for name, basis in left.items():
                state[name] = sums[name] * sums[name].dtype.type(1 / n)
                shape = gradients[name].shape
                mean[name] = (basis @ state[name].T).reshape(shape)
                own[name] = (basis @ right[name].T).reshape(shape)
        return Exchanged(mean, own)

    def _matrix(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        """Return the form of a parameter as a matrix; None if it travels whole."""
        if len(shape) < 2:
            return None
        n, m = shape[0], math.prod(shape[1:])
        return (n, m) if self.rank * (n + m) < n * m else None


def orthonormal(matrix: Array) -> Array:
    """Return columns of length 1 that are orthogonal (modified Gram-Schmidt).

    A column that depends on those before it becomes zero.

    >>> orthonormal(np.float32([[3, 3], [4, 4]])).tolist()
    [[0.6000000238418579, 0.0], [0.800000011920929, 0.0]]
    """
    columns = matrix.copy()
    least = np.finfo(matrix.dtype).eps * 8
    for number, column in enumerate(columns.T):
        size = _length(column)
        # Twice: what rounding leaves of the other columns may be large beside what is
        # left of a column that nearly depends on them.
        for other in [*columns.T[:number]] * 2:
            column -= other * (other * column).sum()
        length = _length(column)
        column[:] = column / length if length > least * size else 0
    return columns


def _length(values: Array) -> Any:
    most = np.max(np.abs(values), initial=0)  # scaled by it, no square overflows
    return most * np.sqrt(((values / most) ** 2).sum()) if most else most


def _start(name: str, length: int, rank: int) -> Array:
    """Return the first Q of a parameter: the same at every worker."""
    bits = np.random.Philox(key=[crc32(name.encode()), rank])
    return np.random.Generator(bits).random((length, rank)) - 0.5


def _revived(kept: Array, fresh: Array) -> Array:
    """Return Q with new columns for those that are zero, and would stay so."""
    return np.where(kept.any(axis=0), kept, fresh)
