"""Values that one run uses in the place of tensors: checked and turned into arrays.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kit.arrays import to_numpy
from kit.errors import InvalidArgumentError
from kit.graph.dtypes import STRING, Array, DType, name_of, to_array
from kit.graph.graph import Graph
from kit.graph.op import Tensor
from kit.graph.speak import Speaker
from kit.graph.static import agrees, text


def read_feeds(graph: Graph, given: Mapping[Any, Any] | None) -> dict[Tensor, Array]:
    """Return the fed tensors and their values.

    Keys are tensors, variables, or names such as `x:0`. A value is converted to the
    tensor's dtype. Raises `TypeError` for a key that cannot be fed, `ValueError` for a
    value of another shape or one that cannot be converted.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(
            f"feed_dict is {type(given).__name__}; give a dict from tensors to values."
        )
    found: dict[Tensor, Array] = {}
    for key, value in given.items():
        if isinstance(key, tuple):
            for one, part in _pairs(key, value):
                found[_tensor(graph, one)] = _value(_tensor(graph, one), part)
        else:
            tensor = _tensor(graph, key)
            found[tensor] = _value(tensor, value)
    return found


def _pairs(key: tuple[Any, ...], value: Any) -> list[tuple[Any, Any]]:
    if not isinstance(value, tuple | list) or len(value) != len(key):
        raise ValueError(
            f"feed_dict: the key has {len(key)} parts, so its value must be a tuple of "
            f"as many, not {value!r}."
        )
    pairs: list[tuple[Any, Any]] = []
    for one, part in zip(key, value, strict=True):
        pairs += _pairs(one, part) if isinstance(one, tuple) else [(one, part)]
    return pairs


def _tensor(graph: Graph, key: Any) -> Tensor:
    if isinstance(key, str | bytes):
        name = key.decode() if isinstance(key, bytes) else key
        try:
            return graph.tensor(name)
        except (KeyError, ValueError) as exc:
            raise TypeError(
                f"feed_dict: {name!r} names no tensor of the graph ({exc}); write "
                f"'x:0', or use the tensor itself as key."
            ) from exc
    found = getattr(key, "ref", key)
    if not isinstance(found, Tensor):
        raise TypeError(
            f"feed_dict: {key!r} of type {type(key).__name__} cannot be fed; the keys "
            f"are tensors, variables and names such as 'x:0'."
        )
    if found.graph is not graph:
        raise TypeError(f"feed_dict: {key!r} is of another graph than the session.")
    return found


def _value(tensor: Tensor, value: Any) -> Array:
    if isinstance(value, Speaker):
        raise TypeError(
            f"feed_dict: the value for {tensor.name!r} is {value!r}, which has no value "
            f"yet; run it first and feed the result."
        )
    array = _array(tensor, value)
    if not agrees(tensor.static.shape, array.shape):
        raise ValueError(
            f"feed_dict: {tensor.name!r} has the shape {text(tensor.static.shape)} and "
            f"cannot be fed a value of {text(array.shape)}."
        )
    return array


def _array(tensor: Tensor, value: Any) -> Array:
    dtype = tensor.static.dtype
    if type(value) is np.ndarray and value.dtype == dtype:
        return value
    if dtype == STRING:
        return to_array(value, dtype)
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


def _check_fits(tensor: Tensor, value: int, dtype: DType) -> None:
    try:
        fits = dtype.kind not in "iu" or int(np.asarray(value).astype(dtype)) == value
    except OverflowError:
        fits = False
    if not fits:
        raise TypeError(
            f"feed_dict: {value} does not fit into {name_of(dtype)} of {tensor.name!r}."
        )
