"""Random numbers of a cell that a loop runs, drawn before the loop for all times.

The gradient of a loop runs it again, so what is random in it must be the same then. The
first call of the cell, before the loop, tells how many numbers each time needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from kit.tf1.ops.index import gather
from kit.tf1.ops.join import stack
from kit.tf1.ops.random import random_uniform


class LoopNoise:
    """What a cell draws, in the order of its calls."""

    def __init__(self, n_times: Any, batch_size: Any) -> None:
        self._n_times, self._batch_size = n_times, batch_size
        self._rows: list[Any] = []
        self._time: Any = None
        self._n_taken = 0

    @contextmanager
    def drawn(self, time: Any = None) -> Iterator[None]:
        """Give cells their numbers: new ones for all times, or those of one time."""
        self._time, self._n_taken = time, 0
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def like(self, value: Any, seed: int | None) -> Any:
        """Return numbers from 0 to 1, one for each element of a value."""
        if self._time is None:
            batch, *sizes = value.shape.as_list()
            batch = self._batch_size if batch is None else batch
            shape = stack([self._n_times, batch, *sizes])
            self._rows.append(random_uniform(shape, dtype=value.dtype, seed=seed))
            return self._rows[-1][0]
        rows = self._rows[self._n_taken]
        self._n_taken += 1
        return gather(rows, self._time)


_current: ContextVar[LoopNoise | None] = ContextVar("noise of a loop", default=None)


def noise_like(value: Any, seed: int | None) -> Any:
    """Return what was drawn for a value, None outside of a loop."""
    current = _current.get()
    return None if current is None else current.like(value, seed)
