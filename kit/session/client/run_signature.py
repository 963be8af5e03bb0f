"""What a run is asked for, worked out once: what the tasks are asked, what to return.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kit.graph.array_protocol import ArrayProtocol
from kit.graph.dtypes import STRING, Array
from kit.graph.op import Op, Tensor
from kit.session.client.fetches import Fetches
from kit.session.master.plan import RunSignature


class FetchMapper:
    """The way from fetches and fed tensors to a kind of run, and back from its results.

    A fetched tensor that is fed has its fed value; the tasks are not asked for it.
    """

    def __init__(
        self, elements: Sequence[Tensor | Op], feeds: Sequence[Tensor]
    ) -> None:
        self.feeds = tuple(feeds)
        fed = set(feeds)
        asked = [one for one in elements if isinstance(one, Tensor) and one not in fed]
        self.kind = RunSignature(
            tuple((one.op.name, one.index) for one in feeds),
            tuple((one.op.name, one.index) for one in asked),
            tuple(one.name for one in elements if isinstance(one, Op)),
        )
        self.is_empty = not (self.kind.fetches or self.kind.targets)
        place: dict[Any, int] = {one: i for i, one in enumerate(asked)}
        place |= {one: len(asked) + i for i, one in enumerate(feeds)}
        self._places = [
            place[one] if isinstance(one, Tensor) else None for one in elements
        ]

    def values(self, results: Sequence[Any], fed: Sequence[Array]) -> list[Any]:
        """Return the value of each element; of ops None."""
        known = [*map(unwrapped, results), *fed]
        return [None if at is None else known[at] for at in self._places]


class RequestedRun:
    """A whole request: its structure of fetches, and the recipe for them."""

    def __init__(self, fetches: Fetches, feeds: Sequence[Tensor]) -> None:
        self.fetches, self.recipe = fetches, FetchMapper(fetches.elements, feeds)


def key_of(fetches: Any, feeds: Mapping[Any, Any] | None) -> Any:
    """Return what an equal request is recognised by, None for a deep structure."""
    if isinstance(fetches, list | tuple):
        if not all(isinstance(one, _SIMPLE) for one in fetches):
            return None
        what: Any = (type(fetches), *fetches)
    elif isinstance(fetches, _SIMPLE):
        what = fetches
    else:
        return None
    if not feeds:
        return what, ()
    if type(feeds) is not dict or not all(isinstance(one, Tensor) for one in feeds):
        return None
    return what, tuple(feeds)


_SIMPLE = (ArrayProtocol, Op)  # tensors, variables and ops are equal to themselves only


def unwrapped(value: Any) -> Any:
    """Return a value of rank 0 as a scalar, everything else as it is."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value.item() if value.dtype == STRING else value[()]
    return value
