"""Reductions along axes, positions of extremes, running sums, and rankings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.op import Tensor
from kit.graph.ops.math.reduce import reduce_along, reduced
from kit.graph.static import is_known
from kit.tf1.graph.graph import get_default_graph
from kit.tf1.ops.write import axes, index, ints, one_of, reserve, settled, whole
from kit.tf1.tensor.allowed import check_allowed
from kit.tf1.tensor.convert import argument, create, create_op, op_scope
from kit.tf1.tensor.dtypes import as_dtype, bool_, float32, int64, numpy_of, string


def reduction(
    reduce: Callable[[Any, Any, Any, str | None], Any], doc: str
) -> Callable[..., Any]:
    """Return a function that reduces all elements along some axes.

    `reduce` gets the tensor, the axis, whether reduced axes stay, and a name.
    """

    def function(
        input_tensor: Any,
        axis: Any = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: bool | None = None,
    ) -> Any:
        axis = one_of("axis", axis, "reduction_indices", reduction_indices)
        keepdims = one_of("keepdims", keepdims, "keep_dims", keep_dims)
        return reduce(input_tensor, axis, keepdims, name)

    function.__doc__ = (
        f"Return {doc} along some axes, or of all elements.\n\n"
        f"`axis` is an int, several, or None for all. With `keepdims` a reduced axis "
        f"stays, of size 1. The last two arguments are older names of these."
    )
    return function


def _of_type(op_type: str, doc: str, default: str | None = None) -> Callable[..., Any]:
    def reduce(x: Any, axis: Any, keepdims: Any, name: str | None) -> Any:
        if axis is None:
            _name_all_axes(x)
        return _reduced(op_type, default or op_type, x, axis, keepdims, name)

    return reduction(reduce, doc)


def _reduced(
    op_type: str, default: str, x: Any, axis: Any, keepdims: Any, name: str | None
) -> Any:
    with op_scope(name, default, [x, axis]) as scope:
        is_truth = op_type in ("All", "Any") and isinstance(x, list | tuple)
        tensor = argument(op_type, "input", x, bool_ if is_truth else None)
        check_allowed(op_type, [tensor])
        chosen = None if axis is None else _along(op_type, axis)
        if isinstance(chosen, Tensor):
            return reduce_along(op_type, tensor, chosen, bool(keepdims), name=scope)
        if chosen is not None:
            if np.ndim(chosen) > 1:
                raise ValueError(f"axis must be at most rank 1, not {axis!r}.")
            listed = chosen if isinstance(chosen, list) else [chosen]
            rank = tensor.shape.ndims
            # An axis may be named twice.
            chosen = tuple(
                {
                    number
                    if rank is None or not -rank <= number < rank
                    else number % rank: number
                    for number in listed
                }.values()
            )
        attrs: dict[str, Any] = {"axis": chosen, "keepdims": bool(keepdims)}
        if op_type in _EXTREMES and 0 in (tensor.static.shape or ()):
            return _of_nothing(op_type, tensor, chosen, bool(keepdims), scope)
        return create(op_type, tensor, name=scope, **attrs)


def _along(op_type: str, axis: Any) -> Any:
    """Return axes as integers, or as a tensor if a run may feed others."""
    numbers = ints(op_type, "reduction_indices", axis)
    if op_type in ("Sum", "Mean") or not isinstance(numbers, Tensor):
        return numbers
    # What a run chooses has no gradient in these.
    is_known = numbers.static.value is not None
    return settled(op_type, "reduction_indices", axis) if is_known else numbers


_EXTREMES = {"Max": "min", "Min": "max"}


def _of_nothing(op_type: str, x: Any, axis: Any, keepdims: bool, name: str) -> Any:
    """Return the extreme of no elements: the least or greatest number of the dtype."""
    shape: Any = reduced(x.static.shape, axis, keepdims)
    dtype = x.dtype.base_dtype
    farthest = getattr(dtype, _EXTREMES[op_type])
    if dtype.is_floating:
        farthest = np.copysign(np.inf, farthest)
    if not is_known(shape):
        return create(op_type, x, name=name, axis=axis, keepdims=keepdims)
    value = np.full(shape, farthest, numpy_of(dtype))
    return x.graph.create("Const", name=name, value=value).outputs[0]


def _name_all_axes(x: Any) -> None:
    """Use up the names of the original's operations for "all axes"."""
    if isinstance(x, Tensor) and x.static.shape is not None:
        with x.graph.as_default():
            reserve("Const")
    else:
        with get_default_graph().as_default():
            reserve("Rank", "range")


reduce_sum = _of_type("Sum", "the sum")
reduce_mean = _of_type("Mean", "the mean")
reduce_prod = _of_type("Prod", "the product")
reduce_max = _of_type("Max", "the greatest element")
reduce_min = _of_type("Min", "the least element")
reduce_all = _of_type("All", "whether all are true")
reduce_any = _of_type("Any", "whether any is true")
reduce_logsumexp = _of_type("LogSumExp", "log(sum(exp(x)))", "ReduceLogSumExp")


def _index_of(op_type: str, doc: str) -> Callable[..., Any]:
    def function(
        input: Any,
        axis: Any = None,
        name: str | None = None,
        dimension: Any = None,
        output_type: Any = int64,
    ) -> Any:
        axis = one_of("axis", axis, "dimension", dimension)
        return _index_of_extreme(op_type, input, axis, name, output_type)

    function.__doc__ = f"Return the index of {doc} along an axis, by default 0."
    return function


def _index_of_old(op_type: str, doc: str) -> Callable[..., Any]:
    """Return the function of the first versions, which had no default for the axis."""

    def function(
        input: Any, dimension: Any, output_type: Any = int64, name: str | None = None
    ) -> Any:
        return _index_of_extreme(op_type, input, dimension, name, output_type)

    function.__doc__ = f"Return the index of {doc} along an axis."
    return function


argmax = _index_of("ArgMax", "the first greatest element")
argmin = _index_of("ArgMin", "the first least element")
arg_max = _index_of_old("ArgMax", "the first greatest element")
arg_min = _index_of_old("ArgMin", "the first least element")


def _index_of_extreme(
    op_type: str, x: Any, axis: Any, name: str | None, dtype: Any
) -> Any:
    with op_scope(name, op_type, [x, axis]) as scope:
        tensor = argument(op_type, "input", x)
        (position,) = axes(op_type, "reduction_indices", 0 if axis is None else axis)
        attrs: dict[str, Any] = {"axis": position, "dtype": numpy_of(dtype)}
        return create(op_type, tensor, name=scope, keepdims=False, **attrs)


def count_nonzero(
    input_tensor: Any = None,
    axis: Any = None,
    keepdims: bool | None = None,
    dtype: Any = int64,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
    input: Any = None,
) -> Any:
    """Return the number of elements that are not zero, along some axes or of all."""
    axis = one_of("axis", axis, "reduction_indices", reduction_indices)
    keepdims = one_of("keepdims", keepdims, "keep_dims", keep_dims)
    tensor = one_of("input", input, "input_tensor", input_tensor)
    with op_scope(name, "count_nonzero", [tensor]):
        x = argument("NotEqual", "input", tensor)
        nothing = b"" if x.dtype == string else x.dtype.as_numpy_dtype()
        zero = argument("NotEqual", "zeros", nothing, x.dtype)
        is_one = create("NotEqual", x, zero, name="NotEqual")
        counted = create("Cast", is_one, name="Cast", dtype=numpy_of(int64))
        total = reduce_sum(counted, axis, keepdims)
        wanted = as_dtype(dtype)
        if wanted == int64:
            return total
        return create("Cast", total, name="Cast", dtype=numpy_of(wanted))


def cumsum(
    x: Any,
    axis: Any = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Return the running sums along an axis.

    `exclusive` leaves the element itself out; `reverse` adds from the end. Raises
    `InvalidArgumentError` for an axis that `x` does not have.
    """
    return _cumulated("Cumsum", x, axis, exclusive, reverse, name)


def cumprod(
    x: Any,
    axis: Any = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Return the running products along an axis; see `cumsum`.

    As in the original there is no gradient where an element is 0: it is not a number.
    """
    return _cumulated("Cumprod", x, axis, exclusive, reverse, name)


def _cumulated(
    op_type: str, x: Any, axis: Any, exclusive: bool, reverse: bool, name: str | None
) -> Any:
    with op_scope(name, op_type, [x]) as scope:
        tensor = argument(op_type, "x", x)
        check_allowed(op_type, [tensor])
        position = settled(op_type, "axis", axis)
        rank = tensor.shape.ndims
        if isinstance(position, list) or (
            rank is not None and not -rank <= position < rank
        ):
            raise InvalidArgumentError(
                None, None, f"{op_type} along {axis!r}: the tensor has {rank} axes."
            )
        attrs = {"exclusive": bool(exclusive), "reverse": bool(reverse)}
        return create(op_type, tensor, name=scope, axis=position, **attrs)


class TopKV2(NamedTuple):
    """The greatest elements of each row, and their positions."""

    values: Any
    indices: Any


def top_k(input: Any, k: Any = 1, sorted: bool = True, name: str | None = None) -> Any:
    """Return the `k` greatest elements of each row, in descending order, and where.

    Among equal elements the first counts as greater. They are always `sorted`. Raises
    `ValueError` for a row that is shorter, in the run `InvalidArgumentError`.
    """
    with op_scope(name, "TopKV2", [input, k]) as scope:
        tensor = argument("TopKV2", "input", input)
        check_allowed("TopKV2", [tensor])
        count = ints("TopKV2", "k", k)
        if isinstance(count, list):
            raise ValueError(f"k of TopKV2 must be one number, not {count}.")
        extra = [] if isinstance(count, int) else [count]
        static_count = None if extra else count
        op = create_op("TopKV2", tensor, *extra, name=scope, k=static_count)
        return TopKV2(*op.outputs)


def in_top_k(predictions: Any, targets: Any, k: Any, name: str | None = None) -> Any:
    """Return for each row of classes whether fewer than `k` are above its target.

    False also for a target that is not a class, and where a number is not finite.
    """
    with (
        op_scope(name, "in_top_k", [predictions, targets, k]),
        op_scope(name, "InTopKV2", []) as scope,
    ):
        rows = argument("InTopKV2", "predictions", predictions, float32)
        places = index("InTopKV2", "targets", targets)
        count = whole("InTopKV2", "k", k)
        return create("InTopKV2", rows, places, name=scope, k=count)


def invert_permutation(x: Any, name: str | None = None) -> Any:
    """Return the positions of 0, 1, ... in `x`, which holds each of them once.

    In the run raises `InvalidArgumentError` for anything else.
    """
    with op_scope(name, "InvertPermutation", [x]) as scope:
        tensor = index("InvertPermutation", "x", x)
        return create("InvertPermutation", tensor, name=scope)
