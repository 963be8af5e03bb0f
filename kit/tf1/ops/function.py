"""Python functions in a graph."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from kit.errors import UnknownError
from kit.graph.ops.state.function import py_function
from kit.tf1.tensor.convert import argument, op_scope
from kit.tf1.tensor.dtypes import numpy_of

# Errors of a function that a run turns into errors of a matching class.
_WITH_A_KIND = (
    ValueError,
    TypeError,
    StopIteration,
    MemoryError,
    NotImplementedError,
)


def py_func(
    func: Callable[..., Any],
    inp: Any,
    Tout: Any,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Return the results of a Python function, called when a session runs it.

    It gets numpy arrays and returns arrays of the dtypes `Tout`: one dtype, or a list.
    It is called in the process that made it. There is no gradient. Raises `ValueError`
    for what cannot be called. In a run: `InvalidArgumentError` when the function raises
    `ValueError` or `TypeError`, `OutOfRangeError` for `StopIteration`,
    `UnimplementedError` for `NotImplementedError`, `UnknownError` for most others.
    """
    if not callable(func):
        raise ValueError(f"Expected func to be callable, got func: {func!r}")
    is_list = isinstance(Tout, list | tuple)
    dtypes = [numpy_of(dtype) for dtype in (Tout if is_list else [Tout])]
    with op_scope(name, "PyFunc", inp) as scope:
        inputs = [
            argument("PyFunc", f"input_{i}", value) for i, value in enumerate(inp)
        ]
        made = py_function(_telling(func), inputs, dtypes, name=scope, is_exact=True)
    if not dtypes and not stateful:
        return []  # nothing needs it, so it is never called
    return made if is_list or not isinstance(made, list) else made[0]


def _telling(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with its errors turned into those of the original."""

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except _WITH_A_KIND:
            raise
        except Exception as error:
            raise UnknownError(
                f"{type(error).__name__}: {error}",
                remote_traceback=traceback.format_exc(),
            ) from error

    return call
