"""Texts: joined, and made from numbers. A text is bytes in an array of objects."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.graph.convert import make, tensor
from kit.graph.dtypes import STRING, Array
from kit.graph.op import Tensor
from kit.graph.static import Static, broadcast
from kit.graph.table import Attrs, enter


def string_join(xs: Sequence[Any], separator: str = "", name: str | None = None) -> Any:
    """Return texts joined element by element; shapes are broadcast."""
    inputs = [tensor(x, STRING) for x in xs]
    return make("StringJoin", *inputs, separator=separator, name=name)


def as_string(x: Any, name: str | None = None) -> Tensor:
    """Return numbers as texts: floats with 6 digits, bools as true and false."""
    return make("AsString", tensor(x), name=name)


def _infer_join(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    shape = inputs[0].shape
    for static in inputs:
        if static.dtype != STRING:
            raise TypeError(
                f"texts are joined, and this is {static.dtype}; run it, and join its "
                f"value in Python, as in f'{{value}}'."
            )
        shape = broadcast(shape, static.shape, "the texts")
    return [Static(shape, STRING)]


def _join(_: ModuleType, *xs: Any, separator: str = "") -> Array:
    parts: Any = np.broadcast_arrays(*[np.asarray(x, object) for x in xs])
    joined = np.empty(parts[0].shape, object)
    for i in np.ndindex(joined.shape):
        joined[i] = separator.encode().join(part[i] for part in parts)
    return joined


def _infer_text(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    return [Static(inputs[0].shape, STRING)]


def _as_string(_: ModuleType, x: Any) -> Array:
    written = np.empty(x.shape, object)
    for i in np.ndindex(written.shape):
        written[i] = _text(x[i]).encode()
    return written


def _text(text: Any) -> str:
    if isinstance(text, bytes):
        return text.decode()
    if isinstance(text, np.bool_):
        return "true" if text else "false"
    return f"{text:f}" if isinstance(text, np.floating) else str(text)


enter("StringJoin", _infer_join, _join, hosted=True)
enter("AsString", _infer_text, _as_string, hosted=True)
