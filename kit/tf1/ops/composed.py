"""Functions that are put together of others."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from kit.tf1.ops import arithmetic
from kit.tf1.ops.creation import ones, ones_like, range, zeros_like
from kit.tf1.ops.index import gather, scatter_nd, where
from kit.tf1.ops.join import stack
from kit.tf1.ops.reduce import reduce_max, top_k
from kit.tf1.ops.shape import expand_dims, reshape, transpose
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.ops.write import whole
from kit.tf1.tensor.convert import convert_to_tensor, create, create_op, op_scope
from kit.tf1.tensor.dtypes import as_dtype, int32, int64


def div_no_nan(x: Any, y: Any, name: str | None = None) -> Any:
    """Return x / y of floating point numbers, and 0 where y is 0."""
    with op_scope(name, "div_no_nan", [x, y]) as scope:
        left = convert_to_tensor(x, name="x")
        right = convert_to_tensor(y, left.dtype.base_dtype, name="y")
        if not left.dtype.is_floating:
            raise TypeError(f"div_no_nan takes no {left.dtype.name}; cast it.")
        left, right = left + zeros_like(right), right + zeros_like(left)
        is_zero = arithmetic.equal(right, zeros_like(right))
        quotient = left / where(is_zero, ones_like(right), right)
        return where(is_zero, zeros_like(quotient), quotient, name=scope)


def diag(diagonal: Any, name: str | None = None) -> Any:
    """Return zeros with these values on the diagonal, of twice the rank."""
    with op_scope(name, "Diag", [diagonal]) as scope:
        values = convert_to_tensor(diagonal, name="diagonal")
        if values.shape.ndims == 1:
            return create("Diag", values, name=scope)
        sizes = _sizes(values, "tf.diag")
        n = prod(sizes)
        places = expand_dims(range(n) * (n + 1), 1)
        flat = scatter_nd(places, reshape(values, [n]), [n * n])
        return reshape(flat, [*sizes, *sizes], name=scope)


def diag_part(input: Any, name: str | None = None) -> Any:
    """Return the values on the diagonal of a tensor whose two halves of axes are equal.

    Raises `ValueError` for another shape.
    """
    with op_scope(name, "DiagPart", [input]) as scope:
        values = convert_to_tensor(input, name="input")
        sizes = _sizes(values, "tf.diag_part")
        half = sizes[: len(sizes) // 2]
        if not sizes or [*half, *half] != sizes:
            raise ValueError(f"shape {sizes} has no two equal halves.")
        n = prod(half)
        flat = gather(reshape(values, [n * n]), range(n) * (n + 1))
        return reshape(flat, half, name=scope)


def _sizes(tensor: Any, what: str) -> list[int]:
    if not tensor.shape.is_fully_defined():
        raise ValueError(
            f"{what} needs a shape that is known when the line is written, not "
            f"{tensor.shape}."
        )
    sizes: list[int] = tensor.shape.as_list()
    return sizes


def dynamic_partition(
    data: Any, partitions: Any, num_partitions: int, name: str | None = None
) -> list[Any]:
    """Return `num_partitions` tensors: the slices whose number in `partitions` is each.

    Raises `InvalidArgumentError` in a run for a number that is none of them.
    """
    with op_scope(name, "DynamicPartition", [data, partitions]) as scope:
        values = convert_to_tensor(data, name="data")
        numbers = convert_to_tensor(partitions, int32, name="partitions")
        inputs, count = (values, numbers), int(num_partitions)
        op = create_op("DynamicPartition", *inputs, name=scope, num=count)
        return list(op.outputs)


def dynamic_stitch(indices: Any, data: Any, name: str | None = None) -> Any:
    """Return slices put together: those of `data[i]` go to the places `indices[i]`.

    Of several for one place the last counts. Raises in a run `InvalidArgumentError` for
    shapes that do not match.
    """
    with op_scope(name, "DynamicStitch", [*indices, *data]) as scope:
        places = [convert_to_tensor(rows, int32, name="indices") for rows in indices]
        values = [convert_to_tensor(rows, name="data") for rows in data]
        if not places or len(places) != len(values):
            raise ValueError(f"{len(places)} indices are not for {len(values)} data.")
        inputs = *places, *values
        return create("DynamicStitch", *inputs, name=scope, num=len(places))


def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Any:
    """Return sums of products: `einsum("ij,jk->ik", a, b)` multiplies matrices.

    Without an arrow, the result has the letters that stand there once, in the order of
    the alphabet. Raises `ValueError` for a letter twice in one operand, an ellipsis, an
    unknown letter in the result, and for sizes that do not match.
    """
    name = kwargs.pop("name", None)
    kwargs.pop("optimize", None)
    if kwargs:
        raise TypeError(f"invalid keyword arguments for einsum: {sorted(kwargs)}")
    with op_scope(name, "einsum", list(inputs)) as scope:
        values = [convert_to_tensor(tensor) for tensor in inputs]
        terms, arrow, result = equation.replace(" ", "").partition("->")
        letters = "".join(terms.split(","))
        if not arrow:
            once = [
                letter for letter in sorted(set(letters)) if letters.count(letter) == 1
            ]
            result = "".join(once)
        parts = [*terms.split(","), result]
        is_simple = all(len(set(part)) == len(part) for part in parts)
        if not is_simple or not set(result) <= set(letters) or "." in letters:
            raise ValueError(
                f"einsum takes letters, in each operand and in the result once, not "
                f"{equation!r}."
            )
        if len(parts) - 1 != len(values):
            raise ValueError(f"{equation!r} is not of {len(values)} operands.")
        return create("Einsum", *values, name=scope, equation=f"{terms}->{result}")


def argsort(
    values: Any,
    axis: int = -1,
    direction: str = "ASCENDING",
    stable: bool = False,
    name: str | None = None,
) -> Any:
    """Return the positions of the elements along an axis, in order; always stable.

    Raises `ValueError` for a direction but ASCENDING and DESCENDING.
    """
    with op_scope(name, "argsort", [values]):
        return _sorted(values, axis, direction)[1]


def sort(
    values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None
) -> Any:
    """Return the elements along an axis in order; see `argsort`."""
    with op_scope(name, "sort", [values]):
        return _sorted(values, axis, direction)[0]


def _sorted(values: Any, axis: int, direction: str) -> tuple[Any, Any]:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"direction is ASCENDING or DESCENDING, not {direction!r}.")
    x = convert_to_tensor(values, name="values")
    rank = x.shape.ndims
    if rank is None:
        raise ValueError("tf.sort needs a rank that is known when the line is written.")
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is not one of {rank} axes.")
    order = list(np.arange(rank))
    order[axis], order[-1] = order[-1], order[axis]
    is_last = order[axis] == axis % rank
    rows = x if is_last else transpose(x, order)
    sign = arithmetic.negative if direction == "ASCENDING" else arithmetic.identity
    best, places = top_k(sign(rows), shape_of(rows)[-1])
    best = sign(best)
    return (
        (best, places)
        if is_last
        else (transpose(best, order), transpose(places, order))
    )


def space_to_depth(
    input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC"
) -> Any:
    """Return images whose blocks of `block_size` by `block_size` have become channels.

    Raises `ValueError` for sides that are no multiples, and for NCHW.
    """
    with op_scope(name, "SpaceToDepth", [input]) as scope:
        images, (rows, columns, depth) = _images(input, block_size, data_format)
        n = block_size
        if rows % n or columns % n:
            raise ValueError(
                f"{rows} by {columns} pixels cannot be cut into blocks of {n} by {n}."
            )
        blocks = reshape(images, [-1, rows // n, n, columns // n, n, depth])
        turned = transpose(blocks, [0, 1, 3, 2, 4, 5])
        return reshape(turned, [-1, rows // n, columns // n, n * n * depth], name=scope)


def depth_to_space(
    input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC"
) -> Any:
    """Return images whose channels have become blocks: `space_to_depth` turned round.

    Raises `ValueError` for a depth that is no multiple, and for NCHW.
    """
    with op_scope(name, "DepthToSpace", [input]) as scope:
        images, (rows, columns, depth) = _images(input, block_size, data_format)
        n = block_size
        if depth % (n * n):
            raise ValueError(
                f"{depth} channels cannot be cut into blocks of {n} by {n}."
            )
        blocks = reshape(images, [-1, rows, columns, n, n, depth // (n * n)])
        turned = transpose(blocks, [0, 1, 3, 2, 4, 5])
        return reshape(
            turned, [-1, rows * n, columns * n, depth // (n * n)], name=scope
        )


def _images(value: Any, block_size: int, data_format: str) -> tuple[Any, list[int]]:
    images = convert_to_tensor(value, name="input")
    if images.shape.ndims not in (4, None) or block_size < 2:
        raise ValueError(f"blocks of {block_size} of images, not of {images.shape}.")
    sizes = None if images.shape.ndims is None else images.shape.as_list()[1:]
    if data_format != "NHWC" or sizes is None or None in sizes:
        raise ValueError("the rows, columns and channels of images are known, in NHWC.")
    return images, sizes


def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    dtype: Any = int32,
    name: str | None = None,
    weights: Any = None,
) -> Any:
    """Return how often each class, by rows, was predicted as each one, by columns."""
    with op_scope(name, "confusion_matrix", [labels, predictions]) as scope:
        truth = arithmetic.cast(convert_to_tensor(labels), int64)
        guesses = arithmetic.cast(convert_to_tensor(predictions), int64)
        guesses.shape.assert_is_compatible_with(truth.shape)
        if num_classes is None:
            most = arithmetic.maximum(reduce_max(truth), reduce_max(guesses))
            sizes = stack([most + 1, most + 1])
        else:
            sizes = [whole("confusion_matrix", "num_classes", num_classes)] * 2
        kind = as_dtype(dtype)
        times = ones(shape_of(truth), kind) if weights is None else weights
        factors = arithmetic.cast(convert_to_tensor(times), kind)
        return scatter_nd(stack([truth, guesses], 1), factors, sizes, name=scope)
