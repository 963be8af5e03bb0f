"""Cases of reductions along axes that are inputs."""

from __future__ import annotations

from functools import partial

import numpy as np

from kit.graph.ops.math.reduce import reduce_along
from tests.graph.cases.case import Case, numbers

A = numbers(7, 3, 4)

CASES = [
    Case(
        "ReduceAlong",
        partial(reduce_along, "Sum"),
        lambda x, axis: np.add.reduce(x, axis=int(axis)),
        (A, np.int32(1)),
        is_dynamic=True,
    ),
    Case(
        "ReduceAlong",
        partial(reduce_along, "Mean", keepdims=True),
        lambda x, axes: (x.sum(axis=0) / 3).reshape(1, 4),
        (A, np.array([0], np.int32)),
        is_dynamic=True,
    ),
    Case(
        "ReduceAlong",
        partial(reduce_along, "Max", keepdims=True),
        lambda x, axes: np.maximum.reduce(x.ravel()).reshape([1] * axes.size),
        (A, np.array([0, -1], np.int32)),
        has_slope=False,
        is_dynamic=True,
    ),
]
