"""Rows meet by index, in the order of occurrence, and no index is out of range."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import InvalidArgumentError
from kit.graph.kernels.segments import gather, scatter, sum_by_index
from tests.cases import for_each
from tests.graph.kernels.slopes import host

ONE_BY_ONE: dict[str, Any] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "min": np.minimum,
    "max": np.maximum,
    "update": lambda old, new: new,
}

tables = st.lists(st.integers(0, 6), max_size=40)


def rows_of(n: int, *row: int, dtype: Any = np.float32) -> Any:
    """Numbers of so different sizes that every order of adding has its own rounding."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, *row)) * 10.0 ** rng.uniform(-6, 6, (n, *row))
    return x.astype(dtype)


@given(
    indices=tables,
    row=st.sampled_from([(), (1,), (3,), (2, 2)]),
    dtype=st.sampled_from(["float16", "float32", "float64", "int64"]),
)
def test_sum_has_the_bits_of_adding_row_after_row(
    xp: ModuleType, indices: list[int], row: tuple[int, ...], dtype: str
) -> None:
    values = (rows_of(len(indices), *row) / 1e3).astype(dtype)
    wanted: dict[int, Any] = {}
    for index, value in zip(indices, values, strict=True):
        wanted[index] = wanted[index] + value if index in wanted else value

    unique, summed = sum_by_index(
        xp, xp.asarray(values), xp.asarray(np.array(indices, np.int64))
    )

    assert host(unique).tolist() == sorted(wanted)
    stacked = [wanted[index] for index in sorted(wanted)]
    assert host(summed).tobytes() == np.array(stacked, dtype).tobytes()
    assert summed.dtype.name == dtype
    assert summed.shape == (len(wanted), *row)


@given(indices=tables, kind=st.sampled_from([*ONE_BY_ONE]), is_scalar=st.booleans())
def test_scatter_has_the_bits_of_changing_row_after_row(
    xp: ModuleType, indices: list[int], kind: str, is_scalar: bool
) -> None:
    target = rows_of(7, 2)
    values = np.float32(1.3) if is_scalar else rows_of(len(indices), 2) + np.float32(1)
    rows = np.broadcast_to(values, (len(indices), 2))
    wanted = target.copy()
    with np.errstate(all="ignore"):
        for index, value in zip(indices, rows, strict=True):
            wanted[index] = ONE_BY_ONE[kind](wanted[index], value)

        before = xp.asarray(target)
        after = scatter(
            kind,
            xp,
            before,
            xp.asarray(np.array(indices, np.int32)),
            xp.asarray(values),
        )

    assert host(after).tobytes() == wanted.tobytes()
    assert np.array_equal(host(before), target)


def test_scatter_in_place_changes_the_target_itself(xp: ModuleType) -> None:
    target = xp.zeros(3)

    out = scatter(
        "add", xp, target, xp.asarray([2, 2]), xp.asarray([1.0, 2.0]), in_place=True
    )

    assert out is target
    assert host(target).tolist() == [0, 0, 3]


def test_integers_are_divided_towards_zero(xp: ModuleType) -> None:
    target = xp.asarray([-7, 7, 5, -6, 7])

    out = scatter("div", xp, target, xp.arange(5), xp.asarray([2, 2, 2, 2, -2]))

    # The first three computed by tensorflow-cpu 2.21.0.
    assert host(out).tolist() == [-3, 3, 2, -3, -3]


def test_division_of_integers_by_zero_is_refused(xp: ModuleType) -> None:
    with pytest.raises(InvalidArgumentError, match="divided by zero"):
        scatter("div", xp, xp.asarray([1, 2]), xp.asarray([0]), xp.asarray([0]))


def test_indices_may_have_any_shape(xp: ModuleType) -> None:
    target = xp.zeros((3, 2))
    indices = xp.asarray([[0, 1], [1, 2]])

    out = scatter("sub", xp, target, indices, xp.ones((2, 2, 2)))
    first = scatter("update", xp, target, xp.asarray(1), xp.ones(2))

    assert host(out).tolist() == [[-1, -1], [-2, -2], [-1, -1]]
    assert host(first).tolist() == [[0, 0], [1, 1], [0, 0]]


@for_each("axis", [0, 1, -1])
@for_each("indices", [2, [1, 1, 0], [[0, 2], [1, 1]], [[]]])
def test_gather_puts_the_named_slices_in_the_place_of_the_axis(
    xp: ModuleType, axis: int, indices: Any
) -> None:
    params = np.arange(27).reshape(3, 3, 3)
    named = np.array(indices, np.int64)

    out = gather(xp, xp.asarray(params), xp.asarray(named), axis)

    first = np.moveaxis(params, axis, 0)
    slices = np.array([first[i] for i in named.ravel()]).reshape(*named.shape, 3, 3)
    where = axis % 3
    wanted = np.moveaxis(slices, range(named.ndim), range(where, where + named.ndim))
    assert np.array_equal(host(out), wanted)


@for_each(
    ("indices", "message"),
    [
        ([0, 3, -1], r"indices\[1\] = 3 is not in \[0, 3\)"),
        ([0, -1, 3], r"indices\[1\] = -1 is not in \[0, 3\)"),
        ([[0, 1], [2, -3]], r"indices\[1,1\] = -3 is not in \[0, 3\)"),
        (7, r"indices = 7 is not in \[0, 3\)"),
    ],
)
def test_index_out_of_range_is_named_with_its_place_and_nothing_is_changed(
    xp: ModuleType, indices: Any, message: str
) -> None:
    target, named = xp.zeros(3), xp.asarray(indices)

    with pytest.raises(InvalidArgumentError, match=message):
        gather(xp, target, named)
    with pytest.raises(InvalidArgumentError, match=message):
        scatter("add", xp, target, named, xp.ones(named.shape), in_place=True)
    assert host(target).tolist() == [0, 0, 0]


def test_unsigned_index_beyond_all_signed_ones_is_out_of_range(xp: ModuleType) -> None:
    indices = xp.asarray(np.array([0, 2**64 - 1], np.uint64))

    with pytest.raises(InvalidArgumentError, match=r"\[1\] = 18446744073709551615 "):
        gather(xp, xp.zeros(3), indices)


def test_no_index_fits_into_no_rows_but_none_is_needed(xp: ModuleType) -> None:
    none = xp.asarray(np.zeros(0, np.int64))

    assert gather(xp, xp.zeros((0, 2)), none).shape == (0, 2)
    with pytest.raises(InvalidArgumentError, match=r"\[0, 0\)"):
        gather(xp, xp.zeros((0, 2)), xp.asarray([0]))


REFUSED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "fractions": ("float64", lambda xp: gather(xp, xp.zeros(3), xp.asarray([0.0]))),
    "axis": ("axis is 1", lambda xp: gather(xp, xp.zeros(3), xp.asarray([0]), 1)),
    "axis below": (
        "axis is -2",
        lambda xp: gather(xp, xp.zeros(3), xp.asarray([0]), -2),
    ),
    "dtype": (
        "float32.*float64",
        lambda xp: added(xp, 3, 1, xp.zeros(1, dtype="float32")),
    ),
    "fewer values": ("values", lambda xp: added(xp, 3, 2, xp.zeros(1))),
    "values of fewer axes": ("values", lambda xp: added(xp, (3, 2), 2, xp.zeros(2))),
    "wider values": ("values", lambda xp: added(xp, (3, 2), 2, xp.zeros((2, 3)))),
    "a number": ("no rows", lambda xp: added(xp, (), 1, xp.zeros(1))),
    "sum of more rows": (
        r"\[2\].*\[3, 4\]",
        lambda xp: sum_by_index(xp, xp.zeros((3, 4)), xp.asarray([0, 1])),
    ),
}


def added(xp: ModuleType, target: Any, n_indices: int, values: Any) -> Any:
    indices = xp.zeros(n_indices, dtype="int64")
    return scatter("add", xp, xp.zeros(target), indices, values)


@for_each(("words", "call"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(
    xp: ModuleType, words: str, call: Callable[[Any], Any]
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        call(xp)
