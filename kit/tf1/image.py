"""`tf.image`: sizes, flips and crops of images, and what belongs to them.

An image is [row, column, channel], a batch has one axis more in front. What is random
is drawn anew in each run.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from kit.tf1.not_offered import refusing
from kit.tf1.ops import arithmetic, random
from kit.tf1.ops.arithmetic import cast, minimum
from kit.tf1.ops.index import gather, where
from kit.tf1.ops.index import slice as slice_of
from kit.tf1.ops.random import random_crop as random_crop
from kit.tf1.ops.shape import expand_dims, pad, reshape, reverse, squeeze
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.public import offer
from kit.tf1.tensor.convert import convert_to_tensor, op_scope
from kit.tf1.tensor.dtypes import float32, float64, int32

offer(
    __name__,
    "kit.tf1.image_colors",
    "kit.tf1.image_files",
    without=["SampleDistortedBoundingBoxV2"],
)


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

    Raises `ValueError` for a size that is not known when the graph is built.
    """
    with op_scope(name, "ResizeBilinear", [images, size]) as scope:
        pixels = cast(convert_to_tensor(images), float32)
        for axis, new in zip((2, 1), reversed(_two(size)), strict=True):
            at, last = _places(pixels, axis, new, align_corners)
            low = minimum(cast(at, int32), last)
            high = minimum(low + 1, last)
            share = reshape(at - cast(low, float32), [-1] + [1] * (3 - axis))
            first, second = (gather(pixels, i, axis=axis) for i in (low, high))
            pixels = first + (second - first) * share
        return arithmetic.identity(pixels, name=scope)


def resize_nearest_neighbor(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None
) -> Any:
    """Return a batch of another size, of the pixels that are nearest.

    Raises `ValueError` for a size that is not known when the graph is built.
    """
    with op_scope(name, "ResizeNearestNeighbor", [images, size]) as scope:
        pixels = convert_to_tensor(images)
        for axis, new in zip((1, 2), _two(size), strict=True):
            at, last = _places(pixels, axis, new, align_corners)
            whole = cast(at + 0.5 if align_corners else at, int32)
            pixels = gather(pixels, minimum(whole, last), axis=axis)
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
    pixel, for inputs of other axes, and for a size that is not known now.
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
        new, old = _two(size), batch.shape.as_list()[1:3]
        if preserve_aspect_ratio:
            old = [_static_size(batch, 1), _static_size(batch, 2)]
            factor = min(n / o for n, o in zip(new, old, strict=True))
            new = [round(factor * o) for o in old]
        if new == old:
            return pixels
        resized = _METHODS[method](batch, new, align_corners)
        return squeeze(resized, [0]) if is_image else resized


def _places(pixels: Any, axis: int, new: int, align_corners: bool) -> tuple[Any, Any]:
    """Return where the new pixels are among the old ones, and the last of these."""
    old = _size(pixels, axis)
    ends = align_corners and new > 1
    scale = cast(old - 1 if ends else old, float32) / float(new - 1 if ends else new)
    return np.arange(new, dtype=np.float32) * scale, old - 1


def _two(size: Any) -> list[int]:
    value = convert_to_tensor(size, name="size").static.value
    if value is None or value.shape != (2,):
        raise ValueError(
            f"'size' must be two integers that are known when the graph is built, "
            f"(height, width), not {size!r}."
        )
    return [int(n) for n in value]


def _size(images: Any, axis: int) -> Any:
    """Return the size of an axis: an int, or a tensor where only a run knows it."""
    sizes = images.shape.as_list()[axis]
    return shape_of(images)[axis] if sizes is None else sizes


def _static_size(images: Any, axis: int) -> int:
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
        height, width = _static_size(pixels, rank - 3), _static_size(pixels, rank - 2)
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
        sizes = [_size(pixels, rank - 3), _size(pixels, rank - 2)]
        kept = [_least(*pair) for pair in zip(sizes, target, strict=True)]
        before = [(o - k) // 2 for o, k in zip(sizes, kept, strict=True)]
        pixels = crop_to_bounding_box(pixels, *before, *kept)
        before = [(t - k) // 2 for t, k in zip(target, kept, strict=True)]
        borders = [
            [first, whole - first - part]
            for first, whole, part in zip(before, target, kept, strict=True)
        ]
        padded = pad(pixels, [[0, 0]] * (rank - 3) + borders + [[0, 0]])
        padded.set_shape([*padded.shape.as_list()[: rank - 3], *target, None])
        return padded


def central_crop(image: Any, central_fraction: float) -> Any:
    """Return the middle of an image, or of a batch: so much of each side.

    Raises `ValueError` for a fraction that is not above 0 and at most 1.
    """
    if not 0 < central_fraction <= 1:
        raise ValueError("central_fraction must be within (0, 1]")
    with op_scope(None, "central_crop", [image]):
        pixels = convert_to_tensor(image, name="image")
        if central_fraction == 1:
            return pixels
        rank = pixels.shape.ndims
        sizes = [_size(pixels, axis) for axis in (rank - 3, rank - 2)]
        begin = [_first(size, central_fraction) for size in sizes]
        kept = [o - 2 * b for o, b in zip(sizes, begin, strict=True)]
        return crop_to_bounding_box(pixels, *begin, *kept)


def _first(size: Any, fraction: float) -> Any:
    if isinstance(size, int):
        return int((size - size * fraction) / 2)
    whole = cast(size, float64)
    return cast((whole - whole * fraction) / 2, int32)


def _least(first: Any, second: int) -> Any:
    is_static = isinstance(first, int)
    return min(first, second) if is_static else minimum(first, second)


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


__getattr__ = refusing("image")
