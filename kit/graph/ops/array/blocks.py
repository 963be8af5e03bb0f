"""Blocks of a tensor, by begin and size."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from kit.graph.arguments import Ints, given_or_input, numbers_or_input
from kit.graph.convert import make, tensor
from kit.graph.fold import numbers_of
from kit.graph.op import Op, Tensor
from kit.graph.static import Shape, Static, text
from kit.graph.table import Attrs, enter, infer_like, missing


def slice_of(x: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """Return the block that begins at `begin` and has this size; -1 is the rest.

    Both are ints for each axis, or tensors of them.
    """
    operand = tensor(x)
    begins, first = numbers_or_input(begin, "begin")
    sizes, second = numbers_or_input(size, "size")
    attrs = {"begin": begins, "size": sizes}
    return make("Slice", operand, *first, *second, name=name, **attrs)


def _infer_slice(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x, rest = inputs[0], list(inputs[1:])
    begins: Shape = attrs["begin"]
    sizes: Shape = attrs["size"]
    if begins is None:
        begins = numbers_of(rest.pop(0))
    if sizes is None:
        sizes = numbers_of(rest.pop(0))
    if sizes is None or x.shape is None:
        known_sizes = sizes or (None,) * len(begins or ())
        shape = tuple(None if size == -1 else size for size in known_sizes)
        return [Static(shape or None, x.dtype)]
    if len(sizes) != len(x.shape) or (begins is not None and len(begins) != len(sizes)):
        raise ValueError(
            f"begin and size need {len(x.shape)} numbers, one for each axis of "
            f"{text(x.shape)}."
        )
    starts = begins or (None,) * len(sizes)
    triples = zip(starts, sizes, x.shape, strict=True)
    return [Static(tuple(_block(*triple, x.shape) for triple in triples), x.dtype)]


def _block(
    begin: int | None, size: int | None, whole: int | None, shape: Shape
) -> int | None:
    if size == -1:
        return None if begin is None or whole is None else whole - begin
    if size is None or whole is None or begin is None:
        return size
    if not 0 <= begin <= whole - size:
        raise ValueError(
            f"{size} elements from {begin} on are not inside an axis of {whole} "
            f"elements of {text(shape)}."
        )
    return size


def _slice(
    _: ModuleType, x: Any, *extra: Any, begin: Ints | None, size: Ints | None
) -> Any:
    begins = given_or_input(begin, extra)
    sizes = given_or_input(size, extra[-1:])
    parts = []
    for low, length, whole in zip(begins, sizes, x.shape, strict=True):
        high = whole if length == -1 else low + length
        if not 0 <= low <= high <= whole:
            raise ValueError(f"{low}:{high} is not inside an axis of {whole}.")
        parts.append(slice(low, high))
    return x[(*parts, ...)]


def _slice_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    first = op.inputs[1:2] if op.attrs["begin"] is None else ()
    back = make("PlaceAt", gradients[0], op.inputs[0], *first, begin=op.attrs["begin"])
    return [back, *[None] * (len(op.inputs) - 1)]


def _place_at(xp: ModuleType, g: Any, x: Any, *extra: Any, begin: Ints | None) -> Any:
    out = xp.zeros(x.shape, g.dtype)
    begins = given_or_input(begin, extra)
    pairs = zip(begins, g.shape, strict=True)
    out[tuple(slice(low, low + size) for low, size in pairs)] = g
    return out


enter("Slice", _infer_slice, _slice, _slice_gradient, sizes_from=1)
enter("PlaceAt", infer_like(1), _place_at, missing, sizes_from=2)
