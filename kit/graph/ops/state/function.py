"""A Python function as an op: it is called in a run, on the host of its task.

A function does not travel with a graph. It stays in the process that made the op, under
a token, as long as the graph lives; `take` accepts one that reached another process
over a channel that may carry code.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4
from weakref import WeakValueDictionary

import numpy as np

from kit.arrays import to_numpy
from kit.errors import InternalError, InvalidArgumentError, KitError, UnknownError
from kit.graph.convert import tensor
from kit.graph.default import graph_of
from kit.graph.dtypes import KNOWN, STRING, Array, DType, dtype_of, name_of, to_array
from kit.graph.graph import Graph
from kit.graph.static import Shape, Static, agrees, as_shape, text
from kit.graph.table import Attrs, enter

Function = Callable[..., Any]


class _Kept:
    """Holds a function, since not every callable can be weakly referenced."""

    def __init__(self, function: Function) -> None:
        self.function = function


_made: Final[WeakValueDictionary[str, _Kept]] = WeakValueDictionary()
_taken: Final[dict[str, Function]] = {}
_NOTE: Final = "functions"


def py_function(
    function: Function,
    inputs: Sequence[Any],
    out_dtypes: Any,
    shapes: Any = None,
    name: str | None = None,
    *,
    is_exact: bool = False,
) -> Any:
    """Return the results of a Python function, called when a session runs it.

    Each run calls it again, always on the host, on a task of a `kit.Cluster` or in the
    process that made it. There is no gradient. What the function raises is raised by
    the run, with the traceback in `remote_traceback`.

    Parameters
    ----------
    function : callable
        Gets the values of `inputs` as numpy arrays, which it must not change (scalars
        and bytes where there are no axes). Returns a list of one value for each of
        `out_dtypes`, or the value itself if that is one dtype.
    inputs : sequence of Tensor or array-like
        Its arguments.
    out_dtypes : dtype, or list of dtype
        One dtype in place of a list makes one tensor instead of a list of them. With an
        empty list the op itself is returned.
    shapes : optional
        What is known of the shapes of the results, in the same form.
    name : str, optional
        The name of the op.
    is_exact : bool, default False
        Take Python's own numbers and texts as what numpy makes of them, and a list
        always as a list of results. Otherwise they take the announced dtype where they
        can. Arrays must have that dtype in either case.

    Returns
    -------
    Tensor, list of Tensor, or Op

    Raises
    ------
    TypeError
        `function` cannot be called.
    ValueError
        There is not one shape for each dtype.

    Examples
    --------
    >>> import kit
    >>> with kit.Graph().as_default(), kit.Session() as session:
    ...     longer = kit.py_function(lambda x: x + 1, [kit.constant(1.0)], "float32")
    ...     float(session.run(longer))
    2.0
    """
    if not callable(function):
        raise TypeError(f"{function!r} cannot be called; give a function.")
    is_one = not isinstance(out_dtypes, list | tuple)
    dtypes = tuple(map(dtype_of, [out_dtypes] if is_one else out_dtypes))
    listed_shapes = [shapes] if is_one else (shapes or [None] * len(dtypes))
    if len(listed_shapes) != len(dtypes):
        raise ValueError(
            f"there are {len(listed_shapes)} shapes for {len(dtypes)} results; give "
            f"one each, None where nothing is known."
        )
    tensors = [tensor(value) for value in inputs]
    graph = graph_of(tensors)
    attrs: dict[str, Any] = {
        "token": kept_by(graph, function),
        "dtypes": dtypes,
        "shapes": tuple(map(as_shape, listed_shapes)),
        "is_exact": is_exact,
        "is_one": is_one and not is_exact,
    }
    op = graph.create("PyFunc", *tensors, name=name, **attrs)
    if not dtypes:
        return op
    return op.outputs[0] if is_one else list(op.outputs)


def kept_by(graph: Graph, function: Function) -> str:
    """Keep a function as long as the graph lives; return its token."""
    token = uuid4().hex
    # The graph's own reference is the strong one: the function ends with it.
    kept = graph.notes.setdefault(_NOTE, {})[token] = _Kept(function)
    _made[token] = kept
    return token


def function_of(token: str) -> Function | None:
    """Return a function of this process by its token, None if it is not here."""
    kept = _made.get(token)
    return _taken.get(token) if kept is None else kept.function


def take(functions: Mapping[str, Function]) -> None:
    """Keep functions that were sent here by the process that made them."""
    _taken.update(functions)


def _infer(_: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    pairs = zip(attrs["shapes"], attrs["dtypes"], strict=True)
    return [Static(shape, dtype) for shape, dtype in pairs]


def _call(
    call: Any,
    *inputs: Any,
    token: str,
    dtypes: tuple[DType, ...],
    shapes: tuple[Shape, ...],
    is_exact: bool,
    is_one: bool,
) -> Any:
    result = _called(call.function(token), [_guarded(array) for array in inputs])
    results = [result] if is_one else _listed(result, len(dtypes))
    made = [
        _result(item, dtype, shape, number, is_exact)
        for number, (item, dtype, shape) in enumerate(
            zip(results, dtypes, shapes, strict=True)
        )
    ]
    return made[0] if len(made) == 1 else tuple(made)


def _called(function: Function, args: Sequence[Any]) -> Any:
    try:
        return function(*args)
    except KitError as error:
        if error.remote_traceback is None:
            error.remote_traceback = traceback.format_exc()
        raise
    except SystemExit as error:
        # It must not end the thread that serves the link.
        raise UnknownError(
            f"the function asked to exit: {error!r}.",
            remote_traceback=traceback.format_exc(),
        ) from error


def _guarded(x: Any) -> Any:
    """Return a read-only view for a function: others hold the same array."""
    view = np.asarray(x).view()
    view.flags.writeable = False
    return view if view.ndim else view[()]


def _listed(value: Any, n: int) -> Sequence[Any]:
    if n == 0:
        return []
    results = value if isinstance(value, list | tuple) else [value]
    if len(results) != n:
        raise InvalidArgumentError(
            f"the function returned {len(results)} values, and {n} were announced in "
            f"out_dtypes."
        )
    return results


def _result(
    value: Any, dtype: DType, shape: Shape, number: int, is_exact: bool
) -> Array:
    array = _array_of(value, is_exact)
    if isinstance(array, np.ndarray):
        _check_dtype(array, dtype, number)
    try:
        made = to_array(array, dtype)
    except (TypeError, ValueError) as exc:
        raise InvalidArgumentError(
            f"result {number} of the function cannot be {name_of(dtype)}: {exc}"
        ) from exc
    if not agrees(shape, made.shape):
        raise InvalidArgumentError(
            f"result {number} of the function has the shape {text(made.shape)}, and "
            f"{text(shape)} was announced."
        )
    # The function may go on to use what it returned.
    return made.copy() if made is value or made.base is not None else made


def _array_of(value: Any, is_exact: bool) -> Any:
    """Return arrays of any library as numpy's; plain values only if `is_exact`."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if hasattr(value, "dtype"):
        return to_numpy(value)
    return np.asarray(value) if is_exact and value is not None else value


def _check_dtype(array: Array, dtype: DType, number: int) -> None:
    own = STRING if array.dtype.kind in "USO" else array.dtype
    first = array.reshape(-1)[:1].tolist() if own == STRING else []
    if own not in KNOWN or not isinstance((first or [""])[0], str | bytes):
        raise InternalError(
            f"result {number} of the function is {array!r}, no numbers or texts."
        )
    if own != dtype:
        raise InvalidArgumentError(
            f"result {number} of the function is {name_of(own)}, and {name_of(dtype)} "
            f"was announced; return it with .astype({name_of(dtype)!r}), or announce "
            f"{name_of(own)}."
        )


enter(
    "PyFunc",
    _infer,
    _call,
    stateful=True,
    hosted=True,
    blocking=True,  # it may wait for what another function does
    n_outputs=lambda attrs: len(attrs["dtypes"]),
)
