"""Random numbers that a seed repeats, the same on every device.

Each stateful op has its own stream: numpy's Philox with the key (graph seed, op
seed), so that different pairs are different streams by construction. The numbers are
drawn on the host and handed to the device: a program gives the same ones with a GPU and
without. It takes no randomness by itself: the caller brings the entropy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kit.errors import InvalidArgumentError

# Any: an array of whichever module computes.
Array = Any
Host = npt.NDArray[Any]
Generator = np.random.Generator

# The graph seed of an op that has a seed in a graph that has none.
DEFAULT_GRAPH_SEED: Final = 70_682_117

_WORD: Final = 2**64 - 1
_FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
_INTEGERS: Final = ("int32", "int64")


def seed_pair(
    graph_seed: int | None, op_seed: int | None, op_number: int
) -> tuple[int, int] | None:
    """Return the two seeds that decide an op's stream; None if nothing is seeded.

    With a graph seed alone each op takes its number in the graph as its own seed.

    >>> seed_pair(5, None, op_number=12), seed_pair(None, None, op_number=12)
    ((5, 12), None)
    """
    if graph_seed is None and op_seed is None:
        return None
    graph_seed = DEFAULT_GRAPH_SEED if graph_seed is None else graph_seed
    return graph_seed, op_number if op_seed is None else op_seed


def generator(
    graph_seed: int | None,
    op_seed: int | None,
    *,
    op_number: int,
    entropy: Callable[[], int],
) -> Generator:
    """Return the stream of one op, at its beginning; make one for each session.

    Equal seeds give equal streams. Without any seed the stream begins at `entropy()`,
    an unpredictable number of 128 bits. Seeds count modulo 2**64.

    >>> first, again = (generator(1, 2, op_number=0, entropy=int) for _ in "ab")
    >>> first.random() == again.random()
    True
    """
    seeds = seed_pair(graph_seed, op_seed, op_number)
    if seeds is None:
        drawn = int(entropy())
        seeds = drawn >> 64, drawn
    key = np.array([int(seed) & _WORD for seed in seeds], np.uint64)
    return Generator(np.random.Philox(key=key))


# Any: what numpy takes for a dtype.
def random_uniform(
    xp: ModuleType,
    stream: Generator,
    shape: Sequence[int],
    minval: float = 0,
    maxval: float | None = None,
    dtype: Any = "float32",
) -> Array:
    """Return numbers uniform over minval <= x < maxval.

    `maxval` defaults to 1; integers need one. Raises
    `InvalidArgumentError` for a shape or dtype that cannot be, and for integers also
    for an empty range or one outside the dtype.

    >>> stream = generator(1, 2, op_number=0, entropy=int)
    >>> x = random_uniform(np, stream, [1000], 10, 13, "int32")
    >>> x.dtype.name, sorted(set(x.tolist()))
    ('int32', [10, 11, 12])
    """
    kind, sizes = _dtype(dtype, _FLOATS + _INTEGERS), _sizes(shape)
    if kind.kind == "i":
        return xp.asarray(_integers(stream, sizes, minval, maxval, kind))
    high = 1.0 if maxval is None else float(maxval)
    return xp.asarray(_floats(stream, sizes, float(minval), high, kind))


def random_normal(
    xp: ModuleType,
    stream: Generator,
    shape: Sequence[int],
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: Any = "float32",
) -> Array:
    """Return normally distributed numbers.

    Raises `InvalidArgumentError` for a shape or dtype that cannot be.

    >>> stream = generator(1, 2, op_number=0, entropy=int)
    >>> random_normal(np, stream, [2], dtype="float64").shape
    (2,)
    """
    kind, sizes = _dtype(dtype, _FLOATS), _sizes(shape)
    z = np.asarray(stream.standard_normal(sizes, dtype=_drawn(kind)))
    return xp.asarray(_placed(z, mean, stddev, kind))


def truncated_normal(
    xp: ModuleType,
    stream: Generator,
    shape: Sequence[int],
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: Any = "float32",
) -> Array:
    """Return normally distributed numbers within two standard deviations.

    Values beyond that are drawn again. Raises `InvalidArgumentError` for a shape or
    dtype that cannot be.

    >>> stream = generator(1, 2, op_number=0, entropy=int)
    >>> bool(abs(truncated_normal(np, stream, [1000])).max() <= 2)
    True
    """
    kind, sizes = _dtype(dtype, _FLOATS), _sizes(shape)
    drawn = _drawn(kind)
    z = np.asarray(stream.standard_normal(sizes, dtype=drawn)).reshape(-1)
    far = np.flatnonzero(np.abs(z) > 2)
    while far.size:
        z[far] = stream.standard_normal(far.size, dtype=drawn)
        far = far[np.abs(z[far]) > 2]
    return xp.asarray(_placed(z.reshape(sizes), mean, stddev, kind))


def shuffle(xp: ModuleType, stream: Generator, value: Array) -> Array:
    """Return the rows of `value` in a random order, each order equally likely.

    A value without axes comes back as it is.

    >>> stream = generator(1, 2, op_number=0, entropy=int)
    >>> sorted(shuffle(np, stream, np.array([3, 1, 2])).tolist())
    [1, 2, 3]
    """
    if value.ndim == 0:
        return value
    return value[xp.asarray(stream.permutation(value.shape[0]))]


def _dtype(dtype: Any, names: Sequence[str]) -> np.dtype[Any]:
    kind: np.dtype[Any] = np.dtype(dtype)
    if kind.name not in names:
        raise InvalidArgumentError(
            f"dtype is {kind.name}; this draws {', '.join(names)} only."
        )
    return kind


def _sizes(shape: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(int(size) for size in shape)
    if any(size < 0 for size in sizes):
        raise InvalidArgumentError(f"shape is {list(sizes)}; give sizes of at least 0.")
    return sizes


def _drawn(kind: np.dtype[Any]) -> Any:
    return np.float64 if kind.itemsize == 8 else np.float32


def _integers(
    stream: Generator,
    sizes: tuple[int, ...],
    low: float,
    high: float | None,
    kind: np.dtype[Any],
) -> Host:
    span = np.iinfo(kind)
    if high is None or not span.min <= low < high <= span.max:
        raise InvalidArgumentError(
            f"minval is {low!r} and maxval {high!r}; for {kind.name} give minval < "
            f"maxval, both from {span.min} to {span.max}."
        )
    return np.asarray(stream.integers(int(low), int(high), sizes, kind.type))


def _floats(
    stream: Generator,
    sizes: tuple[int, ...],
    low: float,
    high: float,
    kind: np.dtype[Any],
) -> Host:
    x = np.asarray(stream.random(sizes, dtype=_drawn(kind)))
    if (low, high) == (0.0, 1.0) and kind.itemsize > 2:
        return x
    x = np.asarray(x * x.dtype.type(high - low) + x.dtype.type(low)).astype(kind)
    start, end = kind.type(low), kind.type(high)
    if start == end:
        return x
    # Rounding may reach the end of the range, which does not belong to it.
    last = np.nextafter(end, start)
    return np.asarray(np.minimum(x, last) if start < end else np.maximum(x, last))


def _placed(z: Host, mean: float, stddev: float, kind: np.dtype[Any]) -> Host:
    if (mean, stddev) != (0.0, 1.0):
        z = np.asarray(z * z.dtype.type(stddev) + z.dtype.type(mean))
    return z.astype(kind, copy=False)
