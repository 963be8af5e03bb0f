"""Streams of elements: the stages of a dataset, run through on its task.

An element is a tuple of arrays. `_STREAMS` has a function for each kind of stage, which
gives a new pass over it; what outlives a pass, such as the state of a shuffle's random
numbers, is kept by the number of the stage. A pass goes on after an error: the element
that caused it is lost.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import chain, islice
from typing import Any, Final

import numpy as np

from kit.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    OutOfRangeError,
)
from kit.graph.dtypes import STRING, dtype_of
from kit.session.worker.record_files import READERS

Element = tuple[Any, ...]


class DatasetIterator:
    """A pass over a dataset, from which any number of runs take."""

    def __init__(self, dataset: Any) -> None:
        """With a `dataset`, which takes nothing from outside, it begins by itself."""
        self._lock = threading.Lock()
        self._dataset = dataset
        self._pass: _Pass | None = None

    def begin(self, call: Any, dataset: Any, captured: Sequence[Any]) -> None:
        """Begin anew, with a dataset and what it takes from outside."""
        with self._lock:
            self._pass = _Pass(call, dataset, [np.asarray(value) for value in captured])

    def take(self, call: Any) -> Element:
        """Return the next element.

        Raises `OutOfRangeError` after the last one, `FailedPreconditionError` before it
        has begun, and what a function of the dataset raises.
        """
        with self._lock:  # runs take one after the other, each a whole element
            if self._pass is None:
                if self._dataset is None:
                    raise FailedPreconditionError(
                        "GetNext() failed because the iterator has not been "
                        "initialized. Ensure that you have run the initializer "
                        "operation for this iterator before getting the next element."
                    )
                self._pass = _Pass(call, self._dataset, [])
            return self._pass.take(call)


class _Pass:
    def __init__(self, call: Any, dataset: Any, captured: list[Any]) -> None:
        # The call is in a list that passes over inner datasets share.
        self._calls, self._captured = [call], captured
        self._kept: dict[int, Any] = {}
        self._programs: dict[int, Any] = {}
        if dataset["prelude"] is not None:
            program = call.program(dataset["prelude"])
            self._captured = program.run(call.step, [])
        self._elements = self.stream(dataset["root"])

    def take(self, call: Any) -> Element:
        self._calls[0] = call  # functions belong to the run that takes
        try:
            return next(self._elements)
        except StopIteration:
            raise OutOfRangeError("End of sequence") from None

    @property
    def call(self) -> Any:
        return self._calls[0]

    def inner(self, stage: Any, element: Element) -> Iterator[Element]:
        """Return a pass over the dataset that a function makes of an element."""
        inner = copy(self)
        inner._captured, inner._kept = list(self.function(stage)(*element)), {}
        return inner.stream(stage["inner"])

    def stream(self, stage: Any) -> Iterator[Element]:
        return _STREAMS[stage["kind"]](self, stage)

    def value(self, part: Any) -> Any:
        """Return an argument: itself, or what came from outside."""
        return self._captured[part["from"]] if isinstance(part, dict) else part

    def number(self, part: Any) -> int:
        return int(self.value(part))

    def values(self, parts: Sequence[Any]) -> list[Any]:
        return [self.value(part) for part in parts]

    def kept(self, stage: Any, make: Callable[[], Any]) -> Any:
        if stage["id"] not in self._kept:
            self._kept[stage["id"]] = make()
        return self._kept[stage["id"]]

    def function(self, stage: Any) -> Callable[..., Element]:
        number = stage["id"]
        if number not in self._programs:
            self._programs[number] = self.call.program(stage["function"])
        program = self._programs[number]
        extra = self.values(stage["captured"])

        def called(*element: Any) -> Element:
            results = program.run(self.call.step, [*element, *extra])
            return tuple(np.asarray(result) for result in results)

        return called


class _Drawn:
    """An iterator that goes on after an error, which a generator does not."""

    def __init__(self, draw: Callable[[], Element]) -> None:
        self._draw = draw

    def __iter__(self) -> _Drawn:
        return self

    def __next__(self) -> Element:
        return self._draw()


# --------------------------------------------------------------------------------------
# Stages that begin a stream.


def _tensors(run: _Pass, stage: Any) -> Iterator[Element]:
    return iter([tuple(run.values(stage["parts"]))])


def _slices(run: _Pass, stage: Any) -> Iterator[Element]:
    parts = run.values(stage["parts"])
    sizes = {len(part) for part in parts}
    if len(sizes) > 1:
        raise InvalidArgumentError(
            f"the components of a dataset of slices have {sorted(sizes)} rows; all "
            f"need as many."
        )
    # With the dots a row of texts without axes stays an array.
    return (tuple(part[i, ...] for part in parts) for i in range(min(sizes)))


def _range(run: _Pass, stage: Any) -> Iterator[Element]:
    start, stop, step = (run.number(stage[name]) for name in ("start", "stop", "step"))
    if step == 0:
        raise InvalidArgumentError("step must be a non-zero integer.")
    return map(lambda i: (np.asarray(i, np.int64),), range(start, stop, step))


def _files(run: _Pass, stage: Any) -> Iterator[Element]:
    compression = np.asarray(run.value(stage["compression"]), object).item()
    how = compression.decode() if isinstance(compression, bytes) else compression
    read = READERS[stage["reader"]]
    paths = np.asarray(run.value(stage["paths"]), object).reshape(-1)
    records = chain.from_iterable(
        read(path, compression=how, **stage["sizes"]) for path in paths
    )
    return _Drawn(lambda: (np.array(next(records)[1], object),))


def _generator(run: _Pass, stage: Any) -> Iterator[Element]:
    elements = run.call.function(stage["token"])(*run.values(stage["args"]))

    def draw() -> Element:
        try:
            return tuple(next(elements))
        except (StopIteration, KitError):
            raise
        except (TypeError, ValueError) as exc:
            raise InvalidArgumentError(f"{type(exc).__name__}: {exc}") from exc

    return _Drawn(draw)


# --------------------------------------------------------------------------------------
# Stages that change a stream, or join some.


def _zip(run: _Pass, stage: Any) -> Iterator[Element]:
    parts = [run.stream(part) for part in stage["all"]]
    return _Drawn(lambda: tuple(chain.from_iterable([next(part) for part in parts])))


def _concatenate(run: _Pass, stage: Any) -> Iterator[Element]:
    return chain.from_iterable(map(run.stream, stage["all"]))


def _repeat(run: _Pass, stage: Any) -> Iterator[Element]:
    count = run.number(stage["count"])
    if count >= 0:
        return chain.from_iterable(run.stream(stage["of"]) for _ in range(count))
    elements, is_empty = run.stream(stage["of"]), True

    def draw() -> Element:
        nonlocal elements, is_empty
        while True:
            try:
                element = next(elements)
            except StopIteration:
                if is_empty:
                    raise  # of nothing there is no end
                elements, is_empty = run.stream(stage["of"]), True
            else:
                is_empty = False
                return element

    return _Drawn(draw)


def _take(run: _Pass, stage: Any) -> Iterator[Element]:
    count = run.number(stage["count"])
    return islice(run.stream(stage["of"]), None if count < 0 else count)


def _skip(run: _Pass, stage: Any) -> Iterator[Element]:
    count = run.number(stage["count"])
    elements = run.stream(stage["of"])
    return iter(()) if count < 0 else islice(elements, count, None)


def _shard(run: _Pass, stage: Any) -> Iterator[Element]:
    n, index = run.number(stage["n"]), run.number(stage["index"])
    if not 0 <= index < n:
        raise InvalidArgumentError(
            f"index must be between 0 and {n - 1}, but is {index}."
        )
    return islice(run.stream(stage["of"]), index, None, n)


def _map(run: _Pass, stage: Any) -> Iterator[Element]:
    call, elements = run.function(stage), run.stream(stage["of"])
    return _Drawn(lambda: call(*next(elements)))


def _filter(run: _Pass, stage: Any) -> Iterator[Element]:
    call = run.function(stage)
    return filter(lambda element: bool(call(*element)[0]), run.stream(stage["of"]))


def _interleave(run: _Pass, stage: Any) -> Iterator[Element]:
    n_open, block = run.number(stage["cycle"]), run.number(stage["block"])
    n_open = n_open if n_open != -1 else os.cpu_count() or 1
    if n_open < 1 or block < 1:
        raise InvalidArgumentError("cycle_length and block_length must be > 0.")
    elements, is_over = run.stream(stage["of"]), False
    streams: list[Iterator[Element] | None] = [None] * n_open
    index = n_taken = 0

    def draw() -> Element:
        nonlocal index, n_taken, is_over
        while not is_over or any(streams):
            stream = streams[index]
            try:
                if stream is None:
                    if not is_over:
                        streams[index] = run.inner(stage, next(elements))
                        continue
                elif n_taken < block:
                    n_taken += 1
                    return next(stream)
            except StopIteration:
                is_over, streams[index] = is_over or stream is None, None
                if stream is None:
                    continue
            index, n_taken = (index + 1) % n_open, 0
        raise StopIteration

    return _Drawn(draw)


def _shuffle(run: _Pass, stage: Any) -> Iterator[Element]:
    size = run.number(stage["size"])
    if size < 1:
        raise InvalidArgumentError("buffer_size must be greater than zero.")

    def rng() -> np.random.Generator:
        seeds = stage["seeds"] or [run.call.entropy()]
        return np.random.default_rng([abs(int(seed)) for seed in seeds])

    draws = run.kept(stage, rng) if stage["anew"] else None
    if draws is None:
        seed = run.kept(stage, lambda: rng().integers(2**63))
        draws = np.random.default_rng(seed)
    elements, waiting = run.stream(stage["of"]), list[Element]()

    def draw() -> Element:
        while len(waiting) < size:
            try:
                waiting.append(next(elements))
            except StopIteration:
                break
        if not waiting:
            raise StopIteration
        i = int(draws.integers(len(waiting)))
        waiting[i], waiting[-1] = waiting[-1], waiting[i]
        return waiting.pop()

    return _Drawn(draw)


def _cache(run: _Pass, stage: Any) -> Iterator[Element]:
    done = run.kept(stage, dict)
    if "elements" in done:
        return iter(done["elements"])
    elements, seen = run.stream(stage["of"]), list[Element]()

    def draw() -> Element:
        try:
            seen.append(next(elements))
        except StopIteration:
            done["elements"] = seen
            raise
        return seen[-1]

    return _Drawn(draw)


def _batch(run: _Pass, stage: Any) -> Iterator[Element]:
    size = run.number(stage["size"])
    if size < 1:
        raise InvalidArgumentError("Batch size must be greater than zero.")
    is_whole = bool(run.value(stage["whole"]))
    elements = run.stream(stage["of"])
    join = _joined if stage["paddings"] is None else _padded(run, stage["paddings"])

    def draw() -> Element:
        rows = list(islice(elements, size))
        if not rows or (is_whole and len(rows) < size):
            raise StopIteration
        return tuple(map(join, range(len(rows[0])), zip(*rows, strict=True)))

    return _Drawn(draw)


def _joined(number: int, rows: Sequence[Any]) -> Any:
    for i, row in enumerate(rows):
        if row.shape != rows[0].shape:
            raise InvalidArgumentError(
                f"Cannot batch tensors with different shapes in component {number}. "
                f"First element had shape {list(rows[0].shape)} and element {i} had "
                f"shape {list(row.shape)}."
            )
    return np.stack(rows)


def _padded(run: _Pass, paddings: Any) -> Callable[[int, Sequence[Any]], Any]:
    """Return what joins rows of different shapes; `paddings` are (shape, value)."""

    def join(number: int, rows: Sequence[Any]) -> Any:
        shape, value = paddings[number]
        shape = shape if shape is not None else [None] * rows[0].ndim
        if any(row.ndim != len(shape) for row in rows):
            raise InvalidArgumentError(
                f"All elements in a batch must have the same rank as the padded shape "
                f"for component {number}: expected rank {len(shape)}."
            )
        longest = np.max([row.shape for row in rows], axis=0, initial=0)
        sizes = [
            int(most) if size is None else size
            for size, most in zip(shape, longest, strict=True)
        ]
        if any(most > size for most, size in zip(longest, sizes, strict=True)):
            raise InvalidArgumentError(
                f"Attempted to pad to a smaller size than the input element: component "
                f"{number} is {longest.tolist()} where {sizes} was asked for."
            )
        dtype = rows[0].dtype
        blank = (b"" if dtype == STRING else 0) if value is None else run.value(value)
        made = np.full((len(rows), *sizes), blank, dtype_of(dtype))
        for i, array in enumerate(rows):
            corner: tuple[Any, ...] = (i, *map(slice, array.shape))
            made[corner] = array
        return made

    return join


def _same(run: _Pass, stage: Any) -> Iterator[Element]:
    return run.stream(stage["of"])


_STREAMS: Final[dict[str, Callable[[_Pass, Any], Iterator[Element]]]] = {
    "tensors": _tensors,
    "slices": _slices,
    "range": _range,
    "files": _files,
    "generator": _generator,
    "zip": _zip,
    "concatenate": _concatenate,
    "repeat": _repeat,
    "take": _take,
    "skip": _skip,
    "shard": _shard,
    "map": _map,
    "filter": _filter,
    "interleave": _interleave,
    "shuffle": _shuffle,
    "cache": _cache,
    "batch": _batch,
    "prefetch": _same,
}
