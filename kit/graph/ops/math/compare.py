"""Comparisons, and logic on bools. Gradients stop here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
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

_compared = partial(enter_binary, infer=infer_compare, takes="")

equal = _compared("Equal", np.equal, "whether x == y")
not_equal = _compared("NotEqual", np.not_equal, "whether x != y")
_ordered = partial(_compared, takes="iuf")
less = _ordered("Less", np.less, "whether x < y")
less_equal = _ordered("LessEqual", np.less_equal, "whether x <= y")
greater = _ordered("Greater", np.greater, "whether x > y")
greater_equal = _ordered("GreaterEqual", np.greater_equal, "whether x >= y")


def _infer_logic(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    for static in inputs:
        if static.dtype.kind != "b":
            raise TypeError(
                f"logic is of bools and got {name_of(static.dtype)}; compare it first, "
                f"for example np.not_equal(x, 0)."
            )
    infer = infer_test if len(inputs) == 1 else infer_compare
    return infer(inputs, attrs)


_logical = partial(enter_binary, infer=_infer_logic, takes="b")

logical_and = _logical("LogicalAnd", np.logical_and, "whether both are true")
logical_or = _logical("LogicalOr", np.logical_or, "whether at least one is true")
logical_xor = _logical("LogicalXor", np.logical_xor, "whether one is true", call="")
logical_not = enter_unary(
    "LogicalNot",
    np.logical_not,
    "whether x is false",
    infer=_infer_logic,
    takes="b",
    call="logical_not(x)",
)

# The operators & | ^ ~ of bool arrays.
UFUNCS[np.bitwise_and] = logical_and
UFUNCS[np.bitwise_or] = logical_or
UFUNCS[np.bitwise_xor] = logical_xor
UFUNCS[np.invert] = logical_not


def not_zero(x: Any) -> Tensor:
    """Return whether each element is not zero; bools as they are."""
    operand = tensor(x)
    return operand if operand.static.dtype.kind == "b" else not_equal(operand, 0)
