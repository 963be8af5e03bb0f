"""Seeds repeat the numbers on every device; the numbers have their distribution."""

from __future__ import annotations

import math
from collections import Counter
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import InvalidArgumentError
from kit.graph.kernels.random import (
    DEFAULT_GRAPH_SEED,
    Generator,
    generator,
    random_normal,
    random_uniform,
    shuffle,
    truncated_normal,
)
from tests.cases import for_each
from tests.graph.kernels.slopes import host

FLOATS = ["float16", "float32", "float64"]
MASK = 2**64 - 1


def stream(seed: int = 3) -> Generator:
    return generator(seed, 4, op_number=0, entropy=nothing)


def nothing() -> int:
    raise AssertionError("a seeded stream asks for no entropy")


def philox(key: tuple[int, int], counter: int) -> list[int]:
    """Philox4x64-10 of Salmon, Moraes, Dror and Shaw (2011), written from the paper."""
    block, (k0, k1) = [counter & MASK, counter >> 64, 0, 0], key
    for _ in range(10):
        first, two = 0xD2E7470EE14C6C93 * block[0], 0xCA5A826395121157 * block[2]
        block = [
            (two >> 64) ^ block[1] ^ k0,
            two & MASK,
            (first >> 64) ^ block[3] ^ k1,
            first & MASK,
        ]
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & MASK, (k1 + 0xBB67AE8584CAA73B) & MASK
    return block


@given(graph_seed=st.integers(-(2**63), MASK), op_seed=st.integers(-5, 2**70))
def test_stream_is_philox_with_the_two_seeds_as_its_key(
    graph_seed: int, op_seed: int
) -> None:
    made = generator(graph_seed, op_seed, op_number=9, entropy=nothing)

    wanted = philox((graph_seed & MASK, op_seed & MASK), counter=1)
    assert made.bit_generator.random_raw(4).tolist() == wanted


@pytest.mark.parametrize(
    ("graph_seed", "op_seed", "key"),
    [
        (5, None, (5, 12)),
        (None, 6, (DEFAULT_GRAPH_SEED, 6)),
        (0, 0, (0, 0)),
        (None, None, (7, 8)),
    ],
)
def test_what_is_not_seeded_comes_from_the_op_number_or_from_entropy(
    graph_seed: int | None, op_seed: int | None, key: tuple[int, int]
) -> None:
    made = generator(graph_seed, op_seed, op_number=12, entropy=lambda: (7 << 64) + 8)

    assert made.bit_generator.random_raw(4).tolist() == philox(key, counter=1)


def draws(xp: ModuleType, made: Generator) -> list[bytes]:
    arrays = [
        random_uniform(xp, made, [5], -1, 2),
        random_uniform(xp, made, [5], -10, 20, "int32"),
        random_normal(xp, made, [2, 3], 1, 2, "float64"),
        truncated_normal(xp, made, [50]),
        shuffle(xp, made, xp.arange(9)),
    ]
    return [host(array).tobytes() for array in arrays]


def test_equal_seeds_give_equal_numbers_on_every_device(xp: ModuleType) -> None:
    assert draws(xp, stream()) == draws(np, stream())
    assert draws(xp, stream()) != draws(np, stream(seed=4))


def test_second_draw_goes_on_where_the_first_one_ended(xp: ModuleType) -> None:
    made = stream()

    first, second = draws(xp, made), draws(xp, made)

    assert all(a != b for a, b in zip(first, second, strict=True))


@for_each("dtype", FLOATS)
@for_each(("low", "high"), [(0, 1), (-3, 5), (2.5, 2.75)])
def test_uniform_floats_fill_their_range_evenly(
    xp: ModuleType, dtype: str, low: float, high: float
) -> None:
    x = random_uniform(xp, stream(), [100, 100], low, high, dtype)

    flat = host(x).astype(float).ravel()
    assert (x.dtype.name, x.shape) == (dtype, (100, 100))
    assert flat.min() >= low
    assert flat.max() < high
    wanted = low + (high - low) * np.linspace(0.1, 0.9, 9)
    result = np.quantile(flat, np.linspace(0.1, 0.9, 9))
    np.testing.assert_allclose(result, wanted, atol=0.02 * (high - low))


def test_uniform_half_never_rounds_up_to_the_end(xp: ModuleType) -> None:
    x = host(random_uniform(xp, stream(), [20000], dtype="float16"))

    # Drawn in 32 bits, some 1 in 4000 of these would be rounded to 1.
    assert x.max() == np.nextafter(np.float16(1), np.float16(0))


def test_range_that_runs_downwards_leaves_its_end_out(xp: ModuleType) -> None:
    x = host(random_uniform(xp, stream(), [1000], 5, 1))

    assert 1 < x.min() < x.max() <= 5
    # Drawn in 32 bits, some 1 in 2000 of these would be rounded to 1.
    assert host(random_uniform(xp, stream(), [20000], 2, 1, "float16")).min() > 1
    assert host(random_uniform(xp, stream(), [3], 2, 2)).tolist() == [2, 2, 2]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_uniform_integers_hit_each_number_of_the_range_alike(
    xp: ModuleType, dtype: str
) -> None:
    x = random_uniform(xp, stream(), [7000], -3, 4, dtype)

    counts = Counter(host(x).tolist())
    assert x.dtype.name == dtype
    assert sorted(counts) == [-3, -2, -1, 0, 1, 2, 3]
    # Chi-squared with 6 degrees of freedom exceeds 22.5 once in 1000 seeds.
    assert sum((n - 1000) ** 2 / 1000 for n in counts.values()) < 22.5


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (5, 5, "int32"),
        (6, 5, "int64"),
        (0, None, "int32"),
        (0, 2**31, "int32"),
        (-(2**31) - 1, 0, "int32"),
    ],
)
def test_integers_need_a_range_within_the_dtype(
    low: int, high: int | None, dtype: str
) -> None:
    with pytest.raises(
        InvalidArgumentError, match=rf"minval is {low} and maxval {high}"
    ):
        random_uniform(np, stream(), [1], low, high, dtype)


@for_each("dtype", FLOATS)
def test_normal_numbers_have_their_mean_and_deviation(
    xp: ModuleType, dtype: str
) -> None:
    x = random_normal(xp, stream(), [20000], 3, 0.5, dtype)

    flat = host(x).astype(float)
    assert x.dtype.name == dtype
    assert flat.mean() == pytest.approx(3, abs=0.015)
    assert flat.std() == pytest.approx(0.5, abs=0.01)
    within_one = (abs(flat - 3) < 0.5).mean()
    assert within_one == pytest.approx(math.erf(math.sqrt(0.5)), abs=0.015)


@for_each("dtype", FLOATS)
def test_truncated_numbers_stay_within_two_deviations(
    xp: ModuleType, dtype: str
) -> None:
    x = truncated_normal(xp, stream(), [100, 200], 0, 1, dtype)

    flat = host(x).astype(float).ravel()
    assert (x.dtype.name, x.shape) == (dtype, (100, 200))
    assert 1.95 < abs(flat).max() <= 2
    # The variance of the distribution cut off at 2, in closed form.
    density = math.exp(-2) / math.sqrt(2 * math.pi)
    assert flat.var() == pytest.approx(1 - 4 * density / math.erf(2**0.5), abs=0.02)
    moved = host(truncated_normal(xp, stream(), [1000], 10, 3))
    assert 9 < abs(moved - 10).max() * 1.6 <= 9.6


def test_every_order_comes_up_alike(xp: ModuleType) -> None:
    made, value = stream(), xp.arange(3)

    orders = Counter(tuple(host(shuffle(xp, made, value))) for _ in range(1200))

    assert len(orders) == 6
    # Chi-squared with 5 degrees of freedom exceeds 20.5 once in 1000 seeds.
    assert sum((n - 200) ** 2 / 200 for n in orders.values()) < 20.5


def test_shuffle_keeps_rows_together_and_its_input_as_it_was(xp: ModuleType) -> None:
    value = xp.arange(40).reshape(20, 2)

    rows = host(shuffle(xp, stream(), value))

    assert rows.tolist() != host(value).tolist()
    assert sorted(rows.tolist()) == host(value).tolist()
    assert host(value).ravel().tolist() == list(range(40))
    assert float(shuffle(xp, stream(), xp.asarray(5.0))) == 5.0


@for_each("draw", [random_uniform, random_normal, truncated_normal])
def test_shapes_may_be_empty_but_not_negative(xp: ModuleType, draw: Any) -> None:
    assert draw(xp, stream(), []).shape == ()
    assert draw(xp, stream(), [2, 0]).shape == (2, 0)
    with pytest.raises(InvalidArgumentError, match=r"\[2, -1\]"):
        draw(xp, stream(), [2, -1])


@pytest.mark.parametrize("draw", [random_uniform, random_normal, truncated_normal])
def test_other_dtypes_are_refused(draw: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="complex64"):
        draw(np, stream(), [1], dtype="complex64")
