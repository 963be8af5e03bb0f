"""Casts, powers and divisions have one result on every device."""

from __future__ import annotations

from math import inf, nan
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit.graph.ops
from kit.errors import InvalidArgumentError
from kit.graph.table import TABLE
from tests.cases import for_each
from tests.strict_arrays import strict

assert kit.graph.ops  # which fills the table

Host = npt.NDArray[Any]
FLOATS = ("float16", "float32", "float64", "bfloat16")
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 7.0, 1e-30, inf, -inf, nan]
numbers = st.floats(width=32) | st.sampled_from(SPECIAL)


def compute(xp: ModuleType, op: str, *inputs: Host, **attrs: Any) -> Host:
    bind = TABLE[op].bind
    assert bind is not None
    result = bind(xp, attrs)(*map(xp.asarray, inputs))
    return np.asarray(result if xp is np else result.get())


def nearest(value: float, dtype: str) -> int:
    """Say by exact integers what a float is as an integer of a dtype."""
    limits = np.iinfo(dtype)
    if value != value:
        return 0
    if abs(value) == inf:
        return int(limits.max if value > 0 else limits.min)
    return min(max(int(value), int(limits.min)), int(limits.max))


@for_each("source", FLOATS)
@for_each("dtype", INTEGERS)
def test_floats_become_the_nearest_integers_and_nan_becomes_0(
    source: str, dtype: str
) -> None:
    edges = [2.0**power for power in (7, 8, 15, 16, 31, 32, 63, 64)]
    values = [*SPECIAL, 300.5, -300.5, 127.9, 3e9, 1e19, 1e300]
    values += [sign * edge for edge in edges for sign in (1, -1)]
    values += [sign * np.nextafter(edge, 0) for edge in edges for sign in (1, -1)]
    with np.errstate(over="ignore"):
        x = np.array(values).astype(source)
    wanted = [nearest(float(value), dtype) for value in x]

    for xp in (np, strict):
        for part in (slice(None), slice(0, 0), *(slice(n, n + 1) for n in range(11))):
            result = compute(xp, "Cast", x[part], dtype=np.dtype(dtype))
            assert result.dtype == dtype
            assert result.tolist() == wanted[part]


@for_each("dtype", INTEGERS)
def test_a_single_number_is_cast_as_one_of_many(dtype: str) -> None:
    for value in (nan, inf, -inf, 3.7):
        result = compute(np, "Cast", np.array(value), dtype=np.dtype(dtype))
        assert result.shape == ()
        assert int(result) == nearest(value, dtype)


def test_a_negative_power_of_integers_is_refused(xp: ModuleType) -> None:
    base = np.array([2, 1, -1, 0], np.int32)
    for exponent in (np.array(-1, np.int32), np.array([1, 2, 3, -1], np.int32)):
        with pytest.raises(InvalidArgumentError, match="floating dtype"):
            compute(xp, "Pow", base, exponent)


def test_other_powers_are_numpys(xp: ModuleType) -> None:
    for dtype in (np.int32, np.uint8, np.float64):
        base, exponent = np.array([2, 1, 3, 0], dtype), np.array([3, 0, 2, 1], dtype)
        assert compute(xp, "Pow", base, exponent).tolist() == [8, 1, 9, 0]
    assert compute(xp, "Pow", np.array([2.0]), np.array([-1.0])).tolist() == [0.5]


def same_bits(x: Host, y: Host) -> bool:
    """Whether two arrays are the same, signs of zeros too; NaNs may differ."""
    both = np.isnan(x) & np.isnan(y)
    return x.dtype == y.dtype and np.where(both, 0, x).tobytes() == (
        np.where(both, 0, y).tobytes()
    )


@for_each(("op", "plain"), [("FloorDiv", np.floor_divide), ("FloorMod", np.remainder)])
@given(pairs=st.lists(st.tuples(numbers, numbers), min_size=1))
def test_divisions_of_floats_have_numpys_bits(
    op: str, plain: np.ufunc, pairs: list[tuple[float, float]]
) -> None:
    pairs += [(x, y) for x in SPECIAL for y in SPECIAL]
    for dtype in (np.float32, np.float64):
        x, y = np.array(pairs, dtype).T
        with np.errstate(all="ignore"):
            wanted, result = plain(x, y), compute(strict, op, x, y)
        assert same_bits(result, wanted)


def test_the_greatest_of_nothing_is_refused_in_numpys_words(xp: ModuleType) -> None:
    nothing = np.zeros((0, 3), np.float32)
    said = "attempt to get argmax of an empty sequence"
    for axis in (None, 0, -2):
        with pytest.raises(ValueError, match=said):
            np.argmax(nothing, axis)
        with pytest.raises(ValueError, match=said):
            compute(xp, "ArgMax", nothing, axis=axis, dtype=np.dtype("int64"))


@pytest.mark.gpu
def test_a_gpu_has_the_results_of_numpy() -> None:
    cupy = pytest.importorskip("cupy")
    x, y = np.array([(x, y) for x in SPECIAL for y in SPECIAL], np.float32).T

    for dtype in map(np.dtype, INTEGERS):
        result, wanted = (compute(xp, "Cast", x, dtype=dtype) for xp in (cupy, np))
        assert result.tolist() == wanted.tolist()
    for op in ("FloorDiv", "FloorMod"):
        with np.errstate(all="ignore"):
            assert same_bits(compute(cupy, op, x, y), compute(np, op, x, y))
    with pytest.raises(InvalidArgumentError):
        compute(cupy, "Pow", np.array([2]), np.array([-1]))
