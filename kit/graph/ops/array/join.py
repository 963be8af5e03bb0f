"""Tensors joined and split, along an existing axis or a new one."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from kit.graph.arguments import Ints, number, numbers
from kit.graph.convert import make, make_op, operands, tensor
from kit.graph.op import Op, Tensor
from kit.graph.static import Shape, Static, axis_of, merge, same_dtype, text
from kit.graph.table import Attrs, enter


def concat(xs: Sequence[Any], axis: Any = 0, name: str | None = None) -> Tensor:
    """Return tensors joined along an existing axis; other sizes must be equal."""
    number_of = number(axis, "the axis")
    return make("ConcatV2", *operands(*xs), axis=number_of, name=name)


def stack(xs: Sequence[Any], axis: Any = 0, name: str | None = None) -> Tensor:
    """Return tensors of one shape side by side along a new axis."""
    position = number(axis, "the axis")
    return make("Pack", *operands(*xs), axis=position, name=name)


def unstack(
    x: Any, num: int | None = None, axis: Any = 0, name: str | None = None
) -> list[Tensor]:
    """Return the parts along an axis, which they lose; its size must be known.

    Raises `ValueError` if it is not, and `num` does not say it.
    """
    operand, position = tensor(x), number(axis, "the axis")
    shape = operand.static.shape
    if shape is not None:
        size = shape[axis_of(position, len(shape))]
        num = size if num is None else num
    if num is None:
        raise ValueError(
            f"the axis {position} of {operand!r} has a size that is not known when the "
            f"line is written; give it as num."
        )
    return list(make_op("Unpack", operand, num=num, axis=position, name=name).outputs)


def split(
    x: Any, num_or_sizes: Any, axis: Any = 0, name: str | None = None
) -> list[Tensor]:
    """Return parts along an axis: a number of equal ones, or parts of these sizes.

    One size may be -1: the rest. Raises `ValueError` if they do not add up.
    """
    operand, position = tensor(x), number(axis, "the axis")
    sizes = numbers(num_or_sizes)
    if sizes is None:
        sizes = (number(num_or_sizes, "the number of parts"),)
        num_or_sizes = sizes[0]
    attrs: dict[str, Any] = {"axis": position}
    if getattr(num_or_sizes, "__len__", None) is None or isinstance(num_or_sizes, int):
        op = make_op("Split", operand, num=sizes[0], name=name, **attrs)
    else:
        op = make_op("SplitV", operand, sizes=sizes, name=name, **attrs)
    return list(op.outputs)


def _infer_concat(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    if not inputs:
        raise ValueError("at least one tensor is needed to join.")
    dtype, common = same_dtype(inputs, "concat"), None
    total: int | None = 0
    for static in inputs:
        if static.shape is None:
            total = None
            continue
        if not static.shape:
            raise ValueError("numbers without axes cannot be joined; use stack.")
        position = axis_of(attrs["axis"], len(static.shape))
        size = static.shape[position]
        total = None if total is None or size is None else total + size
        rest: Shape = tuple(
            None if i == position else s for i, s in enumerate(static.shape)
        )
        common = merge(common, rest, "the joined tensors, but for the axis,")
    if common is None:
        return [Static(None, dtype)]
    position = axis_of(attrs["axis"], len(common))
    return [Static((*common[:position], total, *common[position + 1 :]), dtype)]


def _concat(xp: ModuleType, *xs: Any, axis: int) -> Any:
    return xp.concatenate(xs, axis)


def _concat_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    if len(op.inputs) == 1:
        return list(gradients)
    attrs = {"axis": op.attrs["axis"], "num": len(op.inputs)}
    return make_op("ConcatGrad", gradients[0], *op.inputs, **attrs).outputs


def _cut(x: Any, sizes: Sequence[int], axis: int) -> tuple[Any, ...]:
    """Return views of the parts along an axis."""
    lead = (slice(None),) * (axis % x.ndim)
    parts, begin = [], 0
    for size in sizes:
        parts.append(x[(*lead, slice(begin, begin + size))])
        begin += size
    return tuple(parts)


def _concat_back_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    whole = make("ConcatV2", *filled(op, gradients), axis=op.attrs["axis"])
    return [whole, *[None] * (len(op.inputs) - 1)]


def _infer_pack(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    if not inputs:
        raise ValueError("at least one tensor is needed to stack.")
    dtype, shape = same_dtype(inputs, "stack"), inputs[0].shape
    for static in inputs[1:]:
        shape = merge(shape, static.shape, "the stacked tensors")
    if shape is None:
        return [Static(None, dtype)]
    position = axis_of(attrs["axis"], len(shape) + 1)
    return [Static((*shape[:position], len(inputs), *shape[position:]), dtype)]


def _pack(xp: ModuleType, *xs: Any, axis: int) -> Any:
    return xp.stack(xs, axis)


def _pack_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return unstack(gradients[0], len(op.inputs), op.attrs["axis"])


def _infer_unpack(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x, num = inputs[0], attrs["num"]
    if x.shape is None:
        return [Static(None, x.dtype)] * num
    position = axis_of(attrs["axis"], len(x.shape))
    if x.shape[position] not in (num, None):
        raise ValueError(
            f"axis {position} of {text(x.shape)} has {x.shape[position]} parts, not "
            f"{num}."
        )
    return [Static((*x.shape[:position], *x.shape[position + 1 :]), x.dtype)] * num


def _unpack(xp: ModuleType, x: Any, *, num: int, axis: int) -> Any:
    if x.shape[axis] != num:
        raise ValueError(f"the axis has {x.shape[axis]} parts, not {num}.")
    turned = xp.moveaxis(x, axis, 0)
    # With an ellipsis numpy gives arrays without axes, and not its scalars.
    return _single(tuple(turned[i, ...] for i in range(num)))


def _single(parts: tuple[Any, ...]) -> Any:
    return parts[0] if len(parts) == 1 else parts


def _unpack_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [make("Pack", *filled(op, gradients), axis=op.attrs["axis"])]


def filled(op: Op, gradients: Sequence[Any]) -> list[Any]:
    """Return the gradients of an op's outputs, zeros for those that led nowhere."""
    return [
        make("ZerosLike", out) if g is None else g
        for g, out in zip(gradients, op.outputs, strict=True)
    ]


def _infer_split(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x, num = inputs[0], attrs["num"]
    if num < 1:
        raise ValueError(f"there cannot be {num} parts.")
    if x.shape is None:
        return [Static(None, x.dtype)] * num
    position = axis_of(attrs["axis"], len(x.shape))
    size = x.shape[position]
    if size is not None and size % num:
        raise ValueError(
            f"axis {position} of {text(x.shape)} has {size} elements, which are not "
            f"{num} equal parts."
        )
    each = None if size is None else size // num
    return [
        Static((*x.shape[:position], each, *x.shape[position + 1 :]), x.dtype)
    ] * num


def _split(_: ModuleType, x: Any, *, num: int, axis: int) -> Any:
    size = x.shape[axis]
    if size % num:
        raise ValueError(f"{size} elements are not {num} equal parts.")
    return _single(_cut(x, [size // num] * num, axis))


def _resolved(sizes: Ints, whole: int) -> list[int]:
    rest = whole - sum(size for size in sizes if size >= 0)
    result = [rest if size == -1 else size for size in sizes]
    if sizes.count(-1) > 1 or sum(result) != whole or min(result, default=0) < 0:
        raise ValueError(
            f"parts of {list(sizes)} do not make up an axis of {whole} elements."
        )
    return result


def _infer_sizes(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x, sizes = inputs[0], attrs["sizes"]
    if x.shape is None:
        return [Static(None, x.dtype)] * len(sizes)
    position = axis_of(attrs["axis"], len(x.shape))
    whole = x.shape[position]
    each = [None if size < 0 else size for size in sizes]
    if whole is not None:
        each = list(_resolved(sizes, whole))
    lead, tail = x.shape[:position], x.shape[position + 1 :]
    return [Static((*lead, size, *tail), x.dtype) for size in each]


def _split_sizes(_: ModuleType, x: Any, *, sizes: Ints, axis: int) -> Any:
    return _single(_cut(x, _resolved(sizes, x.shape[axis]), axis))


def _split_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [make("ConcatV2", *filled(op, gradients), axis=op.attrs["axis"])]


enter("ConcatV2", _infer_concat, _concat, _concat_gradient)
enter(
    "ConcatGrad",
    lambda inputs, _: [Static(x.shape, inputs[0].dtype) for x in inputs[1:]],
    lambda xp, g, *xs, axis, num: _cut(g, [x.shape[axis] for x in xs], axis),
    _concat_back_gradient,
    n_outputs=lambda attrs: int(attrs["num"]),
)
enter("Pack", _infer_pack, _pack, _pack_gradient)
_NUM: dict[str, Any] = {"n_outputs": lambda attrs: int(attrs["num"])}
enter("Unpack", _infer_unpack, _unpack, _unpack_gradient, **_NUM)
enter("Split", _infer_split, _split, _split_gradient, **_NUM)
enter(
    "SplitV",
    _infer_sizes,
    _split_sizes,
    _split_gradient,
    n_outputs=lambda attrs: len(attrs["sizes"]),
)
