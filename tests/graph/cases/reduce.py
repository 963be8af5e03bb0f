"""Cases of reductions, matrix products and diagonals."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from kit.graph.ops.math import linear, reduce
from tests.graph.cases.case import Case, Host, bare, flat, numbers, sloped

A, CUBE = numbers(1, 3, 4), numbers(2, 2, 3, 4)
INTS = np.array([[1, 2, 4], [0, -3, 4]], np.int32)
BOOLS = np.array([[True, False], [True, True]])
ZEROS = np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 5.0], [2.0, 3.0, 4.0]])
LARGE = np.array([[1000.0, 1001.0], [-1000.0, -1001.0]])
TIED = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
X, Y, Z = numbers(3, 2, 3), numbers(4, 3, 4), numbers(5, 5, 3, 4)


def total(x: Host, axis: int) -> Host:
    """The sum along an axis, added up one by one."""
    result: Host = np.zeros_like(np.take(x, 0, axis))
    for i in range(x.shape[axis]):
        result = result + np.take(x, i, axis)
    return result


def product(x: Host) -> Host:
    result = np.ones(x.shape[0])
    for column in x.T:
        result = result * column
    return result


def of_others(x: Host) -> Host:
    """The product of all other elements of the row."""
    result = np.ones_like(x)
    for row, column in np.ndindex(*x.shape):
        result[row, column] = product(np.delete(x[row : row + 1], column, 1))[0]
    return result


def first_best(x: Host, better: Any) -> Host:
    result = []
    for row in x:
        best = 0
        for i, value in enumerate(row):
            best = i if better(value, row[best]) else best
        result.append(best)
    return np.array(result, np.int64)


REDUCTIONS = [
    sloped("Sum", partial(reduce.reduce_sum, axis=1), lambda x: total(x, 1), A),
    sloped("Sum", reduce.reduce_sum, lambda x: total(total(x, 0), 0), A),
    sloped(
        "Sum",
        partial(reduce.reduce_sum, axis=(0, -1), keepdims=True),
        lambda x: total(total(x, 2), 0)[None, :, None],
        CUBE,
    ),
    sloped("Sum", partial(reduce.reduce_sum, axis=()), lambda x: x, A),
    flat(
        "Sum",
        partial(reduce.reduce_sum, axis=0),
        lambda x: np.array([1, -1, 8], np.int32),
        INTS,
    ),
    sloped("Mean", reduce.reduce_mean, lambda x: total(total(x, 0), 0) / 12, A),
    sloped("Mean", partial(reduce.reduce_mean, axis=-1), lambda x: total(x, 1) / 4, A),
    flat(
        "Mean",
        partial(reduce.reduce_mean, axis=1),
        lambda x: np.array([2, 0], np.int32),
        INTS,
    ),
    sloped("Prod", partial(reduce.reduce_prod, axis=1), product, ZEROS),
    sloped("Prod", reduce.reduce_prod, lambda x: product(product(x)[None])[0], A),
    sloped(
        "Prod",
        partial(reduce.reduce_prod, axis=(2, 0), keepdims=True),
        lambda x: np.array([[[product(x[:, i].reshape(1, -1))[0]] for i in range(3)]]),
        CUBE,
    ),
    sloped("Max", partial(reduce.reduce_max, axis=0), lambda x: np.sort(x, 0)[-1], A),
    sloped("Max", reduce.reduce_max, lambda x: np.sort(x.ravel())[-1], A),
    sloped("Min", partial(reduce.reduce_min, axis=1), lambda x: np.sort(x)[:, 0], A),
    sloped(
        "Min",
        partial(reduce.reduce_min, keepdims=True),
        lambda x: np.sort(x.ravel())[:1][None],
        A,
    ),
    flat(
        "All",
        partial(reduce.reduce_all, axis=0),
        lambda x: np.array([True, False]),
        BOOLS,
    ),
    flat("Any", reduce.reduce_any, lambda x: np.array(True), BOOLS),
    sloped(
        "LogSumExp",
        partial(reduce.reduce_log_sum_exp, axis=1),
        lambda x: np.log(np.exp(x).sum(1)),
        A,
    ),
    flat(
        "LogSumExp",
        partial(reduce.reduce_log_sum_exp, axis=1),
        lambda x: np.array([1001, -1000]) + np.log1p(np.exp(-1.0)),
        LARGE,
    ),
    flat(
        "ArgMax",
        partial(reduce.argmax, axis=1),
        lambda x: first_best(x, lambda a, b: a > b),
        TIED,
    ),
    flat("ArgMax", reduce.argmax, lambda x: np.int64(1), TIED),
    flat(
        "ArgMin",
        partial(reduce.argmin, axis=-1, dtype="int32"),
        lambda x: first_best(x, lambda a, b: a < b).astype(np.int32),
        A,
    ),
    bare(
        "Spread",
        lambda g, x: np.outer(g, np.ones(4)),
        (numbers(6, 3), A),
        axis=(1,),
        keepdims=False,
        mean=False,
    ),
    bare(
        "Spread",
        lambda g, x: np.full((3, 4), g[0, 0] / 12),
        (numbers(6, 1, 1), A),
        axis=None,
        keepdims=True,
        mean=True,
    ),
    bare("ProdOfOthers", of_others, ZEROS, has_slope=False, axis=(1,)),
]


def by_hand(a: Host, b: Host) -> Host:
    """The product of matrices, number by number."""
    result = np.zeros((a.shape[0], b.shape[1]))
    for i, j in np.ndindex(*result.shape):
        result[i, j] = sum(a[i, k] * b[k, j] for k in range(b.shape[0]))
    return result


def turned(first: bool, second: bool) -> Case:
    """A product of matrices of which some are given transposed."""
    a, b = (X.T.copy() if first else X), (Y.T.copy() if second else Y)
    return sloped(
        "MatMul",
        partial(linear.matmul, transpose_a=first, transpose_b=second),
        lambda a, b: by_hand(a.T if first else a, b.T if second else b),
        (a, b),
    )


LINEAR = [
    *[turned(first, second) for first in (False, True) for second in (False, True)],
    sloped(
        "MatMul",
        linear.matmul,
        lambda a, b: np.stack([by_hand(a, item) for item in b]),
        (X, Z),
    ),
    sloped(
        "MatMul",
        lambda a, b: a @ b,
        lambda a, b: by_hand(a, b[:, None])[:, 0],
        (X, Y[:, 0]),
    ),
    sloped("Diag", linear.diag, lambda x: x * np.eye(4), A[0]),
    sloped("DiagPart", linear.diag, lambda x: np.array([x[i, i] for i in range(3)]), A),
    bare(
        "DiagLike",
        lambda g, x: np.concatenate([g * np.eye(3), np.zeros((3, 1))], 1),
        (numbers(7, 3), A),
    ),
]

ALONG = [
    Case(
        "ReduceAlong",
        partial(reduce.reduce_along, "Sum"),
        lambda x, axis: np.add.reduce(x, axis=int(axis)),
        (A, np.int32(1)),
        is_dynamic=True,
    ),
    Case(
        "ReduceAlong",
        partial(reduce.reduce_along, "Mean", keepdims=True),
        lambda x, axes: (x.sum(axis=0) / 3).reshape(1, 4),
        (A, np.array([0], np.int32)),
        is_dynamic=True,
    ),
    Case(
        "ReduceAlong",
        partial(reduce.reduce_along, "Max", keepdims=True),
        lambda x, axes: np.maximum.reduce(x.ravel()).reshape([1] * axes.size),
        (A, np.array([0, -1], np.int32)),
        has_slope=False,
        is_dynamic=True,
    ),
    Case(
        "ReduceAlong",
        partial(reduce.reduce_along, "Prod"),
        lambda x, axes: x,
        (A, np.zeros(0, np.int32)),
        has_slope=False,
        is_dynamic=True,
    ),
]

CASES = REDUCTIONS + LINEAR + ALONG
