"""Iterators: a stream of elements on a task, one of which each run takes.

A dataset is an attribute: a tree of stages, each a dict with its `kind`. What a stage
calls is a function of the graph (`kit.graph.subgraph`) or the token of a Python
function; arrays and numbers that are known only in a run are inputs of `MakeIterator`.
`kit.session.worker.datasets` runs through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.graph.dtypes import STRING
from kit.graph.static import Static
from kit.graph.table import Attrs, enter, infer_fixed


def _iterator(
    call: Any, *, shared_name: str = "", dataset: Any = None, **_: Any
) -> Any:
    return call.iterator(shared_name, dataset)


def _make(
    call: Any, iterator: Any, *captured: Any, dataset: Any, **_: Any
) -> tuple[()]:
    iterator.begin(call, dataset, captured)
    return ()


def _infer_next(_: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    pairs = zip(attrs["shapes"], attrs["dtypes"], strict=True)
    return [Static(shape, dtype) for shape, dtype in pairs]


def _next(call: Any, iterator: Any, **_: Any) -> Any:
    element = iterator.take(call)
    return element if len(element) != 1 else element[0]


def _handle(call: Any, iterator: Any) -> Any:
    return np.asarray(call.iterator_handle(iterator), object)


def _of_handle(call: Any, handle: Any) -> Any:
    return call.iterator_of(handle.item() if hasattr(handle, "item") else handle)


_USES: dict[str, Any] = {"stateful": True, "hosted": True, "refs": (0,)}
_RESOURCE = infer_fixed(Static((), STRING))

enter("IteratorV2", _RESOURCE, _iterator, stateful=True, hosted=True, gives_ref=True)
enter(
    "OneShotIterator", _RESOURCE, _iterator, stateful=True, hosted=True, gives_ref=True
)
enter("IteratorToStringHandle", _RESOURCE, _handle, **_USES)
enter(
    "IteratorFromStringHandleV2",
    _RESOURCE,
    _of_handle,
    stateful=True,
    hosted=True,
    gives_ref=True,
)
enter("MakeIterator", infer_fixed(), _make, **_USES, n_outputs=0)
enter(
    "IteratorGetNext",
    _infer_next,
    _next,
    **_USES,
    blocking=True,  # a generator may wait for what another run does
    n_outputs=lambda attrs: len(attrs["dtypes"]),
)
