"""Values to feed that dask has yet to compute: arrays, data frames, delayed calls.

    session.run(loss, {x: dask_images[:64], y: dask_labels[:64]})

They are computed at each run anew: by the tasks that use them when the session runs on
a `kit.Cluster` (see `kit.session.client.lazy_feeds`), else in the process that asks for
the run.
(For training, `kit.train` lets each worker load its own blocks.)
Looks for them only where dask is loaded: else nothing can be a collection of dask's.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from kit.graph.array_protocol import ArrayProtocol
from kit.graph.static import Shape


def is_lazy(x: object) -> bool:
    """Tell whether `x` is a collection of dask's; a tensor of a graph is not meant.

    >>> is_lazy([1, 2])
    False
    """
    return (
        "dask" in sys.modules
        and hasattr(x, "__dask_graph__")
        and not isinstance(x, ArrayProtocol | type)
    )


def announced_shape(x: Any) -> Shape:
    """Return what is known of the shape before it is computed.

    >>> announced_shape(None)
    """
    shape = getattr(x, "shape", None)
    if not isinstance(shape, tuple):
        return None
    return tuple(_size(one) for one in shape)


def token_of(x: Any) -> str:
    """Return what a collection is known by: equal ones compute the same."""
    from dask.base import tokenize

    return str(tokenize(x))


def loaded(values: Sequence[Any], scheduler: str | None = None) -> list[Any]:
    """Return the values with those of dask computed, all at once.

    What they share is computed once. Uses the scheduler that dask is set to unless one
    is named, and raises what the computation raises.
    """
    places = [i for i, one in enumerate(values) if is_lazy(one)]
    found = list(values)
    if places:
        from dask.base import compute

        wanted = [values[i] for i in places]
        results = compute(*wanted, traverse=False, scheduler=scheduler)  # type: ignore[no-untyped-call]  # dask's own gap
        for i, result in zip(places, results, strict=True):
            found[i] = result
    return found


def _size(one: Any) -> int | None:
    # nan: the array does not know; delayed: neither does the data frame.
    is_known = isinstance(one, int) or (isinstance(one, float) and not math.isnan(one))
    return int(one) if is_known else None
