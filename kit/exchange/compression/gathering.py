"""The gradients of all workers side by side: medians, votes, reductions of your own.

Pure. A worker sends an array with a row for each worker, of which all but its own are
zero. The sum of these, in which nothing is rounded, has everybody's gradients: so
topologies gather by what they can do, and the bytes are those of their formulas.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from kit.handles import handle


class Gathered(Compressor):
    """Give every worker the gradients of all; derive from it and write `reduce`.

    A step costs the bytes of as many gradients as there are workers, and each worker
    needs memory for them. Nothing is fed back into later steps.

    Examples
    --------
    Each element with the largest magnitude of all workers:

    >>> import numpy as np
    >>> class Boldest(Gathered):
    ...     def reduce(self, gradients):
    ...         at = {name: np.abs(g).argmax(0)[None] for name, g in gradients.items()}
    ...         return {
    ...             name: np.take_along_axis(g, at[name], 0)[0]
    ...             for name, g in gradients.items()
    ...         }
    >>> from kit.testing import check_compressor
    >>> check_compressor(Boldest())
    """

    def check(self, n_workers: int) -> None:
        """Raise `InvalidArgumentError` if it needs another number of workers."""

    @abstractmethod
    def reduce(self, gradients: Arrays) -> Mapping[str, Array]:
        """Return what the optimizer takes for the mean gradient.

        Parameters
        ----------
        gradients : dict of str to array
            Of all workers: the first axis is their order. Read-only.

        Returns
        -------
        mapping of str to array
            Without the first axis, in the same dtypes. It may depend on nothing else:
            each worker computes it by itself.
        """

    def stages(self, specs: Sequence[Spec], n_workers: int) -> Sequence[Sequence[Spec]]:
        """See `Compressor`: one stage, with a row for each worker."""
        self.check(n_workers)
        return [[spec._replace(shape=(n_workers, *spec.shape)) for spec in specs]]

    def exchange(self, gradients: Arrays, state: Arrays, turn: Turn) -> Exchange:
        """See `Compressor`."""
        rows = {
            name: np.zeros((turn.n_workers, *gradient.shape), gradient.dtype)
            for name, gradient in gradients.items()
        }
        for name, gradient in gradients.items():
            rows[name][turn.worker] = gradient
        sums = yield rows
        return Exchanged(self.reduce(sums))


@handle
@dataclass(frozen=True)
class Median(Gathered):
    """Take the median of all workers' gradients, element by element.

    Up to half of the workers may send anything, and each element stays within what the
    others sent. With an even number it is the mean of the two in the middle.

    Notes
    -----
    After Yin et al., "Byzantine-robust distributed learning", arXiv:1803.01498, 2018.
    Bytes are those of as many gradients as there are workers.

    Examples
    --------
    >>> import numpy as np
    >>> Median().reduce({"w": np.array([[1.0, 2.0], [1.5, 9.0], [-900.0, 3.0]])})
    {'w': array([1., 3.])}
    """

    def reduce(self, gradients: Arrays) -> Mapping[str, Array]:
        """See `Gathered`."""
        medians = {}
        for name, rows in gradients.items():
            ordered = np.sort(rows, axis=0)  # NaN is last, and so no more than large
            high = ordered[len(rows) // 2]
            low = ordered[(len(rows) - 1) // 2]
            medians[name] = high if len(rows) % 2 else low / 2 + high / 2
        return medians


@handle
@dataclass(frozen=True)
class TrimmedMean(Gathered):
    """Take the mean without the largest and the smallest, element by element.

    Parameters
    ----------
    cut : int
        How many are left out at each end, of each element; less than half of the
        workers.

    Raises
    ------
    InvalidArgumentError
        It is below 0. `kit.train` raises it if nobody would be left.

    Notes
    -----
    After Yin et al., "Byzantine-robust distributed learning", arXiv:1803.01498, 2018.
    Bytes are those of as many gradients as there are workers.

    Examples
    --------
    >>> import numpy as np
    >>> TrimmedMean(1).reduce({"w": np.array([[1.0], [3.0], [2.0], [-900.0]])})
    {'w': array([1.5])}
    """

    cut: int

    def __post_init__(self) -> None:
        _check_count("TrimmedMean's cut", self.cut)

    def check(self, n_workers: int) -> None:
        """See `Gathered`."""
        if 2 * self.cut >= n_workers:
            raise InvalidArgumentError(
                f"compress={self} leaves out {2 * self.cut} of {n_workers} gradients; "
                f"use at least {2 * self.cut + 1} workers, or a smaller cut."
            )

    def reduce(self, gradients: Arrays) -> Mapping[str, Array]:
        """See `Gathered`."""
        return {
            name: np.sort(rows, axis=0)[self.cut : len(rows) - self.cut].mean(0)
            for name, rows in gradients.items()
        }


@handle
@dataclass(frozen=True)
class Krum(Gathered):
    """Take the one gradient that is nearest to its neighbours, over all parameters.

    Parameters
    ----------
    faulty : int
        How many workers may send anything, f. Of each gradient the squared distances to
        the n - f - 2 nearest others are added up; the smallest sum wins.

    Raises
    ------
    InvalidArgumentError
        It is below 0. `kit.train` raises it with fewer than 2 f + 3 workers.

    Notes
    -----
    After Blanchard et al., "Machine learning with adversaries: Byzantine tolerant
    gradient descent", NeurIPS 2017, arXiv:1703.02757. Bytes are those of as many
    gradients as there are workers.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[1.0], [1.1], [1.3], [7.0], [1.2]])
    >>> Krum(1).reduce({"w": rows})
    {'w': array([1.1])}
    """

    faulty: int

    def __post_init__(self) -> None:
        _check_count("Krum's faulty", self.faulty)

    def check(self, n_workers: int) -> None:
        """See `Gathered`."""
        if n_workers < 2 * self.faulty + 3:
            raise InvalidArgumentError(
                f"compress={self} needs at least {2 * self.faulty + 3} workers, and "
                f"there are {n_workers}; use more, or kit.Median()."
            )

    def reduce(self, gradients: Arrays) -> Mapping[str, Array]:
        """See `Gathered`."""
        n = len(next(iter(gradients.values())))
        distance = np.zeros((n, n))
        with np.errstate(invalid="ignore", over="ignore"):
            for rows in gradients.values():
                flat = rows.reshape(n, -1).astype(np.float64)
                for worker in range(n):
                    distance[worker] += np.square(flat - flat[worker]).sum(1)
        distance[np.isnan(distance)] = np.inf  # as far as can be from all
        # The first in each row is that to itself, 0.
        near = np.sort(distance, axis=1)[:, 1 : n - self.faulty - 1].sum(1)
        best = int(near.argmin())
        return {name: rows[best] for name, rows in gradients.items()}


@handle
@dataclass(frozen=True)
class MajorityVote(Compressor):
    """Let the workers vote on the sign of each element: 1, -1, or 0 for a draw.

    With `kit.GradientDescent` every parameter moves by the learning rate, in the
    direction that most workers want. One byte an element travels; at most 127 workers.

    Notes
    -----
    signSGD with majority vote, Bernstein et al., arXiv:1810.05291, 2018. What a vote
    loses of a gradient is not fed back.

    Examples
    --------
    >>> MajorityVote()
    MajorityVote()
    """

    def stages(self, specs: Sequence[Spec], n_workers: int) -> Sequence[Sequence[Spec]]:
        """See `Compressor`: one stage, the signs."""
        if n_workers > 127:
            raise InvalidArgumentError(
                f"compress={self} adds up votes in 8 bits, which hold those of 127 "
                f"workers, and there are {n_workers}; use fewer."
            )
        return [[spec._replace(dtype="int8") for spec in specs]]

    def exchange(self, gradients: Arrays, state: Arrays, turn: Turn) -> Exchange:
        """See `Compressor`."""
        # NaN has no sign, and is no vote.
        sums = yield {
            name: (g > 0).astype("i1") - (g < 0).astype("i1")
            for name, g in gradients.items()
        }
        return Exchanged(
            {name: np.sign(sums[name]).astype(g.dtype) for name, g in gradients.items()}
        )


def _check_count(what: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidArgumentError(f"{what} is {value!r}; give a whole number from 0.")
