"""Constants, placeholders, and ops that pass a value on."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.convert import make, make_op, tensor
from kit.graph.default import default_graph
from kit.graph.dtypes import Array, dtype_of, to_array
from kit.graph.op import Op, Tensor
from kit.graph.static import Shape, Static, as_shape, known_shape, merge
from kit.graph.table import Attrs, enter, infer_fixed

# Values of larger constants do not help shape rules, and would be stored twice.
_SMALL = 64


def constant(
    value: Any, dtype: Any = None, shape: Any = None, name: str = "Const"
) -> Tensor:
    """Return a tensor with a fixed value, which travels with the graph.

    Parameters
    ----------
    value : array-like
        A number, text, array, or nested lists of these.
    dtype : dtype, optional
        By default that of an array; Python's own numbers become float32 and int32.
    shape : sequence of int, optional
        A single value fills it; several values are reshaped to it.
    name : str, default "Const"
        The name of the op.

    Raises
    ------
    TypeError
        The values are not of this dtype, such as 1.5 for int32.
    ValueError
        The value is None, has lists of unequal lengths, or does not fill `shape`.

    Examples
    --------
    >>> import kit
    >>> with kit.Graph().as_default():
    ...     kit.constant(0, shape=[2, 3]).shape
    (2, 3)
    """
    array = to_array(value, None if dtype is None else dtype_of(dtype))
    if shape is not None:
        wanted = known_shape(as_shape(shape))
        if array.size != 1 and array.size != int(np.prod(wanted)):
            raise ValueError(
                f"{array.size} values do not fill the shape {list(wanted)}; give one "
                f"value or as many as it has elements."
            )
        filled = np.full(wanted, array.reshape(()), array.dtype)
        array = filled if array.size == 1 else array.reshape(wanted)
    return make("Const", name=name, value=array)


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """Return a tensor whose value is fed to each run.

    Parameters
    ----------
    dtype : dtype
        Of the values, such as "float32".
    shape : sequence of int or None, optional
        None stands for any size; without a shape, values of any shape can be fed.
    name : str, optional
        The name of the op.

    Returns
    -------
    Tensor
        A run that needs it and is not fed raises `InvalidArgumentError`.

    Examples
    --------
    >>> import kit
    >>> with kit.Graph().as_default(), kit.Session() as session:
    ...     x = kit.placeholder("float32", [None])
    ...     session.run(x + 1.0, {x: [1.0, 2.0]}).tolist()
    [2.0, 3.0]
    """
    attrs: dict[str, Any] = {"dtype": dtype_of(dtype), "shape": as_shape(shape)}
    return make("Placeholder", name=name, **attrs)


def identity(x: Any, name: str | None = None) -> Tensor:
    """Return the value of `x` from a new op, which can be placed elsewhere.

    Parameters
    ----------
    x : array-like or Tensor
        The value.
    name : str, optional
        The name of the op.
    """
    return make("Identity", tensor(x), name=name)


def stop_gradient(x: Any, name: str | None = None) -> Tensor:
    """Return the value of `x`; no gradient flows back through it.

    Parameters
    ----------
    x : array-like or Tensor
        The value.
    name : str, optional
        The name of the op.
    """
    return make("StopGradient", tensor(x), name=name)


def no_op(name: str | None = None) -> Op:
    """Return an op that does nothing, for control dependencies."""
    return make_op("NoOp", name=name)


def group(*ops: Any, name: str = "group_deps") -> Op:
    """Return an op that is done when several other ops are.

    Parameters
    ----------
    *ops : Op, Tensor or Variable
        The other ops.
    name : str, default "group_deps"
        The name of the op.

    Raises
    ------
    TypeError
        Something is neither an op nor a tensor.
    ValueError
        They belong to different graphs.
    """
    graph = next((op.graph for op in ops), default_graph())
    with graph.control_dependencies([graph.as_op(op) for op in ops]):
        return graph.create("NoOp", name=name)


def _constant(xp: ModuleType, *, value: Array) -> Any:
    return value if xp is np or value.dtype == object else xp.asarray(value)


def _infer_constant(_: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    value: Array = attrs["value"]
    shown = value if value.size <= _SMALL else None
    return [Static(value.shape, value.dtype, shown)]


def _infer_placeholder(_: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    shape: Shape = attrs["shape"]
    return [Static(shape, attrs["dtype"])]


def _not_fed(call: Any, *, dtype: Any, shape: Shape) -> Any:
    raise InvalidArgumentError(
        f"the placeholder {call.node!r} was not fed; give its value in feed_dict."
    )


def _infer_default(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    merge(inputs[0].shape, attrs["shape"], "the default and its placeholder")
    return [Static(attrs["shape"], inputs[0].dtype)]


def _same(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    return [inputs[0]]


def _pass_on(_: ModuleType, x: Any) -> Any:
    return x


def _pass_gradient(_: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [gradients[0]]


enter("Const", _infer_constant, _constant)
enter("Placeholder", _infer_placeholder, _not_fed, stateful=True)
# Stateful, so that its shape and value are never taken for those of the default.
enter(
    "PlaceholderWithDefault",
    _infer_default,
    lambda _, x, *, shape: x,
    _pass_gradient,
    stateful=True,
)


def _gradient_of_ones_own(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    """Call what the graph has noted for the op; its first outputs are the results."""
    back, n_results = op.graph.notes[f"gradient of {op.name}"]
    output_gradients = [
        make("ZerosLike", output) if g is None else g
        for output, g in zip(op.outputs, gradients[:n_results], strict=False)
    ]
    result = back(*output_gradients)
    listed = list(result) if isinstance(result, list | tuple) else [result]
    return [*[None] * n_results, *listed]


enter(
    "IdentityN",
    lambda inputs, _: [Static(static.shape, static.dtype) for static in inputs],
    lambda xp, *inputs, n: inputs,
    _gradient_of_ones_own,
    n_outputs=lambda attrs: int(attrs["n"]),
)
_PASSES: dict[str, Any] = {
    **{"call": "identity(input)", "doc": "the value of a tensor as a new operation"},
    "rows": True,
}
_STOPS: dict[str, Any] = {
    "call": "stop_gradient(input)",
    "doc": "the value of a tensor; no gradient flows back through it",
}
enter("Identity", _same, _pass_on, _pass_gradient, **_PASSES)
enter("StopGradient", _same, _pass_on, **_STOPS)
enter("NoOp", infer_fixed(), lambda xp: (), n_outputs=0)
