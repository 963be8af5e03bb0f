"""From one dtype to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.bfloat16 import kind_of
from kit.errors import InvalidArgumentError
from kit.graph.array_protocol import speaks
from kit.graph.convert import make, tensor
from kit.graph.dtypes import STRING, dtype_of, name_of
from kit.graph.kernels.device_results import to_integers
from kit.graph.op import Op, Tensor
from kit.graph.static import Static
from kit.graph.table import Attrs, enter, register_bound


@speaks(np.astype)
def cast(x: Any, dtype: Any, copy: bool = True, name: str | None = None) -> Tensor:
    """Return `x` in another dtype: floats to integers lose their fraction.

    On every device NaN becomes the integer 0, and what is too large the largest. A
    tensor of that dtype is returned as it is. Raises `TypeError` for texts.
    """
    operand, wanted = tensor(x), dtype_of(dtype)
    if operand.static.dtype == wanted:
        return operand
    return make("Cast", operand, dtype=wanted, name=name)


def _infer(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    source, wanted = inputs[0].dtype, attrs["dtype"]
    if (source == STRING) != (wanted == STRING):
        raise TypeError(
            f"{name_of(source)} cannot be cast to {name_of(wanted)}; run it, and "
            f"convert the value in Python."
        )
    return [Static(inputs[0].shape, wanted)]


def _bind(xp: ModuleType, attrs: Attrs) -> Callable[..., Any]:
    wanted = attrs["dtype"]

    def compute(x: Any) -> Any:
        if x.dtype.kind == "c" and wanted.kind != "c":
            x = x.real
        if wanted.kind in "iu" and kind_of(x.dtype) == "f":
            return to_integers(xp, x, wanted)
        return x.astype(wanted)

    return compute


def _gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    source = op.inputs[0].static.dtype
    return [cast(gradients[0], source) if kind_of(source) in "fc" else None]


def _infer_bits(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    source, wanted, shape = inputs[0].dtype, attrs["dtype"], inputs[0].shape
    if STRING in (source, wanted):
        raise TypeError("texts have no fixed number of bits; decode them instead.")
    if shape is None or source.itemsize == wanted.itemsize:
        return [Static(shape, wanted)]
    if source.itemsize > wanted.itemsize:
        return [Static((*shape, source.itemsize // wanted.itemsize), wanted)]
    count = wanted.itemsize // source.itemsize
    if not shape or shape[-1] not in (None, count):
        raise ValueError(
            f"Cannot bitcast due to shape. {shape} of {name_of(source)} must end with "
            f"{count} for {name_of(wanted)}."
        )
    return [Static(shape[:-1], wanted)]


def _bits(xp: ModuleType, x: Any, *, dtype: Any) -> Any:
    kept = xp.ascontiguousarray(x).reshape(x.shape)
    if kept.dtype.itemsize == dtype.itemsize:
        return kept.view(dtype)
    if kept.dtype.itemsize > dtype.itemsize:
        return kept[..., None].view(dtype)
    if kept.shape[-1] != dtype.itemsize // kept.dtype.itemsize:
        raise InvalidArgumentError(
            f"Cannot bitcast from {name_of(kept.dtype)} to {name_of(dtype)}: shape "
            f"{list(kept.shape)}"
        )
    return kept.view(dtype)[..., 0]


register_bound("Cast", _infer, _bind, _gradient)
enter("Bitcast", _infer_bits, _bits)
