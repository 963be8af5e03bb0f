"""A tensor that says on its task what others are when it is computed."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.graph.op import Op
from kit.graph.static import Static
from kit.graph.table import Attrs, OpDef, register


def _same(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    return [inputs[0]]


def _print(
    call: Any, x: Any, *data: Any, message: str, first_n: int, summarize: int
) -> Any:
    calls = call.own(itertools.count)
    if first_n < 0 or next(calls) < first_n:
        texts = [f"[{summary(value, summarize)}]" for value in data]
        # At once: a task's error stream may be a file that somebody follows.
        print(message + "".join(texts), file=sys.stderr, flush=True)
    return x


def summary(values: Any, limit: int) -> str:
    """Return the first values of an array as TensorFlow 1 writes them; all below 0.

    >>> summary(np.arange(6.0).reshape(2, 3), 4), summary(np.array([True, False]), 9)
    ('[0 1 2][3...]...', '1 0')
    """
    array = np.asarray(values)
    n = array.size if limit < 0 else min(limit, array.size)
    text = _written(array, n) if array.ndim else _word(array[()]) * (n > 0)
    return text + "..." * (n < array.size)


def _written(array: Any, n: int) -> str:
    """Return `n` values, in brackets for each axis but the outermost."""
    if array.ndim == 1:
        return " ".join(map(_word, array[:n]))
    parts = []
    for i in range(len(array)):
        left = n - i * array[0].size
        if left <= 0:
            break
        is_cut = array.ndim == 2 and left < array[0].size
        parts.append(f"[{_written(array[i], left)}{'...' * is_cut}]")
    return "".join(parts)


def _word(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, np.bool_):
        return str(int(value))
    if isinstance(value, np.floating):
        digits = np.finfo(value.dtype).precision
        short = f"{value:.{digits}g}"
        is_same = not np.isfinite(value) or value.dtype.type(short) == value
        return short if is_same else f"{value:.{digits + 3}g}"
    return str(value)


def _pass_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [gradients[0], *[None] * (len(op.inputs) - 1)]


# On the host, as its readers are.
register(OpDef("Print", _same, _print, _pass_gradient, stateful=True, hosted=True))
