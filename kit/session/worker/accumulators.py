"""An accumulator on its task: gradients add up until their mean is taken.

It is found by container and name like a queue, and shared by all sessions. It counts
its own time steps: a gradient that was computed for an earlier one is dropped.

    apply(step 3) ──► step 3, sum of 2 gradients ──take(2)──► mean; step 4, sum of 0
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any

import numpy as np

from kit.bfloat16 import kind_of
from kit.errors import InvalidArgumentError
from kit.graph.dtypes import Array, DType, name_of
from kit.graph.static import Shape, agrees, text
from kit.session.worker.queues import CanWait, turn

_log = logging.getLogger("kit.session")


class Accumulator:
    """What the dense and the sparse kind share: time step, count, and waiting calls.

    Raises `InvalidArgumentError` for a dtype that is not a floating point number.
    `n_parts` is how many arrays a gradient is.
    """

    n_parts = 0

    def __init__(self, name: str, dtype: DType, shape: Shape, reduction: str) -> None:
        """`reduction` is MEAN or SUM: what `take` returns."""
        if kind_of(dtype) != "f":
            raise InvalidArgumentError(
                f"the accumulator {name!r} cannot add {name_of(dtype)}; gradients are "
                f"float16, bfloat16, float32 or float64."
            )
        self.name, self.dtype, self.shape = name, dtype, shape
        self.divides = reduction == "MEAN"
        self._step = self._count = 0
        self.waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @property
    def count(self) -> int:
        """How many gradients it holds."""
        return self._count

    def set_step(self, step: int) -> None:
        """Set the time step; gradients that it holds stay."""
        with self._changed:
            if step < self._step:
                _log.warning(
                    "the time step of the accumulator %r goes back from %d to %d.",
                    self.name,
                    self._step,
                    step,
                )
            self._step = step

    def apply(self, local_step: int, *parts: Any) -> None:
        """Add a gradient that was computed for `local_step`, or drop a stale one.

        Raises `InvalidArgumentError` for one that does not fit; nothing has changed
        then.
        """
        with self._changed:
            if local_step < self._step:
                return
            self._add(*parts)
            self._count += 1
            self._changed.notify_all()

    def take(self, call: CanWait, n: int) -> Any:
        """Return the mean of all gradients once there are `n`, and begin anew.

        The first to ask is served first, whatever number others ask for.
        """
        if n < 1:
            raise InvalidArgumentError(
                f"{n} gradients of the accumulator {self.name!r} were asked for; ask "
                f"for 1 or more."
            )
        with self._changed, turn(self.waiting, self._changed) as me:
            call.wait(
                lambda: self.waiting[0] is me and self._count >= n,
                self._changed,
                lambda: f"gradients in {self.name!r} ({self._count} of {n} are there)",
            )
            result = self._result()
            self._count, self._step = 0, self._step + 1
        return result

    def _add(self, *parts: Any) -> None:
        raise NotImplementedError

    def _result(self) -> Any:
        raise NotImplementedError

    def refused(self, what: str) -> InvalidArgumentError:
        """Return the error for a gradient that does not fit."""
        return InvalidArgumentError(
            f"the accumulator {self.name!r} of {name_of(self.dtype)} "
            f"{text(self.shape)} cannot take {what}."
        )


class DenseAccumulator(Accumulator):
    """Gradients of one shape each."""

    n_parts = 1

    def __init__(self, name: str, dtype: DType, shape: Shape, reduction: str) -> None:
        super().__init__(name, dtype, shape, reduction)
        self._sum: Array = np.zeros((), dtype)

    def _add(self, *parts: Any) -> None:
        (gradient,) = (np.asarray(part) for part in parts)
        self._check(gradient)
        # The first gradient is shared with its op, so it must not change. The sum with
        # the second is a new array, to which all others are added in place.
        if self._count == 0:
            self._sum = gradient
        elif self._count == 1:
            self._sum = np.asarray(self._sum + gradient)
        else:
            np.add(self._sum, gradient, out=self._sum)

    def _result(self) -> Array:
        total, self._sum = self._sum, np.zeros((), self.dtype)
        if not self.divides or self._count == 1:
            return total
        return np.asarray(total / self.dtype.type(self._count))

    def _check(self, gradient: Array) -> None:
        if gradient.dtype != self.dtype:
            raise self.refused(f"a gradient of {name_of(gradient.dtype)}")
        if not agrees(self.shape, gradient.shape):
            raise self.refused(f"a gradient of {text(gradient.shape)}")
        if self._count and gradient.shape != self._sum.shape:
            raise self.refused(
                f"a gradient of {text(gradient.shape)} after one of "
                f"{text(self._sum.shape)}"
            )


# --------------------------------------------------------------------------------------
# An accumulator of sparse gradients: rows with the index of each.
#
# A row's mean is over the gradients that contain it, not over all. Two gradients are
# merged as if the indices of each were sorted; where they are not, an index may occur
# twice in the result.


_UNKNOWN = -1  # a size that is not known


class RowAccumulator(Accumulator):
    """Gradients that are rows of a tensor: indices, rows, shape of the whole."""

    n_parts = 3

    def __init__(self, name: str, dtype: DType, shape: Shape, reduction: str) -> None:
        """Take a `shape`; one without axes means the same as None: any."""
        super().__init__(name, dtype, shape or None, reduction)
        self._clear((0,))

    def _clear(self, shape: tuple[int, ...]) -> None:
        self._indices = np.zeros(0, np.int64)
        self._rows = np.zeros(shape, self.dtype)
        self._touched = np.zeros(0, np.int64)

    def _add(self, *parts: Any) -> None:
        indices, rows, shape = (np.asarray(part) for part in parts)
        self._check(indices, rows)
        self._check_shape(indices, rows, shape)
        if self._count == 0:
            self._clear(rows.shape)
            self._rows = np.zeros((0, *rows.shape[1:]), self.dtype)
        where, left, right = merged(self._indices, indices)
        total = np.zeros((len(where), *rows.shape[1:]), self.dtype)
        touched = np.zeros(len(where), np.int64)
        old, new = left >= 0, right >= 0
        total[old] += self._rows[left[old]]
        total[new] += rows[right[new]]
        touched[old] += self._touched[left[old]]
        touched[new] += 1
        self._indices, self._rows, self._touched = where, total, touched

    def _result(self) -> tuple[Array, Array, Array]:
        indices, rows, touched = self._indices, self._rows, self._touched
        if self.divides:
            divisor = touched.astype(self.dtype)
            rows = rows / divisor.reshape(-1, *[1] * (rows.ndim - 1))
        first = self.shape[0] if self.shape else None
        whole = [_UNKNOWN if first is None else first, *rows.shape[1:]]
        self._clear((0,))
        return indices, rows, np.asarray(whole, np.int64)

    def _check(self, indices: Array, rows: Array) -> None:
        if rows.dtype != self.dtype:
            raise self.refused(f"rows of {name_of(rows.dtype)}")
        if indices.ndim != 1:
            raise self.refused(f"indices of {text(indices.shape)}; they are a vector")
        if rows.ndim < 1 or len(rows) != len(indices):
            raise self.refused(
                f"{text(rows.shape)} as rows of {len(indices)} indices: one row each"
            )
        if self._count and rows.shape[1:] != self._rows.shape[1:]:
            raise self.refused(
                f"rows of {text(rows.shape[1:])} after rows of "
                f"{text(self._rows.shape[1:])}"
            )

    def _check_shape(self, indices: Array, rows: Array, shape: Array) -> None:
        if self.shape is None:
            return
        sizes = tuple(int(size) for size in shape.ravel())
        if sizes and not agrees(self.shape, sizes[: len(self.shape)]):
            raise self.refused(f"a gradient of {text(sizes)}")
        n = len(self.shape)  # rows may have more axes than are announced
        if len(rows.shape) < n or not agrees(self.shape[1:], rows.shape[1:n]):
            raise self.refused(f"rows of {text(rows.shape[1:])}")
        first = self.shape[0]
        if first is not None and len(indices) and indices.max() >= first:
            raise self.refused(
                f"a row at {int(indices.max())}: its rows are 0 to {first - 1}"
            )


def merged(left: Array, right: Array) -> tuple[Array, Array, Array]:
    """Return the indices of both, and where each stands in left and in right, or -1.

    >>> [part.tolist() for part in merged(np.array([1, 3]), np.array([3, 4]))]
    [[1, 3, 4], [0, 1, -1], [-1, 0, 1]]
    """
    if _rises(left) and _rises(right):
        where = np.union1d(left, right).astype(np.int64)
        return where, _places(where, left), _places(where, right)
    return _merged_one_by_one(left.tolist(), right.tolist())


def _rises(indices: Array) -> bool:
    return bool(np.all(indices[1:] > indices[:-1]))


def _places(where: Array, indices: Array) -> Array:
    rows = np.full(len(where), -1, np.int64)
    rows[np.searchsorted(where, indices)] = np.arange(len(indices))
    return rows


def _merged_one_by_one(left: list[int], right: list[int]) -> tuple[Array, Array, Array]:
    rows: list[tuple[int, int, int]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        a, b = left[i], right[j]
        rows.append((min(a, b), i if a <= b else -1, j if b <= a else -1))
        i, j = i + (a <= b), j + (b <= a)
    rows += [(left[at], at, -1) for at in range(i, len(left))]
    rows += [(right[at], -1, at) for at in range(j, len(right))]
    where, of_left, of_right = np.asarray(rows, np.int64).reshape(-1, 3).T
    return where.copy(), of_left.copy(), of_right.copy()
