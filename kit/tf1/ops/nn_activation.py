"""Activations, and softmax along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kit.errors import InvalidArgumentError
from kit.tf1.ops.arithmetic import abs as absolute
from kit.tf1.ops.arithmetic import cast, divide
from kit.tf1.ops.write import functions_of_the_table, one_of, reserve, write
from kit.tf1.tensor.allowed import check_allowed
from kit.tf1.tensor.convert import argument, convert_to_tensor, create, op_scope
from kit.tf1.tensor.dtypes import float32

# The original's operations to move an axis to the end and back.
_TO_THE_END = ("Rank", "Rank", "Sub", "range", "range", "concat", "transpose")
_AND_BACK = ("Sub", "range", "range", "concat")


globals().update(functions_of_the_table(__name__, "nn."))

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def softsign(features: Any, name: str | None = None) -> Any:
    """Return x / (1 + |x|)."""
    with op_scope(name, "Softsign", [features]) as scope:
        x = argument("Softsign", "features", features)
        check_allowed("Softsign", [x], "f")
        return divide(x, absolute(x) + 1, name=scope)


def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Any:
    """Return x above 0 and `alpha` times x below; integers become float32."""
    with op_scope(name, "LeakyRelu", [features]) as scope:
        x = argument("LeakyRelu", "features", features)
        if x.dtype.is_integer:
            x = cast(x, float32)
        # In the original the slope is a float32, whatever x is.
        return create("LeakyRelu", x, name=scope, alpha=float(np.float32(alpha)))


def softmax(logits: Any, axis: Any = None, name: Any = None, dim: Any = None) -> Any:
    """Return e**x / sum(e**x) along an axis, by default the last."""
    axis = one_of("axis", axis, "dim", dim)
    return _along("Softmax", logits, axis, name)


def log_softmax(
    logits: Any, axis: Any = None, name: Any = None, dim: Any = None
) -> Any:
    """Return x - log(sum(e**x)) along an axis, by default the last."""
    axis = one_of("axis", axis, "dim", dim)
    return _along("LogSoftmax", logits, axis, name)


def _along(op_type: str, logits: Any, axis: Any, name: str | None) -> Any:
    x = convert_to_tensor(logits)
    position, shape = -1 if axis is None else int(axis), x.static.shape
    is_last = position == -1
    if shape is not None and shape:
        if not -len(shape) <= position < len(shape):
            raise InvalidArgumentError(
                f"Dimension ({position}) must be in the range [{-len(shape)}, "
                f"{len(shape)}), the axes of {x!r}."
            )
        is_last = position % len(shape) == len(shape) - 1
    if is_last:
        return write(op_type, name, attrs={"axis": -1}, logits=x)
    with x.graph.as_default():
        reserve(*_TO_THE_END, op_type, *_AND_BACK)
    return write(op_type, name, "transpose", {"axis": position}, logits=x)
