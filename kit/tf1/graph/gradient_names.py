"""How the original calls the operations of a gradient.

Pure. By the type of the forward operation: ours, and the name that theirs has, which
is often another operation. What is not here is called by its own type, in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ALWAYS: Final = {"SumLike": "Reshape", "ReshapeLike": "Reshape"}

_NAMES: Final[dict[str, dict[str, str]]] = {
    **{one: {"Mul": "mul"} for one in ("Abs", "Exp", "Expm1", "Sin", "L2Loss")},
    **{one: {"Mul": "mul"} for one in ("Max", "Min", "Pow", "SquaredDifference")},
    **{one: {"RealDiv": "mul"} for one in ("Log", "Log1p")},
    **{one: {"Select": "SelectV2"} for one in ("Maximum", "Minimum")},
    **{one: {"ConcatV2": "concat"} for one in ("Split", "SplitV")},
    "Cos": {"Mul": "Neg", "Neg": "mul"},
    "LogSoftmax": {"Sub": "sub"},
    "Mean": {"Spread": "truediv"},
    "MirrorPad": {"PadGrad": "MirrorPadGrad"},
    "Pack": {"Unpack": "unstack"},
    "Pad": {"PadGrad": "Slice_1"},
    "Prod": {"Mul": "Reshape_4"},
    "Reciprocal": {"Neg": "ReciprocalGrad"},
    "Sign": {"ZerosLike": "zeros_like"},
    "Slice": {"PlaceAt": "Pad"},
    "Softplus": {"SoftplusGrad": "mul"},
    "SparseSoftmaxCrossEntropyWithLogits": {"ScaleRows": "mul"},
    "Sqrt": {"RealDiv": "SqrtGrad"},
    "Softmax": {"Mul": "mul"},
    "Sum": {"Spread": "Tile"},
    "Tile": {"SumOfTiles": "Sum"},
    "Transpose": {"Transpose": "transpose"},
    "Unpack": {"Pack": "stack"},
}


def names_in_gradient_of(op_type: str) -> Mapping[str, str]:
    """Return the names of new operations by their types."""
    return {**_ALWAYS, **_NAMES.get(op_type, {})}
