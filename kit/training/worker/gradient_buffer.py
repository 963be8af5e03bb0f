"""From a worker's gradients to the flat buffer: checked, copied, counted off.

Small gradients that are neighbours in the buffer are copied and checked together.

No gradient leaves the worker before its checks, and no member can complete the step
without this worker, so a bad gradient changes no parameter anywhere.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter, eq
from typing import Any, NamedTuple

import numpy as np

from kit.arrays import copy_into, is_finite
from kit.errors import GradientMismatch, InvalidArgumentError, KitError, NotFinite
from kit.exchange.layout import Range, intersect
from kit.exchange.plan import GRAD, NOW
from kit.exchange.ports.memory import Array, Memory
from kit.exchange.ports.port import Stamp
from kit.training.worker.gradient_views import GradientViews, Marks

try:
    from kit.training.worker import _gather
except ImportError:  # there was no C compiler
    _gather = None  # type: ignore[assignment]

# --------------------------------------------------------------------------------------
# Copy many small arrays into one flat array, with a few calls for hundreds of them.
#
# A Python call for each array would cost more than its bytes: for a hundred floats two
# microseconds to check and copy them, where one call for hundreds needs a tenth of
# that. Knows nothing of parameters, steps or workers: the caller names what did not
# fit.


_shape, _dtype = attrgetter("shape"), attrgetter("dtype")


class Gather:
    """A stretch of a flat array, filled with arrays that follow each other in it."""

    def __init__(self, flat: Array, shapes: Sequence[tuple[int, ...]]) -> None:
        """`flat` is contiguous and has as many elements as the shapes together."""
        self._flat_bytes = flat.data.cast("B")
        self._shapes = list(shapes)
        self._dtypes = [flat.dtype] * len(self._shapes)

    def copy(self, arrays: list[Any]) -> bool:
        """Copy the arrays in; whether they were fit for it.

        They are if each has its shape and dtype and is contiguous in host memory.
        If not, part of the place may have been written.
        """
        try:
            shaped = all(map(eq, map(_shape, arrays), self._shapes))
            if not shaped or list(map(_dtype, arrays)) != self._dtypes:
                return False
            self._flat_bytes[:] = b"".join(arrays)
        except (AttributeError, BufferError, TypeError, ValueError):
            return False
        return True


_INF = float("inf")
_FEW = 200  # for fewer parameters nothing is gained by compiled code
_PIECE_BYTES = 256 * 1024  # what is copied is still in the cache when it is checked


class GradientPiece(NamedTuple):
    """Gradients that are neighbours in the flat buffer; a large one is alone."""

    names: tuple[str, ...]
    values: slice  # where they are among those of all, in the order of params
    places: dict[str, Array]  # in the order of params
    flat: Array
    gather: Gather | None


class GradientBuffer:
    """Where a worker's gradients of one step go: a physical region of its memory.

    `weight` makes up for splits of unequal size: n_workers * examples / batch. With
    `may_overflow` gradients may be infinite or NaN.
    """

    def __init__(
        self,
        memory: Memory,
        task: str,
        region: int = GRAD,
        *,
        native: bool = True,
        may_overflow: bool = False,
    ) -> None:
        self._task, self._may_overflow = task, may_overflow
        self._places = memory.leaves(region)
        self._views = GradientViews(self._places)
        self._flat = {name: target.ravel() for name, target in self._places.items()}
        self._names = list(self._places)
        self._marks = Marks(memory, region)
        self._pieces = _pieces_of(memory, region)
        is_worth_it = native and len(self._places) > _FEW
        self._gathers = is_worth_it and _gather is not None
        self._wholes = [
            memory.typed(region, whole) for whole in memory.layout.stretches
        ]
        self._buckets = _buckets_of(memory)
        waits = [bucket for buckets in self._buckets.values() for bucket in buckets]
        self._waits = [waits.count(bucket) for bucket in range(1 + max(waits))]
        self._open = self._waits
        self._missing: set[str] | None = None  # None: all of them
        self._step = 0
        self._weight = 1.0

    def begin(self, step: int, weight: float = 1.0) -> None:
        """Expect the gradients of a step."""
        self._step, self._weight = step, weight
        self._missing = None
        self._open = self._waits

    def take(self, name: str, gradient: Any) -> Iterator[int]:
        """Copy one gradient in; yields the buckets that are complete with it.

        Raises `GradientMismatch` or `NotFinite`, naming worker, step and parameter.
        """
        self._count(name)
        with np.errstate(all="ignore"):
            self._put(name, gradient)
        return self._completed(name)

    def take_all(self, gradients: Any) -> None:
        """Copy all gradients in: a mapping by name, or a sequence in params' order."""
        with np.errstate(all="ignore"):  # once: it costs as much as a small gradient
            if not self._take_dict(gradients):
                values = self._in_order(gradients)
                for piece in self._pieces:
                    self._put_together(piece, values[piece.values])
        self._missing = set()

    def open(self) -> GradientViews:
        """Return where to write the gradients of this step.

        They are not handed over then: call `written` for each, or `all_written`.
        """
        self._marks.set()
        return self._views

    def written(self, name: Any) -> Iterator[int]:
        """Take a gradient that is in its place; yields and raises as `take` does."""
        self._count(name)
        self._check_written([] if self._marks.was_written(name) else [name])
        with np.errstate(all="ignore"):
            self._weigh(self._flat[name])
            if not self._is_finite(self._flat[name]):
                self._check_finite(name)
        return self._completed(name)

    def all_written(self) -> None:
        """Take all gradients that are in their places; raises as `take_all` does."""
        self._check_written(self._marks.unset())
        with np.errstate(all="ignore"):
            # At once where that is all there is to do; piece by piece to name one.
            is_good = self._weight == 1.0 and all(map(self._is_finite, self._wholes))
            for piece in () if is_good else self._pieces:
                self._weigh_and_check(piece)
        self._missing = set()

    def end(self) -> None:
        """Check that every parameter got its gradient."""
        if self._missing is None or self._missing:
            missing = self._missing
            names = [n for n in self._names if missing is None or n in missing]
            raise self._named(GradientMismatch(_difference(names, [])))

    def _take_dict(self, gradients: Any) -> bool:
        """Copy thousands, in params' order, in compiled code; whether it could be."""
        is_plain = type(gradients) is dict and len(gradients) == len(self._places)
        if not self._gathers or not is_plain:
            return False
        position = 0
        for piece in self._pieces:  # of which each is in the cache when it is checked
            position = _gather.gather(gradients, piece.places, position)
            if position < 0:
                return False
            self._weigh_and_check(piece)
        return True

    def _put_together(self, piece: GradientPiece, values: list[Any]) -> None:
        """Copy, weigh and check neighbours at once; one by one if they are unusual."""
        if piece.gather is not None and piece.gather.copy(values):
            self._weigh_and_check(piece)
            return
        for name, gradient in zip(piece.names, values, strict=True):
            self._put(name, gradient)

    def _weigh_and_check(self, piece: GradientPiece) -> None:
        self._weigh(piece.flat)
        if not self._is_finite(piece.flat):
            for name in piece.names:
                self._check_finite(name)

    def _put(self, name: str, gradient: Any) -> None:
        """Copy, weigh and check one gradient, all while it is in the cache."""
        target, flat = self._places[name], self._flat[name]
        try:
            copy_into(target, gradient, what=f"the gradient of {name!r}")
        except GradientMismatch as error:
            raise self._named(error) from error
        except InvalidArgumentError as error:
            text = f"the gradient of {name!r}: {error.message}"
            raise self._named(GradientMismatch(text)) from error
        self._weigh(flat)
        if not self._is_finite(flat):
            self._check_finite(name)

    def _weigh(self, flat: Array) -> None:
        if self._weight != 1.0:
            np.multiply(flat, flat.dtype.type(self._weight), out=flat)

    def _is_finite(self, flat: Array) -> bool:
        """Do the quick check of `is_finite`, without the cost of a call.

        The sum of squares is finite only if all values are. It may overflow although
        they are: then `is_finite` decides.
        """
        return self._may_overflow or bool(np.dot(flat, flat) < _INF)

    def _check_written(self, left: Sequence[str]) -> None:
        if left:
            name = next(name for name in self._names if name in left)
            text = (
                f"step() did not write grads[{name!r}]; a step that takes grads must "
                f"write each gradient, for example by out=grads[{name!r}], or "
                f"grads[{name!r}][...] = 0 if the loss does not use {name!r}."
            )
            raise self._named(GradientMismatch(text))

    def _count(self, name: Any) -> None:
        """Note that a gradient is handed over; no other one may be."""
        if self._missing is None:
            self._missing = set(self._names)
            self._open = self._waits.copy()
        if name not in self._missing:
            text = f"the gradient of {name!r} was handed over twice in one step."
            if name not in self._places:
                names = ", ".join(map(repr, self._places))
                text = f"a gradient was given for {name!r}; the parameters are {names}."
            raise self._named(GradientMismatch(text))
        self._missing.discard(name)

    def _check_finite(self, name: str) -> None:
        flat = self._flat[name]
        if not is_finite(flat):
            raise self._named(NotFinite(_describe(name, flat)))

    def _completed(self, name: str) -> Iterator[int]:
        done = []
        for bucket in self._buckets[name]:
            self._open[bucket] -= 1
            if not self._open[bucket]:
                done.append(bucket)
        return iter(done)

    def _in_order(self, gradients: Any) -> list[Any]:
        """Return the values in the order of params, as a list of our own."""
        if isinstance(gradients, Mapping):
            names = list(gradients)
            if names == self._names:
                return list(gradients.values())
            if gradients.keys() == self._places.keys():
                return [gradients[name] for name in self._names]
            missing = [name for name in self._names if name not in gradients]
            extra = [name for name in names if name not in self._places]
            raise self._named(GradientMismatch(_difference(missing, extra)))
        if not isinstance(gradients, Sequence) or len(gradients) != len(self._names):
            text = (
                f"step returned {type(gradients).__name__} as gradients; it must be a "
                f"dict by parameter name, such as return loss, "
                f"{{{self._names[0]!r}: gradient}}, or a list of {len(self._names)} "
                f"arrays in the order of params."
            )
            raise self._named(GradientMismatch(text))
        return list(gradients)

    def _named(self, error: KitError) -> KitError:
        where = f"{self._task}, step {self._step}: "
        return type(error)(where + error.message, task=self._task, step=self._step)


def _pieces_of(memory: Memory, region: int) -> list[GradientPiece]:
    """Cut the params into stretches of one dtype that are small, or one parameter."""
    leaves, places = memory.layout.leaves, memory.leaves(region)
    pieces, first, size = [], 0, 0
    for number, leaf in enumerate(leaves):
        size += leaf.range.size
        if number > first and (
            leaf.spec.dtype != leaves[first].spec.dtype or size > _PIECE_BYTES
        ):
            pieces.append(_piece(memory, region, places, slice(first, number)))
            first, size = number, leaf.range.size
    return [*pieces, _piece(memory, region, places, slice(first, len(leaves)))]


def _piece(
    memory: Memory, region: int, places: dict[str, Array], part: slice
) -> GradientPiece:
    """Return the leaves of `part`; in the buffer they are in reverse order."""
    leaves = memory.layout.leaves[part][::-1]
    whole = Range(leaves[0].lo, leaves[-1].range.hi)
    flat, gather = memory.typed(region, whole), None
    if len(leaves) > 1 and whole.size and isinstance(flat, np.ndarray):
        gather = Gather(flat, [leaf.spec.shape for leaf in leaves])
    names = tuple(leaf.spec.name for leaf in leaves)
    backwards = slice(part.stop - 1, part.start - 1 if part.start else None, -1)
    places = {name: places[name] for name in reversed(names)}
    return GradientPiece(names, backwards, places, flat, gather)


def _buckets_of(memory: Memory) -> dict[str, list[int]]:
    layout = memory.layout
    starts = [bucket.range.lo for bucket in layout.buckets]  # in their order
    buckets_of = {
        leaf.spec.name: [
            number
            for number in range(
                max(0, bisect_right(starts, leaf.range.lo) - 1),
                bisect_left(starts, leaf.range.hi),
            )
            if intersect(leaf.range, layout.buckets[number].range)
        ]
        for leaf in layout.leaves
    }
    # A parameter without elements completes nothing; let it count for the last bucket.
    return {
        name: where or [len(layout.buckets) - 1] for name, where in buckets_of.items()
    }


def _describe(name: str, flat: Any) -> str:
    n_nan = int(np.isnan(flat).sum())
    n_inf = int(np.isinf(flat).sum())
    return (
        f"the gradient of {name!r} holds {n_nan} NaN and {n_inf} infinite values of "
        f"{flat.size}; the step was refused on all members and the parameters are "
        f"those of the step before. Lower the learning rate, or look at this worker's "
        f"batch."
    )


def _difference(missing: list[str], extra: list[str]) -> str:
    parts = []
    if missing:
        parts.append(f"no gradient for {', '.join(map(repr, missing))}")
    if extra:
        parts.append(f"a gradient for {', '.join(map(repr, extra))}, unknown here")
    returned = " and ".join(parts)
    return f"step returned {returned}; it must return one for each parameter."


# --------------------------------------------------------------------------------------
# Where a worker's steps find the parameters and leave the gradients, in its memory.


class StepArrays:
    """Where a worker's steps read the parameters and write the gradients.

    Each in turn, as the regions of the memory take turns; looked up when first used.
    """

    def __init__(
        self,
        memory: Memory,
        stamp: Stamp,
        task: str,
        *,
        native: bool = True,
        may_overflow: bool = False,
    ) -> None:
        self.memory, self.stamp, self.task, self.native = memory, stamp, task, native
        self.may_overflow = may_overflow
        self._parameters: dict[int, dict[str, Array]] = {}
        self._gradients: dict[int, GradientBuffer] = {}

    def forget(self) -> None:
        """Let go of all views; they are looked up again when they are used."""
        self._parameters.clear()
        self._gradients.clear()

    def params(self) -> dict[str, Array]:
        """Return read-only views of the parameters of this step."""
        region = self.stamp.where(NOW)
        if region not in self._parameters:
            views = self.memory.leaves(region)
            for view in views.values():
                if isinstance(view, np.ndarray):  # arrays of a GPU cannot be read-only
                    view.flags.writeable = False
            self._parameters[region] = views
        return self._parameters[region]

    def gradients(self) -> GradientBuffer:
        """Return where this step's gradients go."""
        region = self.stamp.where(GRAD)
        if region not in self._gradients:
            self._gradients[region] = GradientBuffer(
                self.memory,
                self.task,
                region,
                native=self.native,
                may_overflow=self.may_overflow,
            )
        return self._gradients[region]
