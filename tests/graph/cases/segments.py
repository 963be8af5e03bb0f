"""Cases of segments, of copies changed at coordinates, of places in ascending rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kit.graph.convert import make
from tests.graph.cases.case import Case, Host, bare, numbers, positive

X = positive(1, 5, 2)
SORTED, MIXED = np.array([0, 0, 2, 2, 2]), np.array([2, 0, -1, 2, 2])
FULL = np.array([1, 0, -1, 1, 1])
PLACES = np.array([[0, 1], [4, 0]])

REDUCED: dict[str, Callable[[Host], Any]] = {
    "Sum": lambda rows: rows.sum(axis=0),
    "Prod": lambda rows: rows.prod(axis=0),
    "Min": lambda rows: rows.min(axis=0),
    "Max": lambda rows: rows.max(axis=0),
    "Mean": lambda rows: rows.mean(axis=0),
    "SqrtN": lambda rows: rows.sum(axis=0) / np.sqrt(len(rows)),
}
EMPTY = {"Prod": 1.0, "Min": np.finfo(float).max, "Max": np.finfo(float).min}


def reduced(kind: str, x: Host, ids: Host, count: int, empty: float) -> Host:
    """Rows of each segment, one segment after the other."""
    result = np.full((count, *x.shape[1:]), empty)
    for n in range(count):
        rows = x[ids == n]
        if len(rows):
            result[n] = REDUCED[kind](rows)
    return result


def changed(kind: str) -> Callable[..., Host]:
    def expect(x: Host, places: Host, updates: Host) -> Host:
        result = x.copy()
        for position, update in zip(places, updates, strict=True):
            old = result[tuple(position)]
            sums = {"Update": update, "Add": old + update, "Sub": old - update}
            result[tuple(position)] = sums[kind]
        return result

    return expect


def spread(g: Host, ids: Host, x: Host) -> Host:
    return np.array([g[i] if i >= 0 else 0 * g[0] for i in ids])


def shares(power: float) -> Callable[..., Host]:
    def expect(g: Host, ids: Host, x: Host) -> Host:
        rows = [g[i] / (ids == i).sum() ** power if i >= 0 else 0 * g[0] for i in ids]
        return np.array(rows)

    return expect


def others(x: Host, ids: Host, y: Host) -> Host:
    """For each row the product of the others of its segment."""
    return np.array(
        [
            np.prod(x[[j for j in range(len(ids)) if ids[j] == ids[i] and j != i]], 0)
            for i in range(len(ids))
        ]
    )


def of(op_type: str) -> Callable[..., Any]:
    return lambda *inputs: make(op_type, *inputs)


SEGMENTS = [
    case
    for kind in REDUCED
    for case in (
        Case(
            f"Segment{kind}",
            of(f"Segment{kind}"),
            lambda x, ids, kind=kind: reduced(kind, x, ids, 3, float(kind == "Prod")),
            (X, SORTED),
            is_dynamic=True,
        ),
        Case(
            f"UnsortedSegment{kind}",
            of(f"UnsortedSegment{kind}"),
            lambda x, ids, n, kind=kind: reduced(
                kind, x, ids, int(n), EMPTY.get(kind, 0.0)
            ),
            # An empty segment's least and greatest are the ends of all numbers.
            (X, FULL, np.int32(2)) if kind in EMPTY else (X, MIXED, np.int32(4)),
            is_dynamic=True,
        ),
    )
]

CASES = [
    *SEGMENTS,
    bare("SegmentSpread", spread, (numbers(2, 3, 2), MIXED, X)),
    *(
        bare(
            f"Segment{kind}Grad",
            shares(power),
            (numbers(3, 3, 2), MIXED, X),
            has_slope=False,
        )
        for kind, power in (("Mean", 1.0), ("SqrtN", 0.5))
    ),
    bare("SegmentProdGrad", others, (X, SORTED, numbers(4, 3, 2)), has_slope=False),
    *(
        bare(f"TensorScatter{kind}", changed(kind), (X, PLACES, numbers(5, 2)))
        for kind in ("Update", "Add", "Sub")
    ),
    bare(
        "SearchSorted",
        lambda rows, values: np.array(
            [
                [(row <= v).sum() for v in vs]
                for row, vs in zip(rows, values, strict=True)
            ],
            np.int32,
        ),
        (np.sort(numbers(6, 2, 4)), numbers(7, 2, 3)),
        has_slope=False,
        side="right",
        dtype=np.dtype(np.int32),
    ),
    bare(
        "Orthogonal",
        lambda x: np.linalg.qr(x)[0] * np.sign(np.diag(np.linalg.qr(x)[1])),
        numbers(8, 4, 2),
        has_slope=False,
    ),
]
