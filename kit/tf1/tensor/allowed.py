"""Which element types an op accepts, where the original accepts fewer than numpy.

Pure. The letters are numpy's kinds: b bool, i and u whole numbers, f floating point,
c complex, O text. An op that is not in the table takes what its own rule takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kit.bfloat16 import kind_of
from kit.graph.dtypes import name_of

_NUMBERS: Final = "iufc"
_ORDERED: Final = "iuf"
_FLOATS: Final = "fc"
_TRUTH: Final = "b"

ALLOWED: Final[dict[str, str]] = {
    "Add": _NUMBERS + "O",
    **dict.fromkeys(["AddN", "Neg", "Sign", "Square", "Sub", "Mul"], _NUMBERS),
    **dict.fromkeys(["SquaredDifference", "Pow", "RealDiv", "Abs"], _NUMBERS),
    **dict.fromkeys(["FloorDiv", "FloorMod", "Maximum", "Minimum"], _ORDERED),
    **dict.fromkeys(["Less", "LessEqual", "Greater", "GreaterEqual"], _ORDERED),
    **dict.fromkeys(["Exp", "Log", "Log1p", "Expm1", "Sqrt", "Rsqrt"], _FLOATS),
    **dict.fromkeys(["Sin", "Cos", "Tanh", "Sigmoid", "Reciprocal"], _FLOATS),
    **dict.fromkeys(["Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh"], _FLOATS),
    **dict.fromkeys(["Asinh", "Acosh", "Atanh"], _FLOATS),
    **dict.fromkeys(["Erf", "Erfc", "Atan2"], "f"),
    **dict.fromkeys(["Floor", "Ceil", "Rint", "IsFinite", "IsNan", "IsInf"], "f"),
    "CheckNumerics": "f",
    **dict.fromkeys(["Softsign", "Softplus", "Elu"], "f"),
    "Where": _NUMBERS + "b",
    **dict.fromkeys(["LogicalAnd", "LogicalOr", "LogicalNot", "LogicalXor"], _TRUTH),
    **dict.fromkeys(["Sum", "Mean", "Prod", "Cumsum", "Cumprod"], _NUMBERS),
    **dict.fromkeys(["Max", "Min", "ArgMax", "ArgMin", "TopKV2"], _ORDERED),
    **dict.fromkeys(["All", "Any"], _TRUTH),
    "MatMul": _NUMBERS,
}


def check_allowed(op_type: str, inputs: Iterable[Any]) -> None:
    """Raise `TypeError` if the op does not take an input's element type."""
    kinds = ALLOWED.get(op_type)
    if kinds is None:
        return
    for one in inputs:
        dtype = one.static.dtype
        if kind_of(dtype) not in kinds:
            raise TypeError(
                f"{op_type} does not take {one.name!r} of {name_of(dtype)}; cast it "
                f"with tf.cast first."
            )
