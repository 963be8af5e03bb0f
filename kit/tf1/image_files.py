"""`tf.image`: images in files, and boxes in images."""

from __future__ import annotations

from typing import Any, NamedTuple

from kit.tf1.image_colors import convert_image_dtype
from kit.tf1.ops.random import random_uniform
from kit.tf1.tensor.convert import convert_to_tensor, create, op_scope
from kit.tf1.tensor.dtypes import as_dtype, float32, string, uint8


def decode_jpeg(
    contents: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Any:
    """Return the pixels of a JPEG [row, column, channel] as uint8; of a PNG too.

    `channels` is 1, 3, or 0: as many as the file has. The pixels are those of Pillow,
    which may differ a little from those of another decoder. Raises `ValueError` for
    another `ratio` than 1; in a run `InvalidArgumentError` for what is no image.
    """
    if ratio != 1:
        raise ValueError(f"ratio is {ratio}; take 1, and tf.image.resize_images.")
    return _decoded("DecodeJpeg", contents, channels, name)


def decode_png(
    contents: Any, channels: int = 0, dtype: Any = uint8, name: str | None = None
) -> Any:
    """Return the pixels of a PNG as uint8, of a JPEG too; see `decode_jpeg`.

    `channels` may be 4 too. Raises `ValueError` for another dtype than uint8.
    """
    if as_dtype(dtype) != uint8:
        raise ValueError(f"dtype is {as_dtype(dtype).name}; only tf.uint8 is taken.")
    return _decoded("DecodePng", contents, channels, name)


def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Any:
    """Return the pixels of a BMP as uint8."""
    return _decoded("DecodeBmp", contents, channels, name)


def decode_gif(contents: Any, name: str | None = None) -> Any:
    """Return the images of a GIF [image, row, column, 3] as uint8."""
    return _decoded("DecodeGif", contents, 3, name, "all")


def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Any:
    """Return the pixels of a JPEG, PNG, BMP or GIF, of which all images; floats to 1.

    The shape is not known when the graph is built; `set_shape` tells it. Without
    `expand_animations` a GIF's first image is taken.
    """
    frames = "any" if expand_animations else "one"
    with op_scope(name, "decode_image", [contents]):
        pixels = _decoded("DecodeImage", contents, channels or 0, None, frames)
        return convert_image_dtype(pixels, dtype)


def _decoded(
    kind: str, contents: Any, channels: int, name: str | None, frames: str = "one"
) -> Any:
    most = 3 if kind == "DecodeJpeg" else 4
    if channels not in range(most + 1) or channels == 2:
        raise ValueError(f"channels must be 0, 1, 3 or 4, got {channels}")
    with op_scope(name, kind, [contents]) as scope:
        texts = convert_to_tensor(contents, string, name="contents")
        return create(
            "DecodeImage", texts, name=scope, channels=channels, frames=frames
        )


def draw_bounding_boxes(
    images: Any, boxes: Any, name: str | None = None, colors: Any = None
) -> Any:
    """Return a batch of images with the edges of boxes [image, box, 4] painted on.

    A box is [top, left, bottom, right] in parts of the size. `colors` is a list of
    colors [color, channel] taken in turns; without it they are yellow, blue, red, ...
    """
    with op_scope(name, "DrawBoundingBoxesV2", [images, boxes]) as scope:
        tensors = [convert_to_tensor(images, name="images")]
        rest = [boxes] if colors is None else [boxes, colors]
        tensors += [convert_to_tensor(tensor, float32) for tensor in rest]
        return create("DrawBoundingBoxesV2", *tensors, name=scope)


class SampleDistortedBoundingBoxV2(NamedTuple):
    """A part of an image: [top, left, 0], [rows, columns, -1], and it as a box."""

    begin: Any
    size: Any
    bboxes: Any


def sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: int | None = None,
    seed2: int | None = None,
    min_object_covered: float = 0.1,
    aspect_ratio_range: Any = None,
    area_range: Any = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> Any:
    """Return begin and size, for `tf.slice`, and the box of a part of an image by lot.

    It has at least `min_object_covered` of one of `bounding_boxes` [..., box, 4]. When
    none is found in `max_attempts`, 100, it is the whole image. In a run
    `InvalidArgumentError` where there are no boxes, unless the image may be the box.
    """
    with op_scope(name, "SampleDistortedBoundingBoxV2", [image_size]) as scope:
        size = convert_to_tensor(image_size, name="image_size")
        boxes = convert_to_tensor(bounding_boxes, float32, name="bounding_boxes")
        results = create(
            "SampleDistortedBoundingBoxV2",
            size,
            boxes,
            random_uniform([max_attempts or 100, 4], seed=seed),
            name=scope,
            covered=float(min_object_covered),
            ratios=tuple(aspect_ratio_range or (0.75, 1.33)),
            areas=tuple(area_range or (0.05, 1.0)),
            whole=bool(use_image_if_no_bounding_boxes),
        )
        return SampleDistortedBoundingBoxV2(*results)
