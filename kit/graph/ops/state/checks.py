"""Values that are checked in a run: conditions, shapes, and whether numbers are finite.

A check runs in each run that needs it, and is never folded.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.op import Op
from kit.graph.static import Static, agrees, merge, text
from kit.graph.table import Attrs, enter, infer_fixed

# --------------------------------------------------------------------------------------
# A tensor that says on its task what others are when it is computed.


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
enter("Print", _same, _print, _pass_gradient, stateful=True, hosted=True)


# --------------------------------------------------------------------------------------
# Conditions and shapes.


def _assert(_: Any, condition: Any, *data: Any, summarize: int) -> tuple[()]:
    if not condition:
        shown = " ".join(f"[{summary(part, summarize)}]" for part in data)
        raise InvalidArgumentError(f"assertion failed: {shown}")
    return ()


def _infer_shape(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    return [Static(merge(inputs[0].shape, attrs["shape"]), inputs[0].dtype)]


def _ensure_shape(_: Any, x: Any, *, shape: Any) -> Any:
    if not agrees(shape, x.shape):
        raise InvalidArgumentError(
            f"Shape of tensor {text(x.shape)} is not compatible with expected shape "
            f"{text(shape)}."
        )
    return x


def _infer_same(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    return [Static(inputs[0].shape, inputs[0].dtype)]


def _check_numerics(_: Any, x: Any, *, message: str) -> Any:
    for what, is_there in (("Inf", np.isinf(x).any()), ("NaN", np.isnan(x).any())):
        if is_there:
            raise InvalidArgumentError(f"{message} : Tensor had {what} values")
    return x


def _pass(_: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return gradients


enter("Assert", infer_fixed(), _assert, stateful=True, hosted=True, n_outputs=0)
enter("EnsureShape", _infer_shape, _ensure_shape, _pass, stateful=True)
_CHECK: dict[str, Any] = {"stateful": True, "takes": "f"}
enter("CheckNumerics", _infer_same, _check_numerics, _pass, **_CHECK)
