"""Feeds that dask has not computed yet: arrays, data frames, delayed calls.

    session.run(loss, {x: dask_images[:64], y: dask_labels[:64]})

Each run computes them again: in the tasks that use them if the session runs on a
`kit.Cluster` (see `kit.session.client.feeds_on_tasks`), else in the process that asks
for the run. (For training, `kit.train` lets each worker load its own blocks.)

It never loads dask: where dask is not loaded, no value can be a collection of dask's.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from kit.graph.array_protocol import ArrayProtocol
from kit.graph.static import Shape


def is_lazy(x: object) -> bool:
    """Return whether `x` is a collection of dask's; tensors of a graph do not count.

    >>> is_lazy([1, 2])
    False
    """
    return (
        "dask" in sys.modules
        and hasattr(x, "__dask_graph__")
        and not isinstance(x, ArrayProtocol | type)
    )


def announced_shape(x: Any) -> Shape:
    """Return what is known about the shape before it is computed.

    >>> announced_shape(None)
    """
    shape = getattr(x, "shape", None)
    if not isinstance(shape, tuple):
        return None
    return tuple(_size(size) for size in shape)


def token_of(x: Any) -> str:
    """Return dask's token of a collection: equal tokens compute the same values."""
    from dask.base import tokenize

    return str(tokenize(x))


def loaded(values: Sequence[Any], scheduler: str | None = None) -> list[Any]:
    """Return the values, with those of dask computed, all at once.

    Parts that they share are computed once. Uses dask's current scheduler unless one is
    named, and raises what the computation raises.
    """
    places = [i for i, value in enumerate(values) if is_lazy(value)]
    loads = list(values)
    if places:
        from dask.base import compute

        wanted = [values[i] for i in places]
        results = compute(*wanted, traverse=False, scheduler=scheduler)  # type: ignore[no-untyped-call]  # dask's own gap
        for i, result in zip(places, results, strict=True):
            loads[i] = result
    return loads


def _size(size: Any) -> int | None:
    # An array has nan for an unknown size, a data frame a delayed value.
    is_known = isinstance(size, int) or (
        isinstance(size, float) and not math.isnan(size)
    )
    return int(size) if is_known else None
