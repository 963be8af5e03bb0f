"""From a worker's gradients to the flat buffer: checked, copied, counted off.

Nothing of a step has left the worker when a check fails, and no member can complete the
step without this worker, so a bad gradient changes nothing anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kit.arrays import copy_into, is_finite
from kit.errors import GradientMismatch, InvalidArgumentError, KitError, NotFinite
from kit.exchange.layout import intersect
from kit.exchange.memory import Memory

_INF = float("inf")


class Handover:
    """Where a worker's gradients of one step go.

    `weight` makes up for splits of unequal size: n_workers * examples / batch.
    """

    def __init__(self, memory: Memory, task: str) -> None:
        """Look up where each parameter's gradient belongs."""
        self._task = task
        self._places = memory.gradients()
        self._flat = {name: place.ravel() for name, place in self._places.items()}
        self._buckets = _buckets_of(memory)
        waits = [bucket for buckets in self._buckets.values() for bucket in buckets]
        self._waits = [waits.count(bucket) for bucket in range(1 + max(waits))]
        self._open = self._waits
        self._missing: set[str] = set()
        self._step = 0
        self._weight = 1.0

    def begin(self, step: int, weight: float = 1.0) -> None:
        """Expect the gradients of a step."""
        self._step, self._weight = step, weight
        self._missing = set(self._places)
        self._open = self._waits.copy()

    def take(self, name: str, gradient: Any) -> Iterator[int]:
        """Copy one gradient in; yields the buckets that are complete with it.

        Raises `GradientMismatch` or `NotFinite`, naming worker, step and parameter.
        """
        if name not in self._missing:
            raise self._named(GradientMismatch(self._why_not(name)))
        with np.errstate(all="ignore"):
            self._put(name, gradient)
        self._missing.discard(name)
        return self._completed(name)

    def take_all(self, gradients: Any) -> None:
        """Copy all gradients in: a mapping by name, or a sequence in params' order."""
        if not isinstance(gradients, Mapping):
            gradients = self._by_name(gradients)
        if gradients.keys() != self._places.keys():
            missing = [name for name in self._places if name not in gradients]
            extra = [name for name in gradients if name not in self._places]
            raise self._named(GradientMismatch(_difference(missing, extra)))
        with np.errstate(all="ignore"):  # once: it costs as much as a small gradient
            for name, gradient in gradients.items():
                self._put(name, gradient)
        self._missing.clear()

    def end(self) -> None:
        """Check that every parameter got its gradient."""
        if self._missing:
            names = [name for name in self._places if name in self._missing]
            raise self._named(GradientMismatch(_difference(names, [])))

    def _put(self, name: str, gradient: Any) -> None:
        """Copy, weigh and check one gradient, all while it is in the cache."""
        place, flat = self._places[name], self._flat[name]
        try:
            copy_into(place, gradient)
        except InvalidArgumentError as error:
            text = f"the gradient of {name!r}: {error.message}"
            raise self._named(GradientMismatch(text)) from error
        if self._weight != 1.0:
            np.multiply(place, place.dtype.type(self._weight), out=place)
        # The quick look of `is_finite` first, without what a call of it costs.
        if not np.dot(flat, flat) < _INF and not is_finite(flat):
            raise self._named(NotFinite(_describe(name, flat)))

    def _completed(self, name: str) -> Iterator[int]:
        done = []
        for bucket in self._buckets[name]:
            self._open[bucket] -= 1
            if not self._open[bucket]:
                done.append(bucket)
        return iter(done)

    def _by_name(self, gradients: Any) -> dict[str, Any]:
        if not isinstance(gradients, Sequence) or len(gradients) != len(self._places):
            text = (
                f"step returned {type(gradients).__name__} as gradients; it must be a "
                f"dict by parameter name, or a list of {len(self._places)} arrays in "
                f"the order of params."
            )
            raise self._named(GradientMismatch(text))
        return dict(zip(self._places, gradients, strict=True))

    def _why_not(self, name: str) -> str:
        if name in self._places:
            return f"the gradient of {name!r} was handed over twice in one step."
        known = ", ".join(map(repr, self._places))
        return f"a gradient was given for {name!r}; the parameters are {known}."

    def _named(self, error: KitError) -> KitError:
        where = f"{self._task}, step {self._step}: "
        return type(error)(where + error.message, task=self._task, step=self._step)


def _buckets_of(memory: Memory) -> dict[str, list[int]]:
    layout = memory.layout
    found = {
        leaf.spec.name: [
            number
            for number, bucket in enumerate(layout.buckets)
            if intersect(leaf.range, bucket.range)
        ]
        for leaf in layout.leaves
    }
    # A parameter without elements completes nothing; let it count for the last bucket.
    return {name: where or [len(layout.buckets) - 1] for name, where in found.items()}


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
    found = " and ".join(parts)
    return f"step returned {found}; it must return one for each parameter."
