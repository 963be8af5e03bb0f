"""`tf.image`: sizes, flips, crops, brightness and contrast of images.

An image is [row, column, channel], a batch has one axis more in front. What is random
is drawn anew in each run.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from kit.tf1.not_offered import refuse
from kit.tf1.ops import arithmetic, random
from kit.tf1.ops.arithmetic import cast, maximum, multiply, saturate_cast
from kit.tf1.ops.index import gather, where
from kit.tf1.ops.index import slice as slice_of
from kit.tf1.ops.random import random_crop as random_crop
from kit.tf1.ops.reduce import reduce_mean, reduce_prod
from kit.tf1.ops.shape import expand_dims, pad, reverse, squeeze
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.tensor.convert import convert_to_tensor, op_scope
from kit.tf1.tensor.dtypes import as_dtype, float32

__all__ = [
    "ResizeMethod",
    "adjust_brightness",
    "adjust_contrast",
    "convert_image_dtype",
    "crop_to_bounding_box",
    "flip_left_right",
    "flip_up_down",
    "pad_to_bounding_box",
    "per_image_standardization",
    "random_brightness",
    "random_contrast",
    "random_crop",
    "random_flip_left_right",
    "random_flip_up_down",
    "resize_bilinear",
    "resize_image_with_crop_or_pad",
    "resize_images",
    "resize_nearest_neighbor",
]


class ResizeMethod(enum.IntEnum):
    """How the pixels of an image of another size are made."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


# --------------------------------------------------------------------------------------
# Another size.


def resize_bilinear(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None
) -> Any:
    """Return a batch of another size as float32, by the four pixels around each.

    Raises `ValueError` for sizes that are not known when the graph is built.
    """
    with op_scope(name, "ResizeBilinear", [images, size]) as scope:
        pixels = cast(convert_to_tensor(images), float32)
        for axis, new in zip((2, 1), reversed(_two(size)), strict=True):
            old = _known(pixels, axis)
            at = np.arange(new, dtype=np.float32) * _scale(old, new, align_corners)
            low = np.minimum(at.astype(np.int32), old - 1)
            high = np.minimum(low + 1, old - 1)
            share = (at - low).reshape([-1] + [1] * (3 - axis))
            first, second = (gather(pixels, i, axis=axis) for i in (low, high))
            pixels = first + (second - first) * share
        return arithmetic.identity(pixels, name=scope)


def resize_nearest_neighbor(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None
) -> Any:
    """Return a batch of another size, of the pixels that are nearest.

    Raises `ValueError` for sizes that are not known when the graph is built.
    """
    with op_scope(name, "ResizeNearestNeighbor", [images, size]) as scope:
        pixels = convert_to_tensor(images)
        for axis, new in zip((1, 2), _two(size), strict=True):
            old = _known(pixels, axis)
            at = np.arange(new, dtype=np.float32) * _scale(old, new, align_corners)
            whole = np.floor(at + 0.5) if align_corners else np.floor(at)
            index = np.minimum(whole, old - 1).astype(np.int32)
            pixels = gather(pixels, index, axis=axis)
        return arithmetic.identity(pixels, name=scope)


_METHODS = {
    ResizeMethod.BILINEAR: resize_bilinear,
    ResizeMethod.NEAREST_NEIGHBOR: resize_nearest_neighbor,
}


def resize_images(
    images: Any,
    size: Any,
    method: Any = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Any:
    """Return an image or a batch of another size; as it is if it has that size.

    Raises `ValueError` for another method than the bilinear and that of the nearest
    pixel, for inputs of other axes, and for sizes that are not known now.
    """
    if method not in _METHODS:
        raise ValueError(
            f"method is {method!r}; give ResizeMethod.BILINEAR or NEAREST_NEIGHBOR."
        )
    with op_scope(name, "resize", [images, size]):
        pixels = convert_to_tensor(images, name="images")
        is_image = pixels.shape.ndims == 3
        if pixels.shape.ndims not in (3, 4):
            raise ValueError(
                f"'images' must have either 3 or 4 dimensions, not {pixels!r}."
            )
        batch = expand_dims(pixels, 0) if is_image else pixels
        new, old = _two(size), [_known(batch, 1), _known(batch, 2)]
        if preserve_aspect_ratio:
            factor = min(n / o for n, o in zip(new, old, strict=True))
            new = [round(factor * o) for o in old]
        if new == old:
            return pixels
        resized = _METHODS[method](batch, new, align_corners)
        return squeeze(resized, [0]) if is_image else resized


def _scale(old: int, new: int, align_corners: bool) -> np.float32:
    if align_corners and new > 1:
        return np.float32((old - 1) / np.float32(new - 1))
    return np.float32(old / np.float32(new))


def _two(size: Any) -> list[int]:
    value = convert_to_tensor(size, name="size").static.value
    if value is None or value.shape != (2,):
        raise ValueError(
            f"'size' must be two integers that are known when the graph is built, "
            f"(height, width), not {size!r}."
        )
    return [int(n) for n in value]


def _known(images: Any, axis: int) -> int:
    size = images.shape.as_list()[axis]
    if size is None:
        raise ValueError(
            f"the size of axis {axis} of {images!r} must be known when the graph is "
            f"built; give it in tf.placeholder or images.set_shape."
        )
    return int(size)


# --------------------------------------------------------------------------------------
# A part, or a border of zeros.


def crop_to_bounding_box(
    image: Any,
    offset_height: int,
    offset_width: int,
    target_height: int,
    target_width: int,
) -> Any:
    """Return the part of an image, or of a batch, that begins at an offset."""
    with op_scope(None, "crop_to_bounding_box", [image]):
        pixels = convert_to_tensor(image, name="image")
        lead = [0] * (pixels.shape.ndims - 3)
        begin = [*lead, offset_height, offset_width, 0]
        size = [*[-1 for _ in lead], target_height, target_width, -1]
        return slice_of(pixels, begin, size)


def pad_to_bounding_box(
    image: Any,
    offset_height: int,
    offset_width: int,
    target_height: int,
    target_width: int,
) -> Any:
    """Return an image, or a batch, within zeros."""
    with op_scope(None, "pad_to_bounding_box", [image]):
        pixels = convert_to_tensor(image, name="image")
        rank = pixels.shape.ndims
        height, width = _known(pixels, rank - 3), _known(pixels, rank - 2)
        after = (
            target_height - offset_height - height,
            target_width - offset_width - width,
        )
        if min(offset_height, offset_width, *after) < 0:
            raise ValueError(
                f"an image of {height} x {width} at {offset_height}, {offset_width} is "
                f"not within {target_height} x {target_width}."
            )
        borders = [[offset_height, after[0]], [offset_width, after[1]], [0, 0]]
        return pad(pixels, [[0, 0]] * (rank - 3) + borders)


def resize_image_with_crop_or_pad(
    image: Any, target_height: int, target_width: int
) -> Any:
    """Return the middle of an image, or the image in the middle of zeros."""
    with op_scope(None, "resize_image_with_crop_or_pad", [image]):
        pixels = convert_to_tensor(image, name="image")
        rank = pixels.shape.ndims
        target = [target_height, target_width]
        sizes = [_known(pixels, rank - 3), _known(pixels, rank - 2)]
        kept = [min(pair) for pair in zip(sizes, target, strict=True)]
        before = [(o - k) // 2 for o, k in zip(sizes, kept, strict=True)]
        pixels = crop_to_bounding_box(pixels, *before, *kept)
        before = [(t - k) // 2 for t, k in zip(target, kept, strict=True)]
        return pad_to_bounding_box(pixels, *before, *target)


# --------------------------------------------------------------------------------------
# Turned over.


def flip_left_right(image: Any) -> Any:
    """Return an image, or a batch, with its columns in reverse order."""
    return _flipped(image, -2, "flip_left_right")


def flip_up_down(image: Any) -> Any:
    """Return an image, or a batch, with its rows in reverse order."""
    return _flipped(image, -3, "flip_up_down")


def random_flip_left_right(image: Any, seed: int | None = None) -> Any:
    """Return an image as it is or flipped, each image of a batch for itself."""
    return _perhaps_flipped(image, -2, seed, "random_flip_left_right")


def random_flip_up_down(image: Any, seed: int | None = None) -> Any:
    """Return an image as it is or upside down, each image of a batch for itself."""
    return _perhaps_flipped(image, -3, seed, "random_flip_up_down")


def _flipped(image: Any, axis: int, name: str) -> Any:
    with op_scope(None, name, [image]):
        pixels = convert_to_tensor(image, name="image")
        if pixels.shape.ndims not in (3, 4):
            raise ValueError(f"'image' must have 3 or 4 dimensions, not {pixels!r}.")
        return reverse(pixels, [pixels.shape.ndims + axis])


def _perhaps_flipped(image: Any, axis: int, seed: int | None, name: str) -> Any:
    with op_scope(None, name, [image]):
        pixels = convert_to_tensor(image, name="image")
        flipped = _flipped(pixels, axis, "flip")
        count = [] if pixels.shape.ndims == 3 else [shape_of(pixels)[0]]
        return where(random.random_uniform(count, seed=seed) < 0.5, flipped, pixels)


# --------------------------------------------------------------------------------------
# Brightness and contrast.


def per_image_standardization(image: Any) -> Any:
    """Return each image with mean 0 and variance 1, as float32.

    Of an image that is nearly of one colour the differences are not blown up.
    """
    with op_scope(None, "per_image_standardization", [image]):
        pixels = cast(convert_to_tensor(image, name="image"), float32)
        count = cast(reduce_prod(shape_of(pixels)[-3:]), float32)
        mean = reduce_mean(pixels, [-1, -2, -3], keepdims=True)
        spread = pixels - mean
        variance = reduce_mean(arithmetic.square(spread), [-1, -2, -3], keepdims=True)
        least = arithmetic.rsqrt(count)
        return spread / maximum(arithmetic.sqrt(variance), least)


def adjust_brightness(image: Any, delta: Any) -> Any:
    """Return an image with `delta` added, where 1 is the span of its dtype."""
    with op_scope(None, "adjust_brightness", [image, delta]):
        pixels = convert_to_tensor(image, name="image")
        return _as_floats(pixels, lambda x: x + cast(delta, x.dtype.base_dtype))


def adjust_contrast(images: Any, contrast_factor: Any) -> Any:
    """Return images whose distance to the mean of each channel is so many times."""
    with op_scope(None, "adjust_contrast", [images, contrast_factor]):

        def further(x: Any) -> Any:
            mean = reduce_mean(x, [-3, -2], keepdims=True)
            factor = cast(contrast_factor, x.dtype.base_dtype)
            return multiply(x - mean, factor) + mean

        return _as_floats(convert_to_tensor(images, name="images"), further)


def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Any:
    """Return an image with one number added, between plus and minus `max_delta`."""
    if max_delta < 0:
        raise ValueError(f"max_delta must be non-negative, not {max_delta}.")
    delta = random.random_uniform([], -max_delta, max_delta, seed=seed)
    return adjust_brightness(image, delta)


def random_contrast(
    image: Any, lower: float, upper: float, seed: int | None = None
) -> Any:
    """Return an image with the contrast changed by a factor between two bounds."""
    if lower < 0:
        raise ValueError(f"lower must be non-negative, not {lower}.")
    if upper <= lower:
        raise ValueError(f"upper must be > lower; they are {upper} and {lower}.")
    return adjust_contrast(image, random.random_uniform([], lower, upper, seed=seed))


def convert_image_dtype(
    image: Any, dtype: Any, saturate: bool = False, name: str | None = None
) -> Any:
    """Return an image in another dtype; floats are from 0 to 1, integers up to the max.

    Raises `ValueError` between two integer dtypes.
    """
    wanted, pixels = as_dtype(dtype), convert_to_tensor(image, name="image")
    here = pixels.dtype.base_dtype
    if wanted == here:
        return arithmetic.identity(pixels, name=name)
    with op_scope(name, "convert_image", [pixels]) as scope:
        if here.is_integer and wanted.is_integer:
            raise ValueError(
                f"convert_image_dtype takes no {here.name} to {wanted.name} here; "
                f"convert to tf.float32 first."
            )
        if here.is_integer:
            return multiply(cast(pixels, wanted), 1.0 / here.max, name=scope)
        if wanted.is_integer:
            scaled = pixels * (wanted.max + 0.5)
            to_whole = saturate_cast if saturate else cast
            return to_whole(scaled, wanted, name=scope)
        return cast(pixels, wanted, name=scope)


def _as_floats(image: Any, change: Any) -> Any:
    dtype = image.dtype.base_dtype
    floats = image if dtype.is_floating else convert_image_dtype(image, float32)
    return convert_image_dtype(change(floats), dtype, saturate=True)


def __getattr__(name: str) -> Any:
    refuse("image", name)
