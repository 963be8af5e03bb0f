"""Comparisons, and logic on bools. Gradients stop here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.graph.array_protocol import UFUNCS
from kit.graph.convert import tensor
from kit.graph.dtypes import name_of
from kit.graph.op import Tensor
from kit.graph.ops.math.elementwise import (
    enter_binary,
    enter_unary,
    infer_compare,
    infer_test,
)
from kit.graph.static import Static
from kit.graph.table import Attrs

equal = enter_binary("Equal", np.equal, "whether x == y", infer=infer_compare)
not_equal = enter_binary(
    "NotEqual", np.not_equal, "whether x != y", infer=infer_compare
)
less = enter_binary("Less", np.less, "whether x < y", infer=infer_compare)
less_equal = enter_binary(
    "LessEqual", np.less_equal, "whether x <= y", infer=infer_compare
)
greater = enter_binary("Greater", np.greater, "whether x > y", infer=infer_compare)
greater_equal = enter_binary(
    "GreaterEqual", np.greater_equal, "whether x >= y", infer=infer_compare
)


def _infer_logic(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    for one in inputs:
        if one.dtype.kind != "b":
            raise TypeError(
                f"logic is of bools and got {name_of(one.dtype)}; compare it first, "
                f"for example np.not_equal(x, 0)."
            )
    infer = infer_test if len(inputs) == 1 else infer_compare
    return infer(inputs, attrs)


logical_and = enter_binary(
    "LogicalAnd", np.logical_and, "whether both are true", infer=_infer_logic
)
logical_or = enter_binary(
    "LogicalOr", np.logical_or, "whether one is true, or both", infer=_infer_logic
)
logical_xor = enter_binary(
    "LogicalXor", np.logical_xor, "whether just one is true", infer=_infer_logic
)
logical_not = enter_unary(
    "LogicalNot", np.logical_not, "whether x is false", infer=_infer_logic
)

# The operators & | ^ ~ of bool arrays.
UFUNCS[np.bitwise_and] = logical_and
UFUNCS[np.bitwise_or] = logical_or
UFUNCS[np.bitwise_xor] = logical_xor
UFUNCS[np.invert] = logical_not


def not_zero(x: Any) -> Tensor:
    """Return whether each element is not zero; bools as they are."""
    found = tensor(x)
    return found if found.static.dtype.kind == "b" else not_equal(found, 0)
