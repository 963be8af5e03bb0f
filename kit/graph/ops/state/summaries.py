"""Summaries: what a run computes, as the messages that TensorBoard reads.

Pure. A summary is one text, a `Summary` of protocol buffers. It is written out here by
hand, so a task computes it without TensorBoard; what reads it is TensorBoard's own.

    ScalarSummary(tags, values)     one number for each tag
    HistogramSummary(tag, values)   how many values fall between limits
    ImageSummary(tag, images)       PNG
    TensorSummary(tag, texts)       texts, for TensorBoard's page of texts
    MergeSummary(*summaries)        all of them in one
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import Any, Final

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.dtypes import STRING, Array
from kit.graph.static import Static, text
from kit.graph.table import Attrs, Forward, enter
from kit.protobuf_wire import DOUBLE, FLOAT, VARINT, block, fields, varint

_LARGEST: Final = float(np.finfo(np.float64).max)
_COLOURS: Final = {1: 0, 3: 2, 4: 6}  # colour types of PNG by the number of channels
_BAD_COLOUR: Final = (255, 0, 0, 255)  # of pixels that are no number


# --------------------------------------------------------------------------------------
# Messages


def _number(field: int, value: int) -> bytes:
    return varint(field << 3 | VARINT) + varint(value)


def _value(tag: bytes, rest: bytes) -> bytes:
    """Return a summary of one value."""
    return block(1, block(1, tag) + rest)


def _tags(summary: bytes) -> Iterator[bytes]:
    for _, value in fields(summary, 1):
        yield dict(fields(value, 1)).get(1, b"")


def _as_text(summary: bytes) -> Array:
    made = np.empty((), object)
    made[()] = summary
    return made


# --------------------------------------------------------------------------------------
# What each of them computes


def _scalar(_: ModuleType, tags: Any, values: Any) -> Array:
    if np.shape(tags) != np.shape(values):
        raise InvalidArgumentError(
            f"tags and values are not of the same shape: {text(np.shape(tags))} and "
            f"{text(np.shape(values))}; a scalar summary takes one number for each "
            f"tag. Give tf.reduce_mean of the values, or tf.summary.histogram."
        )
    pairs = zip(np.ravel(tags), np.ravel(values), strict=True)
    number = varint(2 << 3 | FLOAT)
    with np.errstate(over="ignore"):  # beyond float32 is infinite there, too
        made = [
            _value(tag, number + np.asarray(value, "<f4").tobytes())
            for tag, value in pairs
        ]
    return _as_text(b"".join(made))


@cache
def _limits() -> Array:
    """Return the upper limits of the parts, each a tenth wider than the one before."""
    above, value = [], 1e-12
    while value < 1e20:
        above.append(value)
        value *= 1.1
    above.append(_LARGEST)
    return np.array([*(-limit for limit in reversed(above)), 0.0, *above])


def _histogram(_: ModuleType, tag: Any, values: Any) -> Array:
    flat = np.ravel(values).astype(np.float64)
    name = _only(tag)
    for test, word in ((np.isnan, "Nan"), (np.isinf, "Infinity")):
        if test(flat).any():
            raise InvalidArgumentError(
                f"{word} in summary histogram for: {name.decode()}. Look for what "
                f"overflows or divides by 0 before it, or use a NanTensorHook."
            )
    limits = _limits()
    numbers = np.searchsorted(limits, flat, side="right")
    counts = np.bincount(
        np.minimum(numbers, len(limits) - 1), minlength=len(limits)
    ).astype(np.float64)
    # Of a run of empty parts, only the last is written.
    keep = counts > 0
    keep |= np.append(keep[1:], True)
    least, most = (flat.min(), flat.max()) if flat.size else (_LARGEST, -_LARGEST)
    body = b"".join(
        varint(field << 3 | DOUBLE) + struct.pack("<d", float(value))
        for field, value in enumerate(
            (least, most, flat.size, flat.sum(), np.square(flat).sum()), 1
        )
    )
    body += block(6, limits[keep].astype("<f8").tobytes())
    body += block(7, counts[keep].astype("<f8").tobytes())
    return _as_text(_value(name, block(5, body)))


def _image(_: ModuleType, tag: Any, images: Any, max_outputs: int = 3) -> Array:
    if images.ndim != 4 or images.shape[3] not in _COLOURS:
        raise InvalidArgumentError(
            f"Tensor must be 4-D with last dim 1, 3, or 4, not {text(images.shape)}; "
            f"reshape it to [batch, height, width, channels]."
        )
    name, made = _only(tag), []
    for number, image in enumerate(images[:max_outputs]):
        suffix = b"/image/%d" % number if max_outputs > 1 else b"/image"
        height, width, channels = image.shape
        body = _number(1, height) + _number(2, width) + _number(3, channels)
        body += block(4, _png(_pixels(image)))
        made.append(_value(name + suffix, block(4, body)))
    return _as_text(b"".join(made))


def _pixels(image: Array) -> Array:
    """Return an image as bytes: the largest is 255; with negative ones, 0 is 128."""
    if image.dtype == np.uint8:
        return image
    values = image.astype(np.float64)
    bad = ~np.isfinite(values).all(axis=2)
    good = values[~bad]
    least, most = (good.min(), good.max()) if good.size else (0.0, 0.0)
    scale, offset = 0.0, 0.0
    if least < 0:
        largest = max(abs(least), abs(most))
        scale, offset = (0.0 if largest < 1e-6 else 127.0 / largest), 128.0
    elif most >= 1e-6:
        scale = 255.0 / most
    values[bad] = 0
    made = (values * scale + offset).astype(np.uint8)
    made[bad] = _BAD_COLOUR[: image.shape[2]]
    return made


def _png(pixels: Array) -> bytes:
    height, width, channels = pixels.shape
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOURS[channels], 0, 0, 0)
    # Each line begins with the number of its filter: none.
    lines = np.pad(pixels.reshape(height, width * channels), ((0, 0), (1, 0)))
    parts = (b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b"")
    chunks = [
        struct.pack(">I", len(data))
        + kind
        + data
        + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _texts(_: ModuleType, tag: Any, texts: Any, plugin: str = "text") -> Array:
    array = np.asarray(texts, object)
    shape = b"".join(block(2, _number(1, size)) for size in array.shape)
    tensor = _number(1, 7) + block(2, shape)  # 7 is DT_STRING
    tensor += b"".join(block(8, item) for item in array.ravel())
    plugin_data = block(1, block(1, plugin.encode()))
    return _as_text(_value(_only(tag), block(8, tensor) + block(9, plugin_data)))


def _merge(_: ModuleType, *summaries: Any) -> Array:
    texts = [
        item for array in summaries for item in np.ravel(np.asarray(array, object))
    ]
    seen: set[bytes] = set()
    for summary in texts:
        try:
            tags = list(_tags(summary))
        except IndexError as exc:
            raise InvalidArgumentError(
                f"Could not parse one of the summary inputs, {summary[:40]!r}; merge "
                f"what the functions of tf.summary return."
            ) from exc
        for tag in tags:
            if tag in seen:
                raise InvalidArgumentError(
                    f"Duplicate tag {tag.decode(errors='replace')} found in summary "
                    f"inputs; give each summary a name of its own."
                )
            seen.add(tag)
    return _as_text(b"".join(texts))


def _only(tag: Any) -> bytes:
    """Return the tag as bytes."""
    value: bytes = np.asarray(tag, object).item()
    return value


# --------------------------------------------------------------------------------------
# The table


def scalar_summary(tag: str, value: float) -> bytes:
    """Return the summary of one number."""
    made: bytes = _scalar(np, tag.encode(), value).item()
    return made


def _infer(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    return [Static((), STRING)]


_KINDS: Final[dict[str, Forward]] = {
    "ScalarSummary": _scalar,
    "HistogramSummary": _histogram,
    "ImageSummary": _image,
    "TensorSummaryV2": _texts,
    "MergeSummary": _merge,
}

for _name, _forward in _KINDS.items():
    enter(_name, _infer, _forward, hosted=True)
