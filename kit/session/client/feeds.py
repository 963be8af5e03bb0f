"""The values that a run uses in place of tensors: checked, and made arrays.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from kit.arrays import to_numpy
from kit.errors import InvalidArgumentError
from kit.graph.array_protocol import ArrayProtocol
from kit.graph.dtypes import STRING, Array, DType, name_of, to_array
from kit.graph.graph import Graph
from kit.graph.op import Tensor
from kit.graph.static import Shape, Static, agrees, text
from kit.session.client.dask_feeds import announced_shape, is_lazy, loaded


class Fed(Protocol):
    """What is fed: a tensor, or what stands for one on another task."""

    @property
    def name(self) -> str:
        """The tensor's name."""

    @property
    def static(self) -> Static:
        """Its shape and dtype."""


# Returns what to feed tensors in place of dask collections.
Later = Callable[[Sequence[tuple[Fed, Any]]], list[Any]]


def read_feeds(
    graph: Graph, feeds: Mapping[Any, Any] | None, later: Later | None = None
) -> dict[Tensor, Any]:
    """Return the fed tensors and their values.

    Keys are tensors, variables, or names such as `x:0`. A value is converted to the
    tensor's dtype. Dask collections are computed here, all at once, or are left to
    `later`.
    Raises `TypeError` for a key that cannot be fed, `ValueError` for a value of another
    shape or one that cannot be converted.
    """
    if feeds is None:
        return {}
    if not isinstance(feeds, Mapping):
        raise TypeError(
            f"feed_dict is {type(feeds).__name__}; give a dict from tensors to values."
        )
    fed: dict[Tensor, Any] = {}
    for key, value in feeds.items():
        if isinstance(key, tuple):
            for part_key, part in _pairs(key, value):
                fed[fed_tensor(graph, part_key)] = part
        else:
            fed[fed_tensor(graph, key)] = value
    if any(map(is_lazy, fed.values())):
        if later is not None:
            return _left(fed, later)
        fed = _loaded(fed)
    return {tensor: fed_value(tensor, value) for tensor, value in fed.items()}


def _left(fed: Mapping[Tensor, Any], later: Later) -> dict[Tensor, Any]:
    lazy = [(tensor, value) for tensor, value in fed.items() if is_lazy(value)]
    loads = dict(
        zip([tensor_left for tensor_left, _ in lazy], later(lazy), strict=True)
    )
    return {
        tensor: loads[tensor] if tensor in loads else fed_value(tensor, value)
        for tensor, value in fed.items()
    }


def _loaded(fed: Mapping[Tensor, Any]) -> dict[Tensor, Any]:
    """Let dask compute all collections, unless a shape shows that one cannot be fed."""
    for tensor, value in fed.items():
        if is_lazy(value):
            check_shape(tensor, announced_shape(value))
    return dict(zip(fed, loaded(list(fed.values())), strict=True))


def _pairs(key: tuple[Any, ...], value: Any) -> list[tuple[Any, Any]]:
    if not isinstance(value, tuple | list) or len(value) != len(key):
        raise ValueError(
            f"feed_dict: the key has {len(key)} parts, so its value must be a tuple of "
            f"as many, not {value!r}."
        )
    pairs: list[tuple[Any, Any]] = []
    for part_key, part in zip(key, value, strict=True):
        pairs += (
            _pairs(part_key, part)
            if isinstance(part_key, tuple)
            else [(part_key, part)]
        )
    return pairs


def fed_tensor(graph: Graph, key: Any) -> Tensor:
    """Return the tensor that a key of a feed means; raises `TypeError`."""
    if isinstance(key, str | bytes):
        name = key.decode() if isinstance(key, bytes) else key
        try:
            return graph.tensor(name)
        except (KeyError, ValueError) as exc:
            raise TypeError(
                f"feed_dict: {name!r} names no tensor of the graph ({exc}); write "
                f"'x:0', or use the tensor itself as key."
            ) from exc
    fed = getattr(key, "ref", key)
    if not isinstance(fed, Tensor):
        raise TypeError(
            f"feed_dict: {key!r} of type {type(key).__name__} cannot be fed; the keys "
            f"are tensors, variables and names such as 'x:0'."
        )
    if fed.graph is not graph:
        raise TypeError(
            f"feed_dict: {key!r} belongs to another graph than the session."
        )
    return fed


def fed_value(tensor: Fed, value: Any) -> Array:
    """Return a value as an array that fits a tensor; see `read_feeds`."""
    if isinstance(value, ArrayProtocol):
        raise TypeError(
            f"feed_dict: the value for {tensor.name!r} is {value!r}, which has no "
            f"value yet; run it first and feed the result."
        )
    array = _array(tensor, value)
    check_shape(tensor, array.shape)
    return array


def check_shape(tensor: Fed, shape: Shape) -> None:
    """Raise `ValueError` for a shape that does not fit a fed tensor's."""
    if not agrees(tensor.static.shape, shape):
        raise ValueError(
            f"feed_dict: {tensor.name!r} has the shape {text(tensor.static.shape)} and "
            f"cannot be fed a value of {text(shape)}."
        )


def _array(tensor: Fed, value: Any) -> Array:
    dtype = tensor.static.dtype
    if dtype == STRING:  # also an array of objects: they may be str
        return to_array(value, dtype)
    if type(value) is np.ndarray and value.dtype == dtype:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        _check_fits(tensor, value, dtype)
    try:
        if hasattr(value, "dtype") and not isinstance(value, np.ndarray | np.generic):
            value = to_numpy(value)
        return np.asarray(value, dtype)
    except InvalidArgumentError as exc:
        raise ValueError(f"feed_dict: {tensor.name!r}: {exc.message}") from exc
    except ValueError as exc:
        raise ValueError(
            f"feed_dict: {value!r} cannot become {name_of(dtype)} for {tensor.name!r}: "
            f"{exc}."
        ) from exc


def _check_fits(tensor: Fed, value: int, dtype: DType) -> None:
    try:
        fits = dtype.kind not in "iu" or int(np.asarray(value).astype(dtype)) == value
    except OverflowError:
        fits = False
    if not fits:
        raise TypeError(
            f"feed_dict: {value} does not fit into {name_of(dtype)} of {tensor.name!r}."
        )
