"""Blocks of pixels that become images of the batch, and back."""

from __future__ import annotations

from math import prod
from typing import Any

from kit.tf1.ops.arithmetic import identity
from kit.tf1.ops.shape import pad, reshape, transpose
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.ops.write import one_of, settled
from kit.tf1.tensor.convert import convert_to_tensor, op_scope


def space_to_batch_nd(
    input: Any, block_shape: Any, paddings: Any, name: str | None = None
) -> Any:
    """Return each place in a block as an image of its own; the batch grows by them.

    `paddings` has a row (before, after) of zeros for each axis of `block_shape`. Raises
    `ValueError` for sizes that are no multiples and for what is not known yet.
    """
    with op_scope(name, "SpaceToBatchND", [input, block_shape, paddings]) as scope:
        x = convert_to_tensor(input, name="input")
        block = _blocks("SpaceToBatchND", x, block_shape)
        borders = _borders("SpaceToBatchND", "paddings", paddings, len(block))
        n, rank = len(block), x.shape.ndims
        if any(map(any, borders)):
            x = pad(x, [[0, 0], *borders, *[[0, 0]] * (rank - n - 1)])
        batch, *sizes = _sizes(x)
        for size, side in zip(sizes, block, strict=False):
            if isinstance(size, int) and size % side:
                raise ValueError(
                    f"{size} elements cannot be cut into blocks of {side}."
                )
        rest = sizes[n:]
        counts = [size // side for size, side in zip(sizes, block, strict=False)]
        split = [number for pair in zip(counts, block, strict=True) for number in pair]
        odd, even = list(range(1, 2 * n, 2)), list(range(2, 2 * n + 1, 2))
        order = [*even, 0, *odd, *range(2 * n + 1, n + rank)]
        places = transpose(reshape(x, [batch, *split, *rest]), order)
        return reshape(places, [batch * prod(block), *counts, *rest], name=scope)


def batch_to_space_nd(
    input: Any, block_shape: Any, crops: Any, name: str | None = None
) -> Any:
    """Return images put together again: `space_to_batch_nd` turned round.

    `crops` has a row (before, after) of what is cut off for each axis of `block_shape`.
    Raises `ValueError` for a batch that is no multiple, for crops of more than there
    is, and for what is not known yet.
    """
    with op_scope(name, "BatchToSpaceND", [input, block_shape, crops]) as scope:
        x = convert_to_tensor(input, name="input")
        block = _blocks("BatchToSpaceND", x, block_shape)
        borders = _borders("BatchToSpaceND", "crops", crops, len(block))
        n, rank = len(block), x.shape.ndims
        batch, *sizes = _sizes(x)
        if isinstance(batch, int) and batch % prod(block):
            raise ValueError(
                f"a batch of {batch} cannot be cut into blocks of {block}."
            )
        rest, batch = sizes[n:], batch // prod(block)
        order = [n]
        for axis in range(n):
            order += [n + 1 + axis, axis]
        split = reshape(x, [*block, batch, *sizes])
        places = transpose(split, [*order, *range(2 * n + 1, n + rank)])
        joined = [size * side for size, side in zip(sizes, block, strict=False)]
        cut = [slice(None)]
        for size, (before, after) in zip(joined, borders, strict=True):
            if isinstance(size, int) and before + after > size:
                raise ValueError(f"crops of {before} and {after} of {size} elements.")
            cut.append(slice(before, size - after))
        whole = reshape(places, [batch, *joined, *rest])
        return identity(whole[tuple(cut)] if any(map(any, borders)) else whole, scope)


def space_to_batch(
    input: Any,
    paddings: Any,
    block_size: Any = None,
    name: str | None = None,
    block_shape: Any = None,
) -> Any:
    """Return `space_to_batch_nd` of images with square blocks."""
    side = one_of("block_shape", block_shape, "block_size", block_size)
    return _of_images(space_to_batch_nd(input, [side, side], paddings, name))


def batch_to_space(
    input: Any,
    crops: Any,
    block_size: Any,
    name: str | None = None,
    block_shape: Any = None,
) -> Any:
    """Return `batch_to_space_nd` of images with square blocks."""
    side = one_of("block_shape", block_shape, "block_size", block_size)
    return _of_images(batch_to_space_nd(input, [side, side], crops, name))


def _of_images(made: Any) -> Any:
    made.shape.assert_has_rank(4)
    return made


def _blocks(op_type: str, x: Any, sizes: Any) -> list[int]:
    block = settled(op_type, "block_shape", sizes)
    if not isinstance(block, list) or not all(
        isinstance(side, int) and side > 0 for side in block
    ):
        raise ValueError(f"block_shape is a list of positive numbers, not {sizes!r}.")
    if x.shape.ndims is None or x.shape.ndims <= len(block):
        raise ValueError(
            f"blocks of {block} need a batch and {len(block)} axes that are known when "
            f"the line is written, not {x.shape}."
        )
    return block


def _borders(op_type: str, name: str, pairs: Any, n: int) -> list[list[int]]:
    rows: list[list[int]] = settled(op_type, name, pairs)
    if len(rows) != n or not all(isinstance(row, list) for row in rows):
        raise ValueError(f"{name} has a row for each of {n} axes, not {pairs!r}.")
    if any(len(row) != 2 or min(row) < 0 for row in rows):
        raise ValueError(f"{name} has rows of two numbers from 0 on, not {pairs!r}.")
    return rows


def _sizes(x: Any) -> list[Any]:
    """Return the sizes of a tensor: numbers, where they are known."""
    sizes = x.shape.as_list()
    now = shape_of(x) if None in sizes else []
    return [now[i] if size is None else size for i, size in enumerate(sizes)]
