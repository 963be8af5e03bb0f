"""Cases of running sums, greatest elements and orders."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from kit.graph.convert import make
from kit.graph.ops.math import ranking, reduce
from tests.graph.cases.case import Case, Host, flat, numbers, sloped

A, CUBE, ROW = numbers(1, 3, 4), numbers(2, 2, 3, 4), numbers(3, 5)
INTS = np.array([[3, 1, 3, 2], [0, -5, 0, 0]], np.int32)
PLACES = np.array([[2, 0], [1, 3], [3, 2]], np.int32)
ORDER = np.array([2, 0, 3, 1], np.int64)
ODD = np.array([[0.1, 0.5, 0.5], [np.nan, 1.0, 0.0], [0.1, 0.2, 0.3], [3.0, 2.0, 1.0]])


def running(x: Host, axis: int, exclusive: bool = False, reverse: bool = False) -> Host:
    """The sums, each added up anew."""
    lines = np.moveaxis(x, axis, 0)
    result = np.zeros_like(lines)
    for i in range(len(lines)):
        others = lines[i + exclusive :] if reverse else lines[: i + 1 - exclusive]
        for other in others:
            result[i] += other
    return np.moveaxis(result, 0, axis)


def greatest(x: Host, k: int) -> tuple[Host, Host]:
    """Row by row, the greatest of those that are left."""
    places = np.zeros((*x.shape[:-1], k), np.int32)
    for row in np.ndindex(*x.shape[:-1]):
        ranked = sorted(range(x.shape[-1]), key=lambda i: (-x[row][i], i))
        places[row] = ranked[:k]
    return np.take_along_axis(x, places.astype(np.int64), -1), places


def put(values: Host, places: Host, like: Host) -> Host:
    result = np.zeros_like(like)
    for i, j in np.ndindex(*places.shape):
        result[i, places[i, j]] = values[i, j]
    return result


def taken(x: Host, places: Host) -> Host:
    return np.array([[x[i, j] for j in row] for i, row in enumerate(places)])


def multiplied(x: Host, *, exclusive: bool, reverse: bool) -> Host:
    result = np.ones_like(x)
    for i, j, k in np.ndindex(len(x), x.shape[1], x.shape[1]):
        before = k > j if reverse else k < j
        if before or (k == j and not exclusive):
            result[i, j] *= x[i, k]
    return result


def products(exclusive: bool, reverse: bool) -> Case:
    attrs: Any = {"exclusive": exclusive, "reverse": reverse}
    build = partial(make, "Cumprod", axis=1, **attrs)
    return sloped("Cumprod", build, partial(multiplied, **attrs), A)


CASES = [
    sloped("Cumsum", reduce.cumsum, lambda x: running(x, 0), A),
    sloped("Cumsum", np.cumsum, lambda x: running(x.ravel(), 0), A),
    flat(
        "Cumsum",
        partial(np.cumsum, axis=1),
        lambda x: np.array([[3, 4, 7, 9], [0, -5, -5, -5]], np.int64),
        INTS,
    ),
    flat(
        "Cumsum",
        partial(reduce.cumsum, axis=-1),
        lambda x: np.array([[3, 4, 7, 9], [0, -5, -5, -5]], np.int32),
        INTS,
    ),
    sloped(
        "Cumsum",
        partial(reduce.cumsum, axis=1, exclusive=True),
        partial(running, axis=1, exclusive=True),
        CUBE,
    ),
    sloped(
        "Cumsum",
        partial(reduce.cumsum, axis=-1, reverse=True),
        partial(running, axis=2, reverse=True),
        CUBE,
    ),
    sloped(
        "Cumsum",
        partial(reduce.cumsum, exclusive=True, reverse=True),
        partial(running, axis=0, exclusive=True, reverse=True),
        ROW,
    ),
    *map(products, (False, False, True, True), (False, True, False, True)),
    sloped(
        "TopKV2", lambda x: ranking.top_k(x, 2)[0], lambda x: greatest(x, 2)[0], CUBE
    ),
    flat("TopKV2", ranking.top_k, lambda x: greatest(x, 1), INTS),
    flat("TopKV2", partial(ranking.top_k, k=4), lambda x: greatest(x, 4), INTS),
    Case(
        "TopKV2",
        ranking.top_k,
        lambda x, k: greatest(x, 3),
        (ROW, np.int32(3)),
        has_slope=False,
        is_dynamic=True,
    ),
    sloped("PutAlong", partial(make, "PutAlong"), put, (numbers(5, 3, 2), PLACES, A)),
    sloped("TakeAlong", partial(make, "TakeAlong"), taken, (A, PLACES)),
    flat(
        "InvertPermutation",
        ranking.invert_permutation,
        lambda x: np.array([list(x).index(i) for i in range(len(x))]),
        ORDER,
    ),
    flat(
        "InTopKV2",
        partial(ranking.in_top_k, k=1),
        lambda x, y: np.array([True, False, False, False]),
        (ODD, np.array([2, 1, 0, 3], np.int32)),
    ),
    flat(
        "InTopKV2",
        partial(ranking.in_top_k, k=2),
        lambda x, y: np.array([False, False, True, True]),
        (ODD, np.array([0, 1, 1, 1], np.int64)),
    ),
]
