"""Convolution and pooling by their definitions, one place of one window at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

Host = npt.NDArray[Any]


class Slide(NamedTuple):
    """One case: images, windows and how the windows move."""

    images: int
    size: tuple[int, int]
    channels: int
    window: tuple[int, int]
    stride: tuple[int, int]
    padding: str
    seed: int

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (self.images, *self.size, self.channels)

    @property
    def counts(self) -> tuple[int, int]:
        lines = zip(self.size, self.window, self.stride, strict=True)
        if self.padding == "SAME":
            down, across = (math.ceil(n / s) for n, _, s in lines)
        else:
            down, across = (math.ceil((n - k + 1) / s) for n, k, s in lines)
        return down, across

    def four(self, pair: tuple[int, int]) -> list[int]:
        return [1, *pair, 1]

    def normal(self, *shape: int) -> Host:
        rng = np.random.default_rng([self.seed, len(shape), *shape])
        return rng.standard_normal(shape)


def _slide(draw: st.DrawFn) -> Slide:
    window = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    padding = draw(st.sampled_from(["SAME", "VALID"]))
    least = window if padding == "VALID" else (0, 0)
    return Slide(
        images=draw(st.integers(0, 2)),
        size=(draw(st.integers(least[0], 6)), draw(st.integers(least[1], 6))),
        channels=draw(st.sampled_from([1, 2, 13, 40])),
        window=window,
        stride=draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        padding=padding,
        seed=draw(st.integers(0, 2**31)),
    )


slides = st.composite(_slide)


def before(slide: Slide, axis: int) -> int:
    """Return the border in front of an axis: half of what the last window lacks."""
    if slide.padding == "VALID":
        return 0
    end = (slide.counts[axis] - 1) * slide.stride[axis] + slide.window[axis]
    return max(end - slide.size[axis], 0) // 2


class Spot(NamedTuple):
    """A window (`out`) sees at its place `inner` what the image has at `at`."""

    out: tuple[int, int]
    inner: tuple[int, int]
    at: tuple[int, int]


def spots(slide: Slide) -> Iterator[Spot]:
    """Yield all that lies inside the images, in the order of windows, then places."""
    top, left = before(slide, 0), before(slide, 1)
    for i, j in np.ndindex(*slide.counts):
        for r, s in np.ndindex(*slide.window):
            at = (i * slide.stride[0] + r - top, j * slide.stride[1] + s - left)
            if 0 <= at[0] < slide.size[0] and 0 <= at[1] < slide.size[1]:
                yield Spot((i, j), (r, s), at)


def naive_conv(slide: Slide, x: Host, w: Host) -> Host:
    y = np.zeros((slide.images, *slide.counts, w.shape[3]))
    for out, inner, at in spots(slide):
        y[:, *out] += x[:, *at] @ w[inner]
    return y


def naive_max(slide: Slide, x: Host) -> Host:
    y = np.full((slide.images, *slide.counts, slide.channels), -np.inf)
    for out, _, at in spots(slide):
        y[:, *out] = np.maximum(y[:, *out], x[:, *at])
    return y


def naive_mean(slide: Slide, x: Host) -> Host:
    y = np.zeros((slide.images, *slide.counts, slide.channels))
    n = np.zeros(slide.counts)
    for out, _, at in spots(slide):
        y[:, *out] += x[:, *at]
        n[out] += 1
    return np.asarray(y / n[:, :, None])


def naive_max_gradient(slide: Slide, x: Host, dy: Host) -> Host:
    """Give each window's gradient to the first of its largest numbers."""
    dx = np.zeros_like(x)
    for n, c in np.ndindex(slide.images, slide.channels):
        best: dict[tuple[int, int], tuple[int, int]] = {}
        for out, _, at in spots(slide):
            if out not in best or x[n, *at, c] > x[n, *best[out], c]:
                best[out] = at
        for out, at in best.items():
            dx[n, *at, c] += dy[n, *out, c]
    return dx
