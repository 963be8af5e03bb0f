"""Where each parameter lies in the flat buffers, and where these are cut.

Pure arithmetic: no arrays, no I/O. Parameters and gradients of a training are in flat
buffers of the same form on every task. The last parameter comes first, because a
backward pass finishes the last layer first: so a bucket is ready while earlier layers
still compute.

    bytes    0                                                   n_bytes
    leaves   | w3 | b3 |     w2     | b2 |         w1        | b1 |
    buckets  |-------- 0 --------|-------- 1 --------|------ 2 ---|
    chunks   |  0  |  1  |  2  |...     (one chunk for each worker)

The cuts do not depend on the topology: chunk c is added up in the order of the workers
c, c+1, ..., c-1 wherever that happens, so all topologies give the same bits,
but for those that say that their order is another (`Topology.order`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from kit.errors import InvalidArgumentError

# Parameters have one of the first two dtypes; `compress` makes the others of them.
TRAINED = ("float32", "float64")
ITEMSIZE = {"float32": 4, "float64": 8, "float16": 2, "int8": 1, "int32": 4}
_MOST_BUCKETS = 2**18
_ALIGNMENT = 64  # a cache line; also keeps every dtype group aligned
CHUNK_BYTES = 512 * 1024  # stays in a core's cache while one task reads what one wrote


class Range(NamedTuple):
    """The bytes from `lo` up to, and without, `hi` of a flat buffer."""

    lo: int
    hi: int

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.hi - self.lo


class Spec(NamedTuple):
    """An array's name, shape and dtype.

    Parameters
    ----------
    name : str
        What the parameters call it.
    shape : tuple of int
        Its shape.
    dtype : str
        A parameter is "float32" or "float64". What compressed gradients travel in may
        be "float16", "int8" or "int32" too.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def n_bytes(self) -> int:
        """Size of the values."""
        return int(np.prod(self.shape, dtype=np.int64)) * itemsize_of(self.dtype)


class Leaf(NamedTuple):
    """A parameter, and where it begins in the flat buffer."""

    spec: Spec
    lo: int

    @property
    def range(self) -> Range:
        """The parameter's bytes in the flat buffer."""
        return Range(self.lo, self.lo + self.spec.n_bytes)


class Bucket(NamedTuple):
    """A stretch of one dtype that travels as a unit, cut into one chunk per worker."""

    dtype: str
    range: Range
    chunks: tuple[Range, ...]


@dataclass(frozen=True)
class Layout:
    """The form of all flat buffers of a training; the same on every member.

    `leaves` are in the order in which the parameters were given; `buckets` in the order
    in which they travel. If gradients are compressed, `stages` are the layouts of what
    travels instead (`kit.exchange.compression`); these arrays come after the
    parameters, one layout after the other.
    """

    leaves: tuple[Leaf, ...]
    buckets: tuple[Bucket, ...]
    n_bytes: int
    stages: tuple[Layout, ...] = ()

    @cached_property
    def edges(self) -> tuple[int, ...]:
        """Where each stage begins in the flat buffers, and the end of all."""
        sizes = (_aligned(stage.n_bytes) for stage in self.stages)
        first = _aligned(self.n_bytes) if self.stages else self.n_bytes
        return tuple(accumulate(sizes, initial=first))

    @property
    def total_bytes(self) -> int:
        """Bytes of a flat buffer: parameters and stages."""
        return self.edges[-1]

    @cached_property
    def payload_bytes(self) -> int:
        """Bytes of all parameters, without the gaps between dtypes."""
        return sum(bucket.range.size for bucket in self.buckets)

    @cached_property
    def stretches(self) -> tuple[Range, ...]:
        """The ranges of the parameters of each dtype."""
        dtypes = dict.fromkeys(bucket.dtype for bucket in self.buckets)
        return tuple(
            part
            for dtype in dtypes
            for part in merge(b.range for b in self.buckets if b.dtype == dtype)
        )

    @cached_property
    def n_chunks(self) -> int:
        """Chunks of a bucket: the number of workers."""
        return len(self.buckets[0].chunks)

    @cached_property
    def n_full_chunks(self) -> int:
        """How many chunks of all buckets are not empty."""
        return sum(chunk.size > 0 for bucket in self.buckets for chunk in bucket.chunks)

    def chunk_bytes(self, chunk: int) -> int:
        """Bytes that chunk number `chunk` has in all buckets together."""
        return sum(bucket.chunks[chunk].size for bucket in self.buckets)

    def dtype_at(self, position: int) -> str:
        """Return the dtype of the bucket that holds the byte at `position`."""
        for stage, start in zip(self.stages, self.edges, strict=False):
            if start <= position < start + stage.n_bytes:
                return stage.dtype_at(position - start)
        for bucket in self.buckets:
            if bucket.range.lo <= position < bucket.range.hi:
                return bucket.dtype
        return self.buckets[0].dtype


def itemsize_of(dtype: str) -> int:
    """Return the bytes of an element; groups exchange any dtype that numpy has.

    >>> itemsize_of("float32"), itemsize_of("complex128")
    (4, 16)
    """
    return ITEMSIZE.get(dtype) or np.dtype(dtype).itemsize


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT


def cut(whole: Range, parts: int, itemsize: int) -> tuple[Range, ...]:
    """Cut a range into parts whose sizes differ by at most one item.

    >>> [part.size for part in cut(Range(0, 40), 4, itemsize=4)]
    [12, 12, 8, 8]
    """
    items, rest = divmod(whole.size // itemsize, parts)
    sizes = [(items + (part < rest)) * itemsize for part in range(parts)]
    edges = accumulate(sizes, initial=whole.lo)
    return tuple(Range(lo, hi) for lo, hi in pairwise(edges))


def intersect(a: Range, b: Range) -> Range | None:
    """Return what two ranges share, None if that is nothing.

    >>> intersect(Range(0, 8), Range(4, 12))
    Range(lo=4, hi=8)
    """
    lo, hi = max(a.lo, b.lo), min(a.hi, b.hi)
    return Range(lo, hi) if lo < hi else None


def merge(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Sort ranges and join those that touch.

    >>> merge([Range(4, 8), Range(0, 4), Range(12, 16)])
    (Range(lo=0, hi=8), Range(lo=12, hi=16))
    """
    merged: list[Range] = []
    for part in sorted(ranges):
        if merged and merged[-1].hi >= part.lo:
            merged[-1] = Range(merged[-1].lo, max(merged[-1].hi, part.hi))
        else:
            merged.append(part)
    return tuple(merged)


def _converted(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        inner = next(iter(value), "w")
        return f"Give one dict with longer names: {{'{name}/{inner}': ...}}."
    if hasattr(value, "astype"):
        return f"Convert it: params[{name!r}].astype(np.float32)."
    return f"Convert it: np.array(params[{name!r}], np.float32)."


def specs_of(params: Mapping[str, Any]) -> tuple[Spec, ...]:
    """Return the specs of a dict of arrays, in its order.

    Raises `InvalidArgumentError` for an empty dict and for a dtype that is not trained.
    """
    if not params:
        raise InvalidArgumentError(
            "params is empty; give a dict of arrays, for example "
            "{'w': np.zeros((64, 10), np.float32)}."
        )
    specs = []
    for name, value in params.items():
        dtype = str(getattr(value, "dtype", type(value).__name__)).removeprefix(
            "torch."
        )
        if dtype not in TRAINED:
            raise InvalidArgumentError(
                f"parameter {name!r} is {dtype}; parameters are float32 or float64 "
                f"arrays. {_converted(str(name), value)}"
            )
        specs.append(Spec(str(name), tuple(int(n) for n in value.shape), dtype))
    return tuple(specs)


def lay_out(specs: Sequence[Spec], n_workers: int, bucket_bytes: int = 0) -> Layout:
    """Place parameters into flat buffers for `n_workers` workers.

    `bucket_bytes` is the size of a bucket; 0 chooses half a mebibyte for each worker.
    A model without a single element gets one empty bucket: its steps still have
    messages, by which members keep in step.

    >>> layout = lay_out([Spec("w", (3, 2), "float32")], n_workers=4)
    >>> [chunk.size for chunk in layout.buckets[0].chunks]
    [8, 8, 4, 4]
    """
    if n_workers < 1:
        raise InvalidArgumentError(f"{n_workers} workers cannot train; ask for one.")
    backward = list(reversed(specs))
    dtypes = list(dict.fromkeys(spec.dtype for spec in backward))
    places: dict[str, int] = {}
    buckets: list[Bucket] = []
    end = 0
    # Parameters of one dtype together, so that a bucket is summed as one array.
    for dtype in dtypes:
        start = end = _aligned(end)
        for spec in backward:
            if spec.dtype == dtype:
                places[spec.name] = end
                end += spec.n_bytes
        group = Range(start, end)
        buckets += _buckets(group, dtype, n_workers, bucket_bytes)
    if not buckets:
        empty = Range(0, 0)
        (dtype, *_) = dtypes or ["float32"]
        buckets = [Bucket(dtype, empty, (empty,) * n_workers)]
    leaves = tuple(Leaf(spec, places[spec.name]) for spec in specs)
    return Layout(leaves, tuple(buckets), end)


def _buckets(
    group: Range, dtype: str, n_workers: int, bucket_bytes: int
) -> list[Bucket]:
    itemsize = itemsize_of(dtype)
    wanted = bucket_bytes or CHUNK_BYTES * n_workers
    count = -(-group.size // max(wanted, itemsize))
    if count > _MOST_BUCKETS:
        raise InvalidArgumentError(
            f"{group.size} bytes in buckets of {wanted} would be {count} of them; give "
            f"at least settings(bucket_bytes={-(-group.size // _MOST_BUCKETS)})."
        )
    return [
        Bucket(dtype, part, cut(part, n_workers, itemsize))
        for part in (cut(group, count, itemsize) if count else ())
    ]


def tensors_of(
    specs: tuple[Spec, ...], slots: tuple[str, ...]
) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and dtype of all that a training keeps: parameters and slots.

    Raises `InvalidArgumentError` when a slot would have the name of a parameter.

    >>> list(tensors_of((Spec("w", (2,), "float32"),), ("momentum",)))
    ['w', 'w/momentum']
    """
    shapes = {spec.name: (spec.shape, spec.dtype) for spec in specs}
    for spec in specs:
        for slot in slots:
            name = f"{spec.name}/{slot}"
            if name in shapes:
                raise InvalidArgumentError(
                    f"a parameter is called {name!r}, and so is the slot {slot!r} of "
                    f"{spec.name!r} in a checkpoint; rename the parameter."
                )
            shapes[name] = (spec.shape, spec.dtype)
    return shapes
