"""Parts of a tensor by slices and indices.

The key in the brackets travels as plain data, a tuple of

    ("i", n)            one index
    ("s", a, b, step)   a slice; each is an int or None
    ("n",)  ("e",)      a new axis, an ellipsis

where ("t", k) instead of a number means: the value of the op's input k.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import EllipsisType, ModuleType
from typing import Any, TypeAlias

import numpy as np

from kit.errors import UnimplementedError
from kit.graph.array_protocol import ArrayProtocol, speaks, tensor_of
from kit.graph.convert import make, tensor
from kit.graph.dtypes import name_of
from kit.graph.op import Op, Tensor
from kit.graph.ops.array.rows import from_the_start, gather
from kit.graph.static import Shape, Static, text
from kit.graph.table import Attrs, enter, infer_like, register_bound

Item: TypeAlias = tuple[Any, ...]


@speaks(operator.getitem)
def strided_slice(x: Any, key: Any, name: str | None = None) -> Tensor:
    """Return `x[key]`: ints, slices, None, an ellipsis, and tensors without axes.

    A single array or tensor of integers takes these rows. Raises `TypeError` for other
    keys, `ValueError` for an index or a number of axes that cannot be.
    """
    operand = tensor(x)
    if isinstance(key, ArrayProtocol | np.ndarray | list) and _has_axes(key):
        return gather(operand, _rows(key, operand), name=name)
    inputs: list[Tensor] = []
    parts = key if isinstance(key, tuple) else (key,)
    spec = tuple(_item(part, inputs) for part in parts)
    return make("StridedSlice", operand, *inputs, spec=spec, name=name)


def _has_axes(key: Any) -> bool:
    if isinstance(key, ArrayProtocol):
        return tensor_of(key).static.shape != ()
    return np.ndim(key) > 0


def _rows(key: Any, x: Tensor) -> Any:
    dtype = tensor_of(key).static.dtype if isinstance(key, ArrayProtocol) else None
    if (np.asarray(key).dtype if dtype is None else dtype).kind == "b":
        raise TypeError(
            "a mask would leave a part whose size is unknown; use "
            "np.where(mask, x, 0), or rows by number."
        )
    return from_the_start(key, x, 0)


def _item(item: Any, inputs: list[Tensor]) -> Item:
    if item is None:
        return ("n",)
    if isinstance(item, EllipsisType):
        return ("e",)
    if isinstance(item, slice):
        bounds = (item.start, item.stop, item.step)
        return ("s", *[None if b is None else _bound(b, inputs) for b in bounds])
    return ("i", _bound(item, inputs))


def _bound(value: Any, inputs: list[Tensor]) -> Any:
    if isinstance(value, ArrayProtocol):
        bound = tensor_of(value)
        if bound.static.dtype.kind not in "iu" or bound.static.shape not in (
            (),
            None,
        ):
            raise TypeError(
                f"{bound!r} of {name_of(bound.static.dtype)} cannot stand here in the "
                f"brackets; use a tensor of one integer."
            )
        inputs.append(bound)
        return ("t", len(inputs))
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise TypeError(
            f"{value!r} cannot stand in the brackets of a tensor; use integers, "
            f"slices, None, ... or tensors of one integer."
        )
    return value.__index__()


def _infer(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    shape, spec = inputs[0].shape, attrs["spec"]
    return [Static(_part(shape, spec, inputs), inputs[0].dtype)]


def _part(shape: Shape, spec: Sequence[Item], inputs: Sequence[Static]) -> Shape:
    """Return the shape of the part that the brackets take."""
    if shape is None:
        return None
    used = sum(each[0] in "is" for each in spec)
    if used > len(shape) or sum(each == ("e",) for each in spec) > 1:
        raise ValueError(
            f"{used} indices are too many for the {len(shape)} axes of {text(shape)}, "
            f"or there are two ellipses."
        )
    left, sizes = list(shape), list[int | None]()
    for item in spec if ("e",) in spec else (*spec, ("e",)):
        match item[0]:
            case "n":
                sizes.append(1)
            case "e":
                rest = len(shape) - used
                sizes += left[:rest]
                del left[:rest]
            case "i":
                _check_index(item[1], left.pop(0), shape, inputs)
            case _:
                sizes.append(_length(left.pop(0), item[1:], inputs))
    return tuple(sizes)


def _check_index(
    value: Any, size: int | None, shape: Shape, inputs: Sequence[Static]
) -> None:
    index = _static_bound(value, inputs)
    if index is not None and size is not None and not -size <= index < size:
        raise ValueError(
            f"the index {index} is out of bounds for an axis of {size} elements of "
            f"{text(shape)}."
        )


def _static_bound(entry: Any, inputs: Sequence[Static]) -> int | None:
    if not isinstance(entry, tuple):
        return None if entry is None else int(entry)
    value = inputs[entry[1]].value
    return None if value is None else int(value)


def _length(
    size: int | None, bounds: Sequence[Any], inputs: Sequence[Static]
) -> int | None:
    values = [_static_bound(bound, inputs) for bound in bounds]
    if any(a is not None and b is None for a, b in zip(bounds, values, strict=True)):
        return None
    if values[2] == 0:
        raise ValueError("the step of a slice cannot be 0.")
    if size is None:
        return None
    return len(range(*slice(*values).indices(size)))


def _key(spec: Sequence[Item], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the key of the brackets; with an ellipsis numpy gives no bare scalars."""
    key: list[Any] = []
    for item in spec:
        match item[0]:
            case "n":
                key.append(None)
            case "e":
                key.append(...)
            case "i":
                key.append(_value(item[1], inputs))
            case _:
                key.append(slice(*[_value(b, inputs) for b in item[1:]]))
    return tuple(key if ("e",) in spec else (*key, ...))


def _value(value: Any, inputs: Sequence[Any]) -> Any:
    return int(inputs[value[1] - 1]) if isinstance(value, tuple) else value


def _is_fixed(spec: Sequence[Item]) -> bool:
    return not any(isinstance(part, tuple) for item in spec for part in item)


def _bind(_: ModuleType, attrs: Attrs) -> Callable[..., Any]:
    spec = attrs["spec"]
    if _is_fixed(spec):
        fixed = _key(spec, ())
        return lambda x: x[fixed]
    return lambda x, *inputs: x[_key(spec, inputs)]


def _gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    back = make(
        "StridedSliceGrad",
        gradients[0],
        op.inputs[0],
        *op.inputs[1:],
        spec=op.attrs["spec"],
    )
    return [back, *[None] * (len(op.inputs) - 1)]


def _back(xp: ModuleType, g: Any, x: Any, *inputs: Any, spec: Sequence[Item]) -> Any:
    out = xp.zeros(x.shape, g.dtype)
    out[_key(spec, inputs)] = g
    return out


def _gradient_back(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    part = make("StridedSlice", gradients[0], *op.inputs[2:], spec=op.attrs["spec"])
    return [part, *[None] * (len(op.inputs) - 1)]


def _infer_assign(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    ref, value, *bounds = inputs
    if ref.dtype != value.dtype:
        raise TypeError(
            f"a variable of {name_of(ref.dtype)} cannot take {name_of(value.dtype)}."
        )
    _part(ref.shape, attrs["spec"], [ref, *bounds])
    return [Static(ref.shape, ref.dtype)]


def _assign(_: Any, ref: Any, value: Any, *inputs: Any, spec: Sequence[Item]) -> Any:
    def changed(old: Any) -> Any:
        new, key = old.copy(), _key(spec, inputs)
        if new[key].shape != value.shape:
            raise UnimplementedError(
                f"a slice of {list(new[key].shape)} cannot take {list(value.shape)}."
            )
        new[key] = value
        return new

    return ref.update(changed)


register_bound("StridedSlice", _infer, _bind, _gradient, sizes_from=1)
enter("StridedSliceGrad", infer_like(1), _back, _gradient_back, sizes_from=2)
enter(
    "StridedSliceAssign",
    _infer_assign,
    _assign,
    stateful=True,
    refs=(0,),
    sizes_from=2,
)
