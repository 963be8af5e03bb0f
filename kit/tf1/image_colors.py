"""`tf.image`: dtypes, brightness, contrast and colors of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.tf1.ops import arithmetic, random
from kit.tf1.ops.arithmetic import cast, maximum, multiply, saturate_cast
from kit.tf1.ops.clip import clip_by_value
from kit.tf1.ops.creation import zeros_like
from kit.tf1.ops.index import where
from kit.tf1.ops.join import stack, unstack
from kit.tf1.ops.reduce import (
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
)
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.ops.shape import tile
from kit.tf1.tensor.convert import convert_to_tensor, op_scope
from kit.tf1.tensor.dtypes import as_dtype, float32


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
    return adjust_contrast(image, _factor(lower, upper, seed))


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


# --------------------------------------------------------------------------------------
# Colors.


def rgb_to_grayscale(images: Any, name: str | None = None) -> Any:
    """Return images of one channel: 0.2989 of red, 0.587 of green, 0.114 of blue."""
    with op_scope(name, "rgb_to_grayscale", [images]):
        pixels = convert_to_tensor(images, name="images")
        return _as_floats(
            pixels,
            lambda x: reduce_sum(
                x * cast([0.2989, 0.587, 0.114], x.dtype.base_dtype), -1, keepdims=True
            ),
        )


def grayscale_to_rgb(images: Any, name: str | None = None) -> Any:
    """Return images of three equal channels."""
    with op_scope(name, "grayscale_to_rgb", [images]):
        pixels = convert_to_tensor(images, name="images")
        return tile(pixels, [1] * (pixels.shape.ndims - 1) + [3])


def rgb_to_hsv(images: Any, name: str | None = None) -> Any:
    """Return hue, saturation and value of colors, all from 0 to 1."""
    with op_scope(name, "RGBToHSV", [images]) as scope:
        pixels = convert_to_tensor(images, name="images")
        red, green, blue = unstack(pixels, axis=-1, num=3)
        value, least = reduce_max(pixels, -1), reduce_min(pixels, -1)
        span, nothing = value - least, zeros_like(value)
        sixth = 1 / (6 * where(span > 0, span, nothing + 1))
        hue = where(
            arithmetic.equal(red, value),
            sixth * (green - blue),
            where(
                arithmetic.equal(green, value),
                sixth * (blue - red) + 2 / 6,
                sixth * (red - green) + 4 / 6,
            ),
        )
        hue = where(hue < 0, hue + 1, hue)
        saturation = span / where(value > 0, value, nothing + 1)
        parts = [where(span > 0, hue, nothing), saturation, value]
        return stack(parts, axis=-1, name=scope)


def hsv_to_rgb(images: Any, name: str | None = None) -> Any:
    """Return the colors of hues, saturations and values from 0 to 1."""
    with op_scope(name, "HSVToRGB", [images]) as scope:
        pixels = convert_to_tensor(images, name="images")
        hue, saturation, value = unstack(pixels, axis=-1, num=3)
        at = hue * 6
        shares = [abs(at - 3) - 1, 2 - abs(at - 2), 2 - abs(at - 4)]
        parts = [
            (1 - saturation + saturation * clip_by_value(share, 0.0, 1.0)) * value
            for share in shares
        ]
        return stack(parts, axis=-1, name=scope)


def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Any:
    """Return images with hues turned by `delta`, where 1 is the whole circle."""
    return _recolored(
        "adjust_hue",
        image,
        name,
        lambda h, s, v: [arithmetic.mod(h + delta, 1.0), s, v],
    )


def adjust_saturation(
    image: Any, saturation_factor: Any, name: str | None = None
) -> Any:
    """Return images with the saturation so many times, up to 1."""

    def change(h: Any, s: Any, v: Any) -> list[Any]:
        return [h, clip_by_value(s * saturation_factor, 0.0, 1.0), v]

    return _recolored("adjust_saturation", image, name, change)


def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Any:
    """Return images with hues turned by a number up to `max_delta` either way."""
    if not 0 <= max_delta <= 0.5:
        raise ValueError(f"max_delta must be from 0 to 0.5, not {max_delta}.")
    delta = random.random_uniform([], -max_delta, max_delta, seed=seed)
    return adjust_hue(image, delta)


def random_saturation(
    image: Any, lower: float, upper: float, seed: int | None = None
) -> Any:
    """Return images with the saturation times a factor between two bounds."""
    return adjust_saturation(image, _factor(lower, upper, seed))


def _factor(lower: float, upper: float, seed: int | None) -> Any:
    if lower < 0:
        raise ValueError(f"lower must be non-negative, not {lower}.")
    if upper <= lower:
        raise ValueError(f"upper must be > lower; they are {upper} and {lower}.")
    return random.random_uniform([], lower, upper, seed=seed)


def _recolored(
    default: str, image: Any, name: str | None, change: Callable[..., list[Any]]
) -> Any:
    def recolor(x: Any) -> Any:
        parts = unstack(rgb_to_hsv(x), axis=-1, num=3)
        return hsv_to_rgb(stack(change(*parts), axis=-1))

    with op_scope(name, default, [image]):
        return _as_floats(convert_to_tensor(image, name="image"), recolor)
