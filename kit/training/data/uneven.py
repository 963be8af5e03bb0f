"""Examples that are not spread evenly: each worker has a part of its own.

For experiments with data that are not identically distributed, as in federated
learning. Otherwise every worker reads rows of the same random mini-batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.arrays import to_numpy
from kit.errors import InvalidArgumentError
from kit.training.data.dask_source import Batch
from kit.training.data.sources import ArraySource
from kit.training.data.splits import check_seed, shuffled, split_bounds

Rows = npt.NDArray[np.intp]
Cut = Callable[[npt.NDArray[Any], int], list[Rows]]  # by labels and number of workers


class UnevenData:
    """Arrays of which each worker reads rows of its own; see `by_label`."""

    def __init__(self, arrays: Any, labels: Any, cut: Cut) -> None:
        parts = arrays if isinstance(arrays, tuple | list) else (arrays,)
        self._arrays = tuple(map(to_numpy, parts))
        self._labels = self._arrays[-1] if labels is None else to_numpy(labels)
        lengths = {len(array) for array in (*self._arrays, self._labels)}
        if self._labels.ndim != 1 or len(lengths) != 1:
            raise InvalidArgumentError(
                f"the labels have the shape {self._labels.shape}, and the arrays have "
                f"{sorted(lengths)} rows; give labels=, one for each row."
            )
        self._cut = cut

    def rows(self, n_workers: int) -> list[Rows]:
        """Return the numbers of each worker's rows."""
        return self._cut(self._labels, n_workers)

    def source(self, batch: int, seed: int, worker: int, n_workers: int) -> OwnRows:
        """Return one worker's source; see `kit.data.Divided`."""
        lo, hi = split_bounds(batch, n_workers, worker)
        rows = self.rows(n_workers)[worker]
        if len(rows) < hi - lo:
            raise InvalidArgumentError(
                f"worker {worker} of {n_workers} has {len(rows)} examples, and "
                f"{hi - lo} in each mini-batch of {batch}; give a smaller batch, more "
                f"examples, or a split that is less uneven."
            )
        mine = [array[rows] for array in self._arrays]
        own_seed = (seed + worker) % 2**64
        return OwnRows(ArraySource(mine, hi - lo, own_seed, 0, 1))


class OwnRows:
    """A source of rows that no other worker has, so there is nothing to compare."""

    def __init__(self, source: ArraySource) -> None:
        self._source = source

    def batch(self, step: int) -> Batch:
        """See `Source`."""
        return self._source.batch(step)

    def examples(self, step: int) -> int:
        """See `Source`."""
        return self._source.examples(step)


def by_label(data: Any, labels: Any = None) -> UnevenData:
    """Spread examples over the workers by label: each has few labels, or a single one.

    Sorted by label and cut into as many equal parts as there are workers. Each worker
    goes through its part in random orders, drawn from the training's seed.

    Parameters
    ----------
    data : array or tuple of arrays
        As for `kit.train`.
    labels : array, optional
        One for each example; by default the last array of the data.

    Returns
    -------
    UnevenData
        Give it to `kit.train` as `data`. `rows(n_workers)` says who reads what.

    Raises
    ------
    InvalidArgumentError
        There is not one label for each example.

    Examples
    --------
    >>> x, y = np.arange(6), np.array([1, 0, 1, 0, 2, 2])
    >>> by_label((x, y)).rows(n_workers=3)
    [array([1, 3]), array([0, 2]), array([4, 5])]
    """

    def cut(labels: npt.NDArray[Any], n_workers: int) -> list[Rows]:
        return np.array_split(np.argsort(labels, kind="stable"), n_workers)

    return UnevenData(data, labels, cut)


def dirichlet(
    data: Any, alpha: float, labels: Any = None, *, seed: int = 0
) -> UnevenData:
    """Spread the examples of each label over the workers in random proportions.

    The proportions are drawn from a symmetric Dirichlet distribution, as in Hsu et al.,
    "Measuring the effects of non-identical data distribution for federated visual
    classification", arXiv:1909.06335, 2019. Workers may get unequally many examples;
    each still has an equal share of every mini-batch, and begins anew when it has read
    all of its own.

    Parameters
    ----------
    data : array or tuple of arrays
        As for `kit.train`.
    alpha : float
        Above 0; large is even, 0.1 gives most of a label to one worker.
    labels : array, optional
        One for each example; by default the last array of the data.
    seed : int, default 0
        Decides the proportions, and who gets which examples.

    Returns
    -------
    UnevenData
        Give it to `kit.train` as `data`. `rows(n_workers)` says who reads what.

    Raises
    ------
    InvalidArgumentError
        `alpha` is not above 0, or there is not one label for each example.

    Examples
    --------
    >>> x, y = np.arange(600), np.repeat([0, 1, 2], 200)
    >>> [len(rows) for rows in dirichlet((x, y), alpha=1000.0).rows(2)]
    [296, 304]
    """
    if not (isinstance(alpha, int | float) and 0 < alpha < float("inf")):
        raise InvalidArgumentError(
            f"alpha is {alpha!r}; give a number above 0, such as 0.5."
        )
    check_seed(seed)

    def cut(labels: npt.NDArray[Any], n_workers: int) -> list[Rows]:
        parts_of: list[list[Rows]] = [[] for _ in range(n_workers)]
        dice = np.random.default_rng(seed)
        for number, label in enumerate(np.unique(labels)):
            rows = np.flatnonzero(labels == label)
            rows = rows[shuffled(len(rows), seed, number)]
            shares = dice.dirichlet([alpha] * n_workers)
            ends = np.round(np.cumsum(shares[:-1]) * len(rows)).astype(int)
            for mine, part in zip(parts_of, np.split(rows, ends), strict=True):
                mine.append(part)
        return [np.sort(np.concatenate(parts)) for parts in parts_of]

    return UnevenData(data, labels, cut)
