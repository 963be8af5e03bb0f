"""Cases of shapes, repetition, joining and cutting, and filled tensors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from kit.graph.convert import make_op, tensor
from kit.graph.ops.array import broadcast, fill, join, pad, shape
from tests.graph.cases.case import Case, Host, bare, flat, numbers, sloped

A, B, CUBE = numbers(1, 2, 3), numbers(2, 2, 3), numbers(3, 2, 3, 4)
THIN, ROW, ONE = numbers(4, 2, 1, 3), numbers(5, 3), np.float64(2.5)
SIZES = np.array([3, 2], np.int64)


def sizes(*numbers: int) -> Any:
    """A shape as a tensor."""
    return tensor(np.array(numbers, np.int32))


def repeated(x: Host, down: int, across: int) -> Host:
    return np.array([list(row) * across for row in x.tolist()] * down)


SHAPES = [
    sloped(
        "Reshape",
        lambda x: shape.reshape(x, (3, -1)),
        lambda x: x.ravel().reshape(3, 2),
        A,
    ),
    sloped("Reshape", lambda x: x.reshape(-1), lambda x: np.array(list(x.flat)), A),
    sloped(
        "Reshape",
        lambda x: shape.reshape(x, [3, shape.size_of(x) // 3]),
        lambda x: x.ravel().reshape(3, 2),
        A,
    ),
    Case(
        "Reshape",
        shape.reshape,
        lambda x, s: x.reshape(3, 2),
        (A, SIZES),
        is_dynamic=True,
    ),
    bare("ReshapeLike", lambda g, x: g.reshape(2, 3), (numbers(6, 6), A)),
    sloped("Transpose", shape.transpose, lambda x: np.einsum("ij->ji", x), A),
    sloped(
        "Transpose",
        partial(shape.transpose, perm=(2, 0, 1)),
        lambda x: np.einsum("ijk->kij", x),
        CUBE,
    ),
    sloped(
        "ExpandDims", partial(shape.expand_dims, axis=-1), lambda x: x[..., None], A
    ),
    sloped(
        "ExpandDims",
        partial(shape.expand_dims, axis=(0, 2)),
        lambda x: x[None, :, None],
        A,
    ),
    sloped("Squeeze", partial(shape.squeeze, axis=1), lambda x: x[:, 0], THIN),
    Case("Squeeze", shape.squeeze, lambda x: x[:, 0], (THIN,), is_dynamic=True),
    flat("Shape", shape.shape_of, lambda x: np.array([2, 3, 4], np.int32), CUBE),
    flat("Size", partial(shape.size_of, dtype="int64"), lambda x: np.int64(24), CUBE),
    flat("Rank", shape.rank_of, lambda x: np.int32(3), CUBE),
    sloped(
        "BroadcastTo",
        partial(broadcast.broadcast_to, shape=(2, 2, 3)),
        lambda x: np.array([[list(x), list(x)]] * 2),
        ROW,
    ),
    sloped(
        "BroadcastTo",
        lambda x: broadcast.broadcast_to(x, sizes(4, 2, 3)),
        lambda x: np.array([x, x, x, x]),
        A,
    ),
    bare("BroadcastLike", lambda g, x: np.array([g, g]), (ROW, A)),
    sloped(
        "Tile",
        partial(broadcast.tile, multiples=(2, 3)),
        lambda x: repeated(x, 2, 3),
        A,
    ),
    sloped(
        "Tile", lambda x: broadcast.tile(x, sizes(1, 2)), lambda x: repeated(x, 1, 2), A
    ),
    bare("SumOfTiles", lambda g, x: g[:2] + g[2:], (numbers(7, 4, 3), A)),
    bare("TileLike", lambda x, whole: repeated(x, 2, 1), (A, numbers(7, 4, 3))),
]

JOINED = [
    sloped(
        "ConcatV2",
        lambda x, y: join.concat([x, y, x], 1),
        lambda x, y: np.array([[*a, *b, *a] for a, b in zip(x, y, strict=True)]),
        (A, B[:, :2]),
    ),
    sloped(
        "ConcatV2",
        lambda x, y: join.concat([x, y], -2),
        lambda x, y: np.array([*x, *y]),
        (A, B[:1]),
    ),
    sloped(
        "ConcatGrad",
        lambda g, x, y: list(make_op("ConcatGrad", g, x, y, axis=0, num=2).outputs),
        lambda g, x, y: [g[:2], g[2:]],
        (numbers(8, 3, 3), A, B[:1]),
    ),
    sloped(
        "Pack",
        lambda x, y: join.stack([x, y], 1),
        lambda x, y: np.array([[x[0], y[0]], [x[1], y[1]]]),
        (A, B),
    ),
    sloped(
        "Pack",
        lambda x, y: join.stack([x, y]),
        lambda x, y: np.array([x, y]),
        (ONE, ONE * 2),
    ),
    sloped(
        "Unpack",
        partial(join.unstack, num=3, axis=1),
        lambda x: [x[:, 0], x[:, 1], x[:, 2]],
        A,
    ),
    sloped(
        "Split", lambda x: join.split(x, 2, 2), lambda x: [x[..., :2], x[..., 2:]], CUBE
    ),
    sloped(
        "SplitV",
        lambda x: join.split(x, [1, -1], -1),
        lambda x: [x[..., :1], x[..., 1:]],
        A,
    ),
    sloped("SplitV", lambda x: join.split(x, [3], 1), lambda x: x, A),
]


def mirrored(x: Host, edge: int) -> Host:
    """Two more columns before, and one after; with the edge, or without."""
    left = [2, 1] if edge else [1, 0]
    right = [1] if edge else [2]
    return x[:, [*left, 0, 1, 2, *right]]


PADDED = [
    sloped(
        "Pad",
        partial(pad.pad, paddings=[[1, 0], [0, 2]], constant_values=7),
        lambda x: np.array([[7.0] * 5, [*x[0], 7, 7], [*x[1], 7, 7]]),
        A,
    ),
    sloped(
        "Pad",
        lambda x: pad.pad(x, tensor(np.array([[0, 1]], np.int32))),
        lambda x: np.array([*x, 0]),
        ROW,
    ),
    sloped(
        "Pad",
        partial(pad.pad, paddings=[[0, 0], [2, 1]], mode="REFLECT"),
        lambda x: mirrored(x, 1),
        A,
    ),
    sloped(
        "Pad",
        partial(pad.pad, paddings=[[0, 0], [2, 1]], mode="SYMMETRIC"),
        lambda x: mirrored(x, 0),
        A,
    ),
    bare(
        "PadGrad",
        lambda g, x: g[1:],
        (numbers(9, 4), ROW),
        paddings=(1, 0),
        mode="constant",
    ),
    sloped(
        "ReverseV2",
        partial(pad.reverse, axis=[0, -1]),
        lambda x: np.array([row[::-1] for row in x[::-1]]),
        CUBE[0],
    ),
]
FILLED = [
    sloped("Fill", partial(fill.fill, (2, 3)), lambda x: np.full((2, 3), x), ONE),
    sloped(
        "Fill", lambda x: fill.fill(sizes(0, 3), x), lambda x: np.zeros((0, 3)), ONE
    ),
    flat("ZerosLike", fill.zeros_like, lambda x: x * 0, A),
    flat(
        "OnesLike",
        partial(fill.ones_like, dtype="int32"),
        lambda x: (x == x) * np.int32(1),
        A,
    ),
    Case(
        "Range",
        fill.arange,
        lambda a, b, c: np.array([7, 4, 1], np.int32),
        (np.int32(7), np.int32(0), np.int32(-3)),
        has_slope=False,
        is_dynamic=True,
    ),
    sloped("Range", lambda x: fill.arange(4) + x, lambda x: np.arange(4) + x, ONE),
    flat(
        "LinSpace",
        partial(fill.linspace, num=5),
        lambda a, b: a + (b - a) * np.array([0, 0.25, 0.5, 0.75, 1]),
        (ONE, ONE * 3),
    ),
    sloped(
        "Eye",
        lambda x: fill.eye(2, 3, dtype="float64") * x,
        lambda x: np.array([[1.0, 0, 0], [0, 1, 0]]) * x,
        ONE,
    ),
    flat(
        "OneHot",
        partial(fill.one_hot, depth=3),
        lambda i: np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], np.float32),
        np.array([2, -1, 0]),
    ),
    flat(
        "OneHot",
        partial(fill.one_hot, depth=3, on_value=5, off_value=-1, axis=0, dtype="int32"),
        lambda i: np.array([[-1, 5], [-1, -1], [5, -1]], np.int32),
        np.array([2, 0], np.int32),
    ),
]

CASES = SHAPES + JOINED + PADDED + FILLED
