"""Convolution is what the definition says, and its gradients are its derivatives."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from kit.errors import InvalidArgumentError
from kit.graph.kernels.conv import (
    conv2d,
    conv2d_filter_gradient,
    conv2d_input_gradient,
    conv2d_shape,
)
from tests.cases import for_each
from tests.graph.kernels.sliding import Slide, naive_conv, slides
from tests.graph.kernels.slopes import host

OUT = 3

# fmt: on


def operands(slide: Slide) -> tuple[Any, Any, Any]:
    x = slide.normal(*slide.shape)
    w = slide.normal(*slide.window, slide.channels, OUT)
    return x, w, slide.normal(slide.images, *slide.counts, OUT)


@given(slide=slides())
def test_convolution_is_the_sum_over_each_window(xp: ModuleType, slide: Slide) -> None:
    x, w, _ = operands(slide)
    four = slide.four(slide.stride)

    y = conv2d(xp, xp.asarray(x), xp.asarray(w), four, slide.padding)

    np.testing.assert_allclose(host(y), naive_conv(slide, x, w), atol=1e-12)
    assert conv2d_shape(x.shape, w.shape, four, slide.padding) == y.shape


# <dy, conv(x, w)> is linear in x and in w, so its gradients are what it is made of.
@given(slide=slides())
def test_gradients_are_the_adjoints_of_the_convolution(
    xp: ModuleType, slide: Slide
) -> None:
    x, w, dy = operands(slide)
    rest: Any = (xp.asarray(dy), slide.four(slide.stride), slide.padding)

    dx = host(conv2d_input_gradient(xp, x.shape, xp.asarray(w), *rest))
    dw = host(conv2d_filter_gradient(xp, xp.asarray(x), w.shape, *rest))

    v, u = slide.normal(1, *x.shape)[0], slide.normal(1, *w.shape)[0]
    along_x, along_w = naive_conv(slide, v, w) * dy, naive_conv(slide, x, u) * dy
    np.testing.assert_allclose((dx * v).sum(), along_x.sum(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose((dw * u).sum(), along_w.sum(), rtol=1e-9, atol=1e-9)


def test_many_halves_are_not_added_up_in_half_precision(xp: ModuleType) -> None:
    w = np.full((50, 50, 1, 1), 0.1, np.float16)
    dy = xp.ones((1, 50, 50, 1), dtype="float16")

    dx = conv2d_input_gradient(
        xp, (1, 50, 50, 1), xp.asarray(w), dy, [1, 1, 1, 1], "SAME"
    )

    # The middle of the image is seen by all places of the filter, one after the other.
    assert host(dx)[0, 25, 25, 0] == pytest.approx(
        2500 * float(w[0, 0, 0, 0]), rel=5e-4
    )


@pytest.mark.parametrize(
    ("x", "w", "expected"),
    [
        (None, None, (None, None, None, None)),
        (None, (3, 3, 2, 5), (None, None, None, 5)),
        ((None, None, 7, 2), (3, 3, 2, 5), (None, None, 3, 5)),
        ((4, 9, 9, None), (None, 3, 2, None), (4, None, 4, None)),
    ],
)
def test_what_is_unknown_makes_only_its_own_sizes_unknown(
    x: Any, w: Any, expected: tuple[int | None, ...]
) -> None:
    assert conv2d_shape(x, w, [1, 2, 2, 1], "VALID") == expected


@for_each(
    ("x", "w", "strides", "padding", "word"),
    [
        ((1, 4, 4, 1), (5, 5, 1, 1), [1, 1, 1, 1], "VALID", "fit"),
        ((1, 4, 4, 1), (5, 5, 1, 1), [1, 2, 2, 1], "VALID", "fit"),
        ((1, 4, 4, 3), (3, 3, 2, 1), [1, 1, 1, 1], "SAME", "channels"),
        ((1, 4, 4, 1), (3, 3, 1, 1), [1, 1, 1, 1], "FULL", "padding"),
        ((1, 4, 4, 1), (3, 3, 1, 1), [1, 0, 1, 1], "SAME", "strides"),
        ((1, 4, 4, 1), (3, 3, 1, 1), [2, 1, 1, 1], "SAME", "strides"),
        ((1, 4, 4, 1), (3, 3, 1, 1), [1, 1], "SAME", "strides"),
        ((4, 4, 1), (3, 3, 1, 1), [1, 1, 1, 1], "SAME", "four"),
        ((1, 4, 4, 1), (3, 3, 1), [1, 1, 1, 1], "SAME", "filters"),
        ((1, 4, 4, 1), (0, 3, 1, 1), [1, 1, 1, 1], "SAME", "filters"),
    ],
)
def test_what_does_not_go_together_is_refused_by_the_shape_and_by_the_kernel(
    x: Any, w: Any, strides: list[int], padding: str, word: str
) -> None:
    with pytest.raises(ValueError, match=word):
        conv2d_shape(x, w, strides, padding)
    with pytest.raises(InvalidArgumentError, match=word):
        conv2d(np, np.zeros(x), np.zeros(w), strides, padding)


def test_gradient_of_another_shape_is_refused(xp: ModuleType) -> None:
    x, w, dy = (xp.zeros(s) for s in ((1, 4, 4, 1), (3, 3, 1, 1), (1, 4, 4, 1)))

    with pytest.raises(
        InvalidArgumentError, match=r"dy .*\[1, 4, 4, 1\].*\[1, 2, 2, 1\]"
    ):
        conv2d_input_gradient(xp, x.shape, w, dy, [1, 1, 1, 1], "VALID")
    with pytest.raises(InvalidArgumentError, match="dy"):
        conv2d_filter_gradient(xp, x, w.shape, dy, [1, 1, 1, 1], "VALID")


# One image of these fills the cache that a part of the images is made for; the second
# has few channels, whose columns are computed in another way.
@pytest.mark.slow
@for_each("channels", [24, 3])
@for_each("padding", ["SAME", "VALID"])
def test_many_images_give_what_each_of_them_gives(
    xp: ModuleType, channels: int, padding: str
) -> None:
    slide = Slide(3, (64, 66), channels, (3, 3), (1, 2), padding, seed=11)
    x, w, dy = operands(slide)
    rest: Any = (slide.four(slide.stride), padding)

    def made(x: Any, dy: Any) -> tuple[Any, Any, Any]:
        x, dy, filters = xp.asarray(x), xp.asarray(dy), xp.asarray(w)
        y = conv2d(xp, x, filters, *rest)
        dx = conv2d_input_gradient(xp, x.shape, filters, dy, *rest)
        dw = conv2d_filter_gradient(xp, x, w.shape, dy, *rest)
        return host(y), host(dx), host(dw)

    alone = [made(x[[n]], dy[[n]]) for n in range(3)]
    y, dx, dw = made(x, dy)

    np.testing.assert_allclose(y, np.concatenate([row[0] for row in alone]))
    np.testing.assert_allclose(dx, np.concatenate([row[1] for row in alone]))
    np.testing.assert_allclose(dw, sum(row[2] for row in alone), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(y, naive_conv(slide, x, w), rtol=1e-9, atol=1e-9)


# With 128 channels and 64 filters the windows of all columns are one matrix.
@for_each("padding", ["SAME", "VALID"])
def test_large_products_give_the_sum_over_each_window(
    xp: ModuleType, padding: str
) -> None:
    slide = Slide(2, (5, 6), 128, (3, 3), (2, 1), padding, seed=13)
    x, w = slide.normal(*slide.shape), slide.normal(3, 3, 128, 64)
    dy, u = slide.normal(2, *slide.counts, 64), slide.normal(1, *w.shape)[0]
    rest: Any = (slide.four(slide.stride), padding)

    y = host(conv2d(xp, xp.asarray(x), xp.asarray(w), *rest))
    dw = conv2d_filter_gradient(xp, xp.asarray(x), w.shape, xp.asarray(dy), *rest)

    np.testing.assert_allclose(y, naive_conv(slide, x, w), atol=1e-10)
    along_w = (naive_conv(slide, x, u) * dy).sum()
    np.testing.assert_allclose((host(dw) * u).sum(), along_w, rtol=1e-9)


def test_images_that_lie_otherwise_in_memory_give_the_same(xp: ModuleType) -> None:
    slide = Slide(2, (6, 5), 24, (3, 3), (1, 1), "VALID", seed=12)
    x, w, dy = operands(slide)
    rest: Any = (slide.four(slide.stride), "VALID")

    def made(order: Any) -> list[Any]:
        images, filters, gradient = (
            xp.asarray(np.asarray(array, order=order)) for array in (x, w, dy)
        )
        return [
            conv2d(xp, images, filters, *rest),
            conv2d_input_gradient(xp, x.shape, filters, gradient, *rest),
            conv2d_filter_gradient(xp, images, w.shape, gradient, *rest),
        ]

    for ours, theirs in zip(made("F"), made("C"), strict=True):
        np.testing.assert_allclose(host(ours), host(theirs), rtol=1e-12, atol=1e-12)
