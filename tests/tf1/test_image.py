"""`tf.image`, random crops and local response normalization, by formulas in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kit import tf1 as tf
from tests.tf1.look import finite_difference, run

IMAGES = np.random.default_rng(0).random(size=(4, 5, 6, 3)).astype(np.float32)


def interpolated(images: Any, size: tuple[int, int], corners: bool) -> Any:
    """Write the bilinear formula out, pixel by pixel."""
    old = images.shape[1:3]
    made = np.zeros((len(images), *size, images.shape[3]))
    for target in np.ndindex(size):
        at = [
            t * ((o - 1) / (n - 1) if corners else o / n)
            for t, o, n in zip(target, old, size, strict=True)
        ]
        for corner in np.ndindex(2, 2):
            low = [int(a) for a in at]
            shares = [
                (a - i) if c else 1 - (a - i)
                for a, i, c in zip(at, low, corner, strict=True)
            ]
            row, column = (
                min(i + c, o - 1) for i, c, o in zip(low, corner, old, strict=True)
            )
            share = shares[0] * shares[1]
            made[:, target[0], target[1]] += share * images[:, row, column]
    return made


@pytest.mark.parametrize("size", [(7, 4), (10, 12), (3, 3)])
@pytest.mark.parametrize("corners", [True, False])
def test_a_bilinear_size_is_made_of_the_four_pixels_around(
    size: tuple[int, int], corners: bool
) -> None:
    result = run(tf.image.resize_images(IMAGES, size, align_corners=corners))

    np.testing.assert_allclose(result, interpolated(IMAGES, size, corners), atol=1e-5)


def test_the_nearest_pixel_keeps_the_dtype() -> None:
    whole = (IMAGES * 255).astype(np.uint8)
    method = tf.image.ResizeMethod.NEAREST_NEIGHBOR
    result = run(tf.image.resize_images(whole, [10, 3], method))
    first = tf.image.resize_images(whole[0], [10, 3])

    rows, columns = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4], [0, 2, 4]
    assert result.dtype == np.uint8
    np.testing.assert_array_equal(result, whole[:, rows][:, :, columns])
    assert (first.shape.as_list(), first.dtype.name) == ([10, 3, 3], "float32")


def test_a_fed_batch_is_resized_and_has_a_gradient() -> None:
    x = tf.placeholder(tf.float32, [None, 5, 6, 3])
    y = tf.image.resize_bilinear(x, [7, 4])
    weights = np.random.default_rng(1).normal(size=(4, 7, 4, 3)).astype(np.float32)
    (slope,) = tf.gradients(y * weights, x)
    exact = run(slope, {x: IMAGES})

    assert y.shape.as_list() == [None, 7, 4, 3]
    for at in [(0, 0, 0, 0), (1, 4, 5, 2), (3, 2, 3, 1)]:
        unit = np.zeros_like(IMAGES)
        unit[at] = 1  # the function is linear
        expected = (interpolated(unit, (7, 4), False) * weights).sum()
        assert exact[at] == pytest.approx(expected, abs=1e-5)


def test_each_image_of_a_batch_is_flipped_or_not() -> None:
    batch = np.repeat(IMAGES[:1], 200, axis=0)
    flipped = batch[0, :, ::-1]
    result = run(tf.image.random_flip_left_right(batch, seed=3))
    plain = run(tf.image.flip_left_right(IMAGES[0]))
    over = run(tf.image.flip_up_down(IMAGES))

    is_flipped = [np.array_equal(item, flipped) for item in result]
    is_same = [np.array_equal(item, batch[0]) for item in result]
    assert [a != b for a, b in zip(is_flipped, is_same, strict=True)] == [True] * 200
    assert 70 < sum(is_flipped) < 130
    np.testing.assert_array_equal(plain, flipped)
    np.testing.assert_array_equal(over, IMAGES[:, ::-1])


def test_standardized_images_have_mean_zero_and_variance_one() -> None:
    result = run(tf.image.per_image_standardization(IMAGES))
    flat = run(tf.image.per_image_standardization(np.full((2, 2, 3), 7, np.uint8)))

    np.testing.assert_allclose(result.mean((1, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(result.std((1, 2, 3)), 1, rtol=1e-4)
    assert not flat.any()


def test_crops_are_blocks_and_all_of_them_come(session: Any) -> None:
    image = np.arange(12).reshape(3, 4, 1)
    crop = tf.random_crop(image, [2, 3, 1], seed=1)
    begins = {int(row[0, 0, 0]) for row in (session.run(crop) for _ in range(60))}
    block = session.run(crop)[..., 0]

    assert begins == {0, 1, 4, 5}
    np.testing.assert_array_equal(block - block[0, 0], [[0, 1, 2], [4, 5, 6]])
    assert crop.shape.as_list() == [2, 3, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="shape >= size"):
        tf.random_crop(image, [4, 1, 1])


def test_brightness_and_contrast_change_by_one_number_in_its_range() -> None:
    brighter = run(tf.image.random_brightness(IMAGES, 0.2, seed=1)) - IMAGES
    mean = IMAGES.mean((1, 2), keepdims=True)
    sharper = run(tf.image.random_contrast(IMAGES, 0.5, 1.5, seed=1)) - mean
    whole = run(tf.image.adjust_brightness(np.array([[[0, 100, 250]]], np.uint8), 0.1))

    assert np.ptp(brighter) < 1e-6
    assert 0 < abs(brighter[0, 0, 0, 0]) <= 0.2
    factor = (sharper / (IMAGES - mean)).ravel()
    np.testing.assert_allclose(factor, np.median(factor), rtol=1e-2)
    assert 0.5 <= np.median(factor) < 1.5
    assert whole.tolist() == [[[25, 125, 255]]]


def test_an_image_is_cut_or_put_in_the_middle() -> None:
    result = run(tf.image.resize_image_with_crop_or_pad(IMAGES, 3, 10))

    assert result.shape == (4, 3, 10, 3)
    np.testing.assert_array_equal(result[:, :, 2:8], IMAGES[:, 1:4])
    assert not result[:, :, :2].any()
    assert not result[:, :, 8:].any()


def test_a_response_is_divided_by_those_of_the_channels_around() -> None:
    images = np.random.default_rng(2).normal(size=(2, 2, 2, 7)).astype(np.float64)
    x = tf.placeholder(tf.float64, [None, 2, 2, 7])
    y = tf.nn.lrn(x, 2, bias=1.5, alpha=0.3, beta=0.75)
    weights = np.random.default_rng(3).normal(size=images.shape)
    loss = tf.reduce_sum(y * weights)
    (slope,) = tf.gradients(loss, x)
    result, exact = run([y, slope], {x: images})

    expected = np.empty_like(images)
    for c in range(7):
        around = (images[..., max(0, c - 2) : c + 3] ** 2).sum(-1)
        expected[..., c] = images[..., c] / (1.5 + 0.3 * around) ** 0.75
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    assert tf.nn.local_response_normalization is tf.nn.lrn
    for at in [(0, 0, 0, 0), (1, 1, 0, 3), (1, 0, 1, 6)]:
        expected = finite_difference(lambda v: run(loss, {x: v}), images, at)
        assert exact[at] == pytest.approx(expected, abs=1e-6)


def test_what_cannot_be_resized_says_what_is_missing() -> None:
    open_ended = tf.placeholder(tf.float32, [None, None, None, 3])

    with pytest.raises(ValueError, match=r"size of axis 1 .* must be known"):
        tf.image.resize_images(open_ended, [2, 2], preserve_aspect_ratio=True)
    with pytest.raises(ValueError, match="give ResizeMethod"):
        tf.image.resize_images(IMAGES, [2, 2], tf.image.ResizeMethod.AREA)
    with pytest.raises(ValueError, match="two integers that are known"):
        tf.image.resize_images(IMAGES, tf.placeholder(tf.int32, [2]))
