"""What may be fetched and fed beyond `kit.session`'s rules: sparse tensors, marks.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kit.bfloat16 import kind_of
from kit.graph.array_protocol import ArrayProtocol
from kit.graph.convert import holds_tensor
from kit.graph.op import IndexedSlices, Op
from kit.session.client.cached_run import field_names, mapping_like
from kit.tf1.graph.graph import Graph
from kit.tf1.tensor.sparse import SparseTensor, SparseTensorValue


class InaccessibleTensorError(ValueError):
    """A tensor is fetched although its graph prevents that.

    Raised by `Session.run` for tensors that were marked by `Graph.prevent_fetching`.
    The caller fetches another tensor. A retry fails again.
    """


def fetchable(graph: Graph, fetches: Any, *, tensors_only: bool = False) -> Any:
    """Return a structure of fetches as `kit.session` takes it.

    Raises `InaccessibleTensorError` for what was marked by `prevent_fetching`, and
    `RuntimeError` for an operation if only tensors are wanted.
    """
    if isinstance(fetches, SparseTensor):
        return SparseTensorValue(fetches.indices, fetches.values, fetches.dense_shape)
    if isinstance(fetches, list):
        return [fetchable(graph, item, tensors_only=tensors_only) for item in fetches]
    if isinstance(fetches, tuple):
        parts = [fetchable(graph, item, tensors_only=tensors_only) for item in fetches]
        return type(fetches)(*parts) if hasattr(fetches, "_fields") else tuple(parts)
    if isinstance(fetches, Mapping):
        values = [
            fetchable(graph, item, tensors_only=tensors_only)
            for item in fetches.values()
        ]
        return mapping_like(fetches, dict(zip(fetches, values, strict=True)))
    if names := field_names(fetches):
        parts = [getattr(fetches, name) for name in names]
        parts = [fetchable(graph, part, tensors_only=tensors_only) for part in parts]
        return type(fetches)(**dict(zip(names, parts, strict=True)))
    _check(graph, fetches, tensors_only)
    return fetches


def _check(graph: Graph, fetch: Any, tensors_only: bool) -> None:
    is_name = isinstance(fetch, str | bytes)
    if not is_name and not isinstance(fetch, ArrayProtocol | Op):
        return
    # Nearly always nothing is marked; then a run looks up no names here.
    if not tensors_only and not graph._unfetchable:
        return
    try:
        element = graph.as_graph_element(fetch)
    except (KeyError, TypeError, ValueError):
        return  # the session says what is wrong with it
    if tensors_only and isinstance(element, Op):
        raise RuntimeError(
            f"partial_run() gives values of tensors; {element.name!r} is an operation."
        )
    if not graph.is_fetchable(element):
        raise InaccessibleTensorError(
            f"{element.name!r} has been marked as not fetchable."
        )


def feedable(graph: Graph, feeds: Any) -> Any:
    """Return feeds as `kit.session` takes them.

    Raises `TypeError` for anything that is not a dict, `ValueError` for a tensor that
    was marked by `prevent_feeding` and for tensors inside of values.
    """
    if feeds is None or not isinstance(feeds, Mapping):
        return feeds
    fed: dict[Any, Any] = {}
    for key, value in feeds.items():
        for part_key, part in _pairs(key, value):
            fed[part_key] = _fed(graph, part_key, part)
    return fed


def _pairs(key: Any, value: Any) -> list[tuple[Any, Any]]:
    if isinstance(key, SparseTensor):
        is_given = key.dense_shape.static.value is not None  # with the placeholder
        shape = [] if is_given and len(value) == 2 else [key.dense_shape]
        return _of_parts([key.indices, key.values, *shape], value)
    if isinstance(key, IndexedSlices):
        shape = [] if key.dense_shape is None else [key.dense_shape]
        return _of_parts([key.values, key.indices, *shape], value)
    return [(key, value)]


def _of_parts(parts: list[Any], value: Any) -> list[tuple[Any, Any]]:
    if not isinstance(value, tuple | list) or len(value) < len(parts):
        raise ValueError(
            f"a value of {len(parts)} parts is fed as a tuple of them, not {value!r}."
        )
    return list(zip(parts, value, strict=False))


def _fed(graph: Graph, key: Any, value: Any) -> Any:
    """Return a value as it is fed, checked against its tensor."""
    if holds_tensor(value):
        raise ValueError(
            "The value of a feed cannot hold tensors; run them first and feed what "
            "comes out."
        )
    if not isinstance(key, ArrayProtocol | str):
        return value  # the session says what is wrong with the key
    try:
        tensor = graph.as_graph_element(key, allow_operation=False)
    except (KeyError, TypeError, ValueError):
        return value
    if not graph.is_feedable(tensor):
        raise ValueError(
            f"Tensor {tensor} may not be fed: prevent_feeding was called, or an "
            f"operation had to know its value when the line was written."
        )
    dtype = tensor.static.dtype
    if isinstance(value, int) and kind_of(dtype) in "biuf":
        _check_number(tensor, value)
    if isinstance(value, list | tuple) and dtype.kind in "iu":
        return _wrapped(value, dtype)
    return value


def _wrapped(values: Any, dtype: Any) -> Any:
    """Return a list of integers in `dtype`; those that are too large wrap around."""
    try:
        array = np.asarray(values)
    except (OverflowError, TypeError, ValueError):
        return values
    return array.astype(dtype) if array.dtype.kind in "iu" else values


def _check_number(tensor: Any, value: int) -> None:
    dtype = tensor.static.dtype
    try:
        fits = dtype.type(value) == value
    except OverflowError:
        if kind_of(dtype) == "f":
            raise
        fits = False
    if not fits:
        raise TypeError(
            f"Type of feed value {value} is not compatible with Tensor type "
            f"{tensor.dtype.name}: it would become another number."
        )
