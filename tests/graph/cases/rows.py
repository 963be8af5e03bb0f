"""Cases of slices, blocks, and rows by number."""

from __future__ import annotations

from functools import partial

import numpy as np

from kit.graph.convert import make_op
from kit.graph.ops.array import blocks, rows
from tests.graph.cases.case import Case, Host, bare, numbers, sloped

A, CUBE, ROW = numbers(1, 4, 3), numbers(2, 2, 3, 4), numbers(3, 5)
INDICES = np.array([[2, 0], [2, 3]])
PLACES = np.array([[0, 2], [1, 1], [0, 2]], np.int32)
SPEC = (("s", None, None, 2), ("i", -1))


def picked(x: Host, indices: Host) -> Host:
    """Rows one by one."""
    flat = [x[i] for i in indices.ravel()]
    return np.array(flat).reshape((*indices.shape, *x.shape[1:]))


def scattered(places: Host, updates: Host, shape: tuple[int, ...]) -> Host:
    result = np.zeros(shape)
    for position, update in zip(places, updates, strict=True):
        result[tuple(position)] += update
    return result


def put_back(g: Host, x: Host) -> Host:
    result = np.zeros_like(x)
    result[0, 2], result[2, 2] = g
    return result


def added_to_columns(g: Host, indices: Host, x: Host) -> Host:
    result = np.zeros_like(x)
    for k, i in enumerate(indices):
        result[:, i] += g[:, k]
    return result


SLICES = [
    sloped(
        "StridedSlice", lambda x: x[1:3, 0], lambda x: np.array([x[1][0], x[2][0]]), A
    ),
    sloped(
        "StridedSlice",
        lambda x: x[..., None, ::-2],
        lambda x: np.stack([x[..., 3], x[..., 1]], -1)[..., None, :],
        CUBE,
    ),
    sloped("StridedSlice", lambda x: x[-1], lambda x: np.array(x[4]), ROW),
    sloped("StridedSlice", lambda x: x[1:], lambda x: np.array(list(x)[1:]), ROW),
    Case(
        "StridedSlice",
        lambda x, i: x[i, :i],
        lambda x, i: np.array([x[2][0], x[2][1]]),
        (A, np.int32(2)),
        is_dynamic=True,
    ),
    bare("StridedSliceGrad", put_back, (numbers(4, 2), A), spec=SPEC),
    sloped(
        "Slice",
        partial(blocks.slice_of, begin=(1, 0), size=(2, -1)),
        lambda x: np.array([x[1], x[2]]),
        A,
    ),
    Case(
        "Slice",
        blocks.slice_of,
        lambda x, begin, size: np.array([[x[1][2]]]),
        (A, np.array([1, 2]), np.array([1, 1])),
        is_dynamic=True,
    ),
    bare(
        "PlaceAt",
        lambda g, x: np.array([0, 0, *g, 0]),
        (numbers(5, 2), ROW),
        has_slope=False,
        begin=(2,),
    ),
]

ROWS = [
    sloped("GatherV2", rows.gather, picked, (A, INDICES)),
    sloped("GatherV2", lambda x: x[[-1, 0]], lambda x: np.array([x[3], x[0]]), A),
    sloped(
        "GatherV2",
        partial(rows.gather, axis=1),
        lambda x, i: np.moveaxis(picked(x.T, i), -1, 0),
        (A, np.array([[2, 0], [2, 2]])),
    ),
    bare(
        "GatherGrad", added_to_columns, (numbers(6, 4, 2), np.array([2, 2]), A), axis=1
    ),
    sloped(
        "GatherNd",
        rows.gather_nd,
        lambda x, i: np.array([x[0][2], x[1][1], x[0][2]]),
        (A, PLACES),
    ),
    sloped(
        "GatherNd",
        rows.gather_nd,
        lambda x, i: np.array([x[0][2], x[1][1], x[0][2]]),
        (CUBE, PLACES),
    ),
    sloped(
        "ScatterNd",
        lambda i, u: rows.scatter_nd(i, u, (2, 3)),
        lambda i, u: scattered(i, u, (2, 3)),
        (PLACES, numbers(7, 3)),
    ),
    Case(
        "ScatterNd",
        rows.scatter_nd,
        lambda i, u, shape: scattered(i, u, (3, 2)),
        (PLACES[:, :1], numbers(8, 3, 2), np.array([3, 2])),
        is_dynamic=True,
    ),
    Case(
        "SumByIndex",
        lambda i, v: list(make_op("SumByIndex", i, v).outputs),
        lambda i, v: [np.array([3, 7]), np.array([v[1], v[0] + v[2]])],
        (np.array([7, 3, 7]), numbers(9, 3, 2)),
        has_slope=False,
        is_dynamic=True,
    ),
]

CASES = SLICES + ROWS
