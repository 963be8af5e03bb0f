"""Images: taken out of files by Pillow, boxes drawn on them, and boxes drawn by lot.

A box is [top, left, bottom, right] in parts of the height and width. Random numbers are
inputs, so that the ops that draw them have the seeds.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.dtypes import STRING, Array, name_of
from kit.graph.static import Static
from kit.graph.table import Attrs, enter, infer_like

_BYTE = np.dtype(np.uint8)
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_COLORS = np.array(
    [
        *([1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1]),
        *([0.5, 0.5, 0, 1], [0.5, 0, 0, 1], [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1]),
    ],
    np.float32,
)


# --------------------------------------------------------------------------------------
# Files


def _infer_decoded(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    if inputs[0].dtype != STRING:
        raise TypeError(f"an image in a file is bytes, not {name_of(inputs[0].dtype)}.")
    shape = (None, None, attrs["channels"] or None)
    return [Static({"one": shape, "all": (None, *shape)}.get(attrs["frames"]), _BYTE)]


def _decode(_: ModuleType, contents: Any, *, channels: int, frames: str) -> Array:
    """Return the pixels of a JPEG, PNG, BMP or GIF; `frames` is "one", "all", "any"."""
    from PIL import Image, ImageSequence  # only programs with pictures wait for it

    data = np.asarray(contents, object).item()
    try:
        with Image.open(
            io.BytesIO(data), formats=("JPEG", "PNG", "BMP", "GIF")
        ) as file:
            is_moving = file.format == "GIF"
            if channels == 1:
                file.draft("L", file.size)  # the brightness that a JPEG holds as such
            if is_moving and frames != "one":
                shown = [frame.convert("RGB") for frame in ImageSequence.Iterator(file)]
                return np.stack([np.asarray(frame) for frame in shown])
            mode = _MODES.get(channels) or _own_mode(file)
            pixels = np.asarray(file.convert(mode))
    except (OSError, SyntaxError, ValueError) as exc:
        raise InvalidArgumentError(
            f"Expected image (JPEG, PNG, BMP or GIF), got {len(data)} bytes that begin "
            f"with {data[:8]!r}: {exc}."
        ) from exc
    pixels = pixels if pixels.ndim == 3 else pixels[:, :, None]
    return pixels[None] if frames == "all" else pixels


def _own_mode(file: Any) -> str:
    if file.mode == "P":
        return "RGBA" if "transparency" in file.info else "RGB"
    if file.mode in _MODES.values():
        return str(file.mode)
    return "L" if file.mode == "1" else "RGB"


# --------------------------------------------------------------------------------------
# Boxes


def _draw_boxes(_: ModuleType, images: Any, boxes: Any, *colors: Any) -> Array:
    drawn = np.array(images)
    n_rows, n_columns, depth = drawn.shape[1:]
    table = colors[0] if colors and len(colors[0]) else _COLORS
    paint = np.ones((1, 1), drawn.dtype) if depth == 1 else table[:, :depth]
    ends = np.array([n_rows - 1, n_columns - 1] * 2, np.float32)
    for image, of_image in zip(drawn, boxes, strict=True):
        for number, box in enumerate(of_image):
            top, left, bottom, right = (box * ends).astype(int)
            if not (bottom >= 0 and top < n_rows and top <= bottom):
                continue
            if not (right >= 0 and left < n_columns and left <= right):
                continue
            color = paint[number % len(paint)]
            rows = slice(max(top, 0), bottom + 1)
            columns = slice(max(left, 0), right + 1)
            for row in {top, bottom} & set(range(n_rows)):
                image[row, columns] = color
            for column in {left, right} & set(range(n_columns)):
                image[rows, column] = color
    return drawn


def _sample_box(
    _: ModuleType,
    size: Any,
    boxes: Any,
    draws: Any,
    *,
    covered: float,
    ratios: tuple[float, float],
    areas: tuple[float, float],
    whole: bool,
) -> Any:
    """Return begin, size and box of the first part that fits, else of the whole."""
    height, width = (int(n) for n in size[:2])
    corners = np.asarray(boxes, np.float64).reshape(-1, 4)
    if not len(corners) and not whole:
        raise InvalidArgumentError(
            "No bounding boxes provided as input. One must enable "
            "use_image_if_no_bounding_boxes if you wish to not provide any."
        )
    held = (corners if len(corners) else np.array([[0, 0, 1, 1]])) * (
        [height, width] * 2
    )
    part = (0, 0, height, width)
    for draw in np.asarray(draws, np.float64):
        candidate = _part(draw, height, width, ratios, areas)
        if candidate is not None and _covers(candidate, held, covered):
            part = candidate
            break
    top, left, rows, columns = part
    ends = np.array([top, left, top + rows, left + columns])
    box = (ends / ([height, width] * 2)).astype(np.float32)
    begin, extent = np.array([top, left, 0]), np.array([rows, columns, -1])
    return begin.astype(size.dtype), extent.astype(size.dtype), box.reshape(1, 1, 4)


def _part(
    draw: Any, height: int, width: int, ratios: Any, areas: Any
) -> tuple[int, int, int, int] | None:
    """Return top, left, rows and columns of a part by four numbers from 0 to 1."""
    ratio = ratios[0] + draw[0] * (ratios[1] - ratios[0])
    least, most = (area * height * width for area in areas)
    rows = round((least / ratio) ** 0.5)
    most_rows = round((most / ratio) ** 0.5)
    if round(most_rows * ratio) > width:
        most_rows = int((width + 0.5 - 1e-7) / ratio)
    most_rows = min(most_rows, height)
    rows = min(rows, most_rows)
    rows += int(draw[1] * (most_rows - rows + 1))
    columns = round(rows * ratio)
    if rows * columns < least:
        rows, columns = rows + 1, round((rows + 1) * ratio)
    if rows * columns > most:
        rows, columns = rows - 1, round((rows - 1) * ratio)
    fits = 0 < rows <= height and 0 < columns <= width
    if not fits or not least <= rows * columns <= most:
        return None
    top, left = int(draw[2] * (height - rows)), int(draw[3] * (width - columns))
    return top, left, rows, columns


def _covers(part: tuple[int, int, int, int], boxes: Any, least: float) -> bool:
    """Return whether a part has so much of one box, at least."""
    begin, size = np.array(part[:2]), np.array(part[2:])
    common = np.minimum(begin + size, boxes[:, 2:]) - np.maximum(begin, boxes[:, :2])
    inside = np.prod(np.maximum(common, 0), axis=1)
    whole = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    return bool(np.any((inside >= least * whole) & (whole > 0)))


def _infer_box(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    three = Static((3,), inputs[0].dtype)
    return [three, three, Static((1, 1, 4), np.dtype(np.float32))]


enter("DecodeImage", _infer_decoded, _decode, hosted=True)
enter("DrawBoundingBoxesV2", infer_like(0), _draw_boxes, hosted=True)
enter("SampleDistortedBoundingBoxV2", _infer_box, _sample_box, hosted=True, n_outputs=3)
