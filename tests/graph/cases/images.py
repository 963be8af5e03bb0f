"""Cases of convolution and pooling, by the definitions in `kernels.sliding`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kit.graph.convert import make
from kit.graph.ops.nn import images
from tests.graph.cases.case import Case, Host, numbers, sloped
from tests.graph.kernels import sliding
from tests.graph.kernels.sliding import Slide, spots

SAME = Slide(1, (4, 3), 2, (2, 3), (2, 1), "SAME", 0)
VALID = SAME._replace(padding="VALID")
STRIDES, WINDOW = (1, 2, 1, 1), (1, 2, 3, 1)
POSITIONS: list[dict[str, Any]] = [
    {"Targmax": np.dtype(kind), "include_batch_in_index": with_batch}
    for kind, with_batch in (("int64", False), ("int32", True))
]
IMAGES, FILTERS = numbers(1, *SAME.shape), numbers(2, 2, 3, 2, 2)


def by_images(slide: Slide, x: Host, w: Host, dy: Host) -> Host:
    dx = np.zeros_like(x)
    for out, inner, at in spots(slide):
        dx[:, *at] += dy[:, *out] @ w[inner].T
    return dx


def by_filters(slide: Slide, x: Host, w: Host, dy: Host) -> Host:
    dw = np.zeros_like(w)
    for out, inner, at in spots(slide):
        dw[inner] += x[:, *at].T @ dy[:, *out]
    return dw


def shared_out(slide: Slide, x: Host, dy: Host) -> Host:
    counts = np.zeros(slide.counts)
    for out, _, _ in spots(slide):
        counts[out] += 1
    dx = np.zeros_like(x)
    for out, _, at in spots(slide):
        dx[:, *at] += dy[:, *out] / counts[out]
    return dx


def where_largest(slide: Slide, x: Host, values: Host) -> Host:
    """Pick a value for each window: the one where its first largest number is."""
    picked = np.zeros((slide.images, *slide.counts, slide.channels))
    best = np.full(picked.shape, -np.inf)
    for out, _, at in spots(slide):
        is_more = x[:, *at] > best[:, *out]
        picked[:, *out] = np.where(is_more, values[:, *at], picked[:, *out])
        best[:, *out] = np.maximum(x[:, *at], best[:, *out])
    return picked


def pooled(
    op_type: str, padding: str, outputs: slice | None = None, **more: Any
) -> Any:
    attrs: dict[str, Any] = {"ksize": WINDOW, "strides": STRIDES, "padding": padding}

    def build(*inputs: Any) -> Any:
        made = make(op_type, *inputs, **attrs, **more)
        return made if outputs is None else list(made.op.outputs)[outputs]

    return build


def with_argmax(
    slide: Slide,
    x: Host,
    Targmax: Any,
    include_batch_in_index: bool,
) -> list[Host]:
    """Return the largest number of each window, and its first position."""
    shape = x.shape if include_batch_in_index else (1, *x.shape[1:])
    positions = np.broadcast_to(np.arange(np.prod(shape)).reshape(shape), x.shape)
    largest = sliding.naive_max(slide, x)
    return [largest, where_largest(slide, x, positions).astype(Targmax)]


def convolved(op_type: str, padding: str) -> Any:
    return lambda *inputs: make(op_type, *inputs, strides=STRIDES, padding=padding)


def positions(slide: Slide, **more: Any) -> Iterator[Case]:
    """Yield the cases of largest numbers, which have a slope, and of positions."""
    for output, has_slope in ((slice(1), True), (slice(1, 2), False)):
        yield Case(
            "MaxPoolWithArgmax",
            pooled("MaxPoolWithArgmax", slide.padding, output, **more),
            lambda x, output=output: with_argmax(slide, x, **more)[output],
            (IMAGES,),
            has_slope=has_slope,
        )


def cases(slide: Slide) -> list[Case]:
    padding = slide.padding
    dy = numbers(3, slide.images, *slide.counts, 2)
    largest = sliding.naive_max(slide, IMAGES)
    return [
        sloped(
            "Conv2D",
            lambda x, w: images.conv2d(x, w, (2, 1), padding),
            lambda x, w: sliding.naive_conv(slide, x, w),
            (IMAGES, FILTERS),
        ),
        sloped(
            "Conv2DBackpropInput",
            convolved("Conv2DBackpropInput", padding),
            lambda x, w, g: by_images(slide, x, w, g),
            (IMAGES, FILTERS, dy),
        ),
        sloped(
            "Conv2DBackpropFilter",
            convolved("Conv2DBackpropFilter", padding),
            lambda x, w, g: by_filters(slide, x, w, g),
            (IMAGES, FILTERS, dy),
        ),
        sloped(
            "MaxPool",
            lambda x: images.max_pool(x, (2, 3), STRIDES, padding),
            lambda x: sliding.naive_max(slide, x),
            IMAGES,
        ),
        sloped(
            "MaxPoolGrad",
            pooled("MaxPoolGrad", padding),
            lambda x, y, g: sliding.naive_max_gradient(slide, x, g),
            (IMAGES, largest, dy),
        ),
        sloped(
            "MaxPoolGradGrad",
            pooled("MaxPoolGradGrad", padding),
            lambda x, y, g: where_largest(slide, x, g),
            (IMAGES, largest, numbers(4, *slide.shape)),
        ),
        sloped(
            "AvgPool",
            lambda x: images.avg_pool(x, WINDOW, STRIDES, padding),
            lambda x: sliding.naive_mean(slide, x),
            IMAGES,
        ),
        sloped(
            "AvgPoolGrad",
            pooled("AvgPoolGrad", padding),
            lambda x, g: shared_out(slide, x, g),
            (IMAGES, dy),
        ),
    ]


CASES = cases(SAME) + cases(VALID)
CASES += [
    case
    for slide in (SAME, VALID)
    for more in POSITIONS
    for case in positions(slide, **more)
]
