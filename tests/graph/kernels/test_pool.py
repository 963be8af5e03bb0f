"""Pools take the largest or the mean of each window, and send gradients back there."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import InvalidArgumentError
from kit.graph.kernels.pool import (
    avg_pool,
    avg_pool_gradient,
    max_pool,
    max_pool_gradient,
    pool_shape,
)
from tests.cases import for_each
from tests.graph.kernels.sliding import (
    Slide,
    naive_max,
    naive_max_gradient,
    naive_mean,
    slides,
)
from tests.graph.kernels.slopes import host

# fmt: off
# What tensorflow-cpu 2.21.0 and tensorflow 1.15.5 made of X with windows [1, 3, 2, 1],
# strides [1, 2, 2, 1] and padding "SAME", and of the gradient -1, 0, 1, -1, 0, 1, ...
X = (np.arange(48) % 7 - 3).astype(np.float32).reshape(2, 4, 3, 2)
# fmt: on
RULE: Any = ([1, 3, 2, 1], [1, 2, 2, 1], "SAME")


def rule(slide: Slide) -> Any:
    return slide.four(slide.window), slide.four(slide.stride), slide.padding


@given(slide=slides())
def test_pools_are_the_largest_and_the_mean_of_each_window(
    xp: ModuleType, slide: Slide
) -> None:
    x = slide.normal(*slide.shape)

    largest = max_pool(xp, xp.asarray(x), *rule(slide))
    mean = avg_pool(xp, xp.asarray(x), *rule(slide))

    assert np.array_equal(host(largest), naive_max(slide, x))
    np.testing.assert_allclose(host(mean), naive_mean(slide, x), atol=1e-14)
    assert largest.shape == mean.shape == pool_shape(x.shape, *rule(slide))


@given(slide=slides(), n_values=st.integers(1, 4))
def test_gradient_goes_to_the_first_of_the_largest(
    xp: ModuleType, slide: Slide, n_values: int
) -> None:
    x = np.floor(slide.normal(*slide.shape)) % n_values
    dy = np.floor(8 * slide.normal(slide.images, *slide.counts, slide.channels))
    y = xp.asarray(naive_max(slide, x))

    dx = max_pool_gradient(xp, xp.asarray(x), y, xp.asarray(dy), *rule(slide))

    assert np.array_equal(host(dx), naive_max_gradient(slide, x, dy))


@given(slide=slides())
def test_mean_gradient_is_the_adjoint_of_the_mean(xp: ModuleType, slide: Slide) -> None:
    v = slide.normal(*slide.shape)
    dy = slide.normal(slide.images, *slide.counts, slide.channels)

    dx = host(avg_pool_gradient(xp, slide.shape, xp.asarray(dy), *rule(slide)))

    expected = (naive_mean(slide, v) * dy).sum()
    np.testing.assert_allclose((dx * v).sum(), expected, rtol=1e-9, atol=1e-9)


@for_each("dtype", ["float16", "float32", "float64"])
def test_dtype_stays(xp: ModuleType, dtype: str) -> None:
    x = xp.asarray(X.astype(dtype))

    y = max_pool(xp, x, *RULE)
    made = [
        y,
        max_pool_gradient(xp, x, y, y, *RULE),
        avg_pool(xp, x, *RULE),
        avg_pool_gradient(xp, X.shape, y, *RULE),
    ]

    assert {array.dtype.name for array in made} == {dtype}


def test_border_is_never_the_largest(xp: ModuleType) -> None:
    x = xp.full((1, 2, 2, 1), -7.0)

    y = max_pool(xp, x, [1, 3, 3, 1], [1, 1, 1, 1], "SAME")

    assert host(y).ravel().tolist() == [-7.0] * 4


def test_nan_is_not_hidden_by_the_largest(xp: ModuleType) -> None:
    x = xp.asarray(np.array([np.nan, 1, 2, 3]).reshape(1, 2, 2, 1))

    assert np.isnan(host(max_pool(xp, x, [1, 2, 2, 1], [1, 1, 1, 1], "VALID"))).all()


@for_each("stride", [1, 2])
@for_each("dtype", ["float16", "float32", "float64"])
def test_infinite_gradient_reaches_its_place_alone(
    xp: ModuleType, stride: int, dtype: str
) -> None:
    x = xp.asarray(np.array([0, 1, 3, 2], dtype).reshape(1, 2, 2, 1))
    y, dy = (xp.full((1, 1, 1, 1), value, dtype=dtype) for value in (3, np.inf))

    dx = max_pool_gradient(xp, x, y, dy, [1, 2, 2, 1], [1, stride, stride, 1], "VALID")

    assert host(dx).ravel().tolist() == [0, 0, np.inf, 0]


def test_mean_of_many_halves_does_not_overflow_on_the_way(xp: ModuleType) -> None:
    x = xp.full((1, 50, 50, 1), 30, dtype="float16")

    y = avg_pool(xp, x, [1, 50, 50, 1], [1, 1, 1, 1], "VALID")

    assert host(y).item() == 30  # their sum is beyond the largest half


def test_unknown_sizes_stay_unknown() -> None:
    assert pool_shape(None, *RULE) == (None,) * 4
    assert pool_shape((None, 7, None, 3), *RULE) == (None, 4, None, 3)


@for_each(
    ("ksize", "strides", "padding", "word"),
    [
        ([1, 5, 5, 1], [1, 1, 1, 1], "VALID", "fit"),
        ([2, 1, 1, 1], [1, 1, 1, 1], "SAME", "ksize"),
        ([1, 1, 1, 2], [1, 1, 1, 1], "SAME", "ksize"),
        ([1, 0, 1, 1], [1, 1, 1, 1], "SAME", "ksize"),
        ([1, 2, 2, 1], [1, 1, 1, 2], "SAME", "strides"),
        ([1, 2, 2, 1], [1, 1, 1, 1], "same", "padding"),
    ],
)
def test_what_does_not_go_together_is_refused_by_the_shape_and_by_the_kernels(
    ksize: list[int], strides: list[int], padding: str, word: str
) -> None:
    with pytest.raises(ValueError, match=word):
        pool_shape((1, 4, 4, 1), ksize, strides, padding)
    for pool in (max_pool, avg_pool):
        with pytest.raises(InvalidArgumentError, match=word):
            pool(np, np.zeros((1, 4, 4, 1)), ksize, strides, padding)


def test_gradient_of_another_shape_is_refused(xp: ModuleType) -> None:
    x, y = xp.zeros((2, 4, 3, 2)), xp.zeros((2, 2, 2, 2))

    with pytest.raises(InvalidArgumentError, match="dy"):
        max_pool_gradient(xp, x, y, x, *RULE)
    with pytest.raises(InvalidArgumentError, match="y has"):
        max_pool_gradient(xp, x, x, y, *RULE)
    with pytest.raises(InvalidArgumentError, match="dy"):
        avg_pool_gradient(xp, x.shape, x, *RULE)


@pytest.mark.slow
@for_each("window", [(2, 2), (3, 2)])
@for_each("padding", ["SAME", "VALID"])
def test_many_images_give_what_each_of_them_gives(
    xp: ModuleType, window: tuple[int, int], padding: str
) -> None:
    slide = Slide(3, (64, 67), 24, window, (2, 2), padding, seed=7)
    x = np.floor(slide.normal(*slide.shape))
    dy = np.floor(8 * slide.normal(3, *slide.counts, 24))

    def made(x: Any, dy: Any) -> list[Any]:
        x, dy = xp.asarray(x), xp.asarray(dy)
        y = max_pool(xp, x, *rule(slide))
        return [
            host(y),
            host(max_pool_gradient(xp, x, y, dy, *rule(slide))),
            host(avg_pool(xp, x, *rule(slide))),
            host(avg_pool_gradient(xp, x.shape, dy, *rule(slide))),
        ]

    alone = zip(*(made(x[[n]], dy[[n]]) for n in range(3)), strict=True)
    for ours, each in zip(made(x, dy), alone, strict=True):
        np.testing.assert_array_equal(ours, np.concatenate(each))
    np.testing.assert_array_equal(made(x, dy)[0], naive_max(slide, x))
