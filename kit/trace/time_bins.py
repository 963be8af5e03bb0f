"""Spread amounts that took some time over equal bins of time.

Pure. Arithmetic on arrays, used for bytes per second and for shares of a pixel. It does
not know what is being spread.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Bins(NamedTuple):
    """`n` bins of `width` nanoseconds each; the first one starts at `first`."""

    first: int
    width: int
    n: int

    def edges(self) -> npt.NDArray[np.int64]:
        """Return the start of each bin and the end of the last, in nanoseconds.

        >>> Bins(first=100, width=10, n=2).edges().tolist()
        [100, 110, 120]
        """
        return self.first + self.width * np.arange(self.n + 1, dtype=np.int64)


def spread(
    start: npt.NDArray[Any],
    end: npt.NDArray[Any],
    amount: npt.NDArray[Any],
    *,
    group: npt.NDArray[Any],
    n_groups: int,
    bins: Bins,
) -> Floats:
    """Return how much of each amount fell into each bin, summed per group.

    Each amount flows evenly from its `start` to its `end` (nanoseconds); one without a
    duration falls into the bin of its end. What is outside the bins is left out.
    The shape is (n_groups, bins.n). Cost: linear in rows plus bins.

    >>> import numpy as np
    >>> whole, half = np.array([0]), np.array([15])
    >>> spread(whole, half, np.array([30]), group=np.array([0]), n_groups=1,
    ...        bins=Bins(first=0, width=10, n=2)).tolist()
    [[20.0, 10.0]]
    """
    count = bins.n
    low, high, amount, rate = _inside(start, end, amount, bins)
    # A position on the very last edge belongs to the last bin.
    first = np.minimum(low.astype(np.int64), count - 1)
    last = np.minimum(high.astype(np.int64), count - 1)
    is_inside = first == last
    head = np.where(is_inside, amount, rate * (first + 1 - low))
    tail = np.where(is_inside, 0.0, rate * (high - last))
    row = group.astype(np.int64) * count
    size = n_groups * count
    part = np.bincount(row + first, head, size) + np.bincount(row + last, tail, size)
    # Bins that are crossed completely: the rate is added after the first bin and
    # subtracted at the last, and a running sum fills those in between. Only for these,
    # so that a high rate never has to cancel out, which would leave its rounding error
    # in later bins.
    far = last > first + 1
    jump = np.bincount((row + first)[far] + 1, rate[far], size)
    jump -= np.bincount((row + last)[far], rate[far], size)
    crossed = np.cumsum(jump.reshape(n_groups, count), axis=1)
    filled: Floats = np.maximum(part.reshape(n_groups, count) + crossed, 0.0)
    return filled


def _inside(
    start: npt.NDArray[Any], end: npt.NDArray[Any], amount: npt.NDArray[Any], bins: Bins
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return start, end, amount and amount per bin of the part inside of the bins.

    Positions are counted in bins from the first.
    """
    high = (end - bins.first) / bins.width
    low = np.minimum((start - bins.first) / bins.width, high)
    cut_low, cut_high = np.clip(low, 0, bins.n), np.clip(high, 0, bins.n)
    share = ((high >= 0) & (high <= bins.n)).astype(np.float64)
    np.divide(cut_high - cut_low, high - low, out=share, where=high > low)
    inside = amount * share
    rate = np.zeros_like(inside)
    np.divide(inside, cut_high - cut_low, out=rate, where=cut_high > cut_low)
    return cut_low, cut_high, inside, rate
