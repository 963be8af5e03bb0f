"""The greatest elements of each row, and inverse permutations.

Among equal elements the first one counts as greater.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.bfloat16 import kind_of
from kit.errors import InvalidArgumentError
from kit.graph.arguments import number, numbers_or_input
from kit.graph.convert import make, make_op, tensor
from kit.graph.dtypes import name_of
from kit.graph.kernels.bounds import check_indices
from kit.graph.op import Op, Tensor
from kit.graph.static import Static, merge, text
from kit.graph.table import Attrs, enter, infer_like, register_bound

_PLACE = np.dtype(np.int32)


def top_k(x: Any, k: Any = 1, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the `k` greatest elements of each row, in descending order, and where.

    A row is along the last axis. Raises `ValueError` for a row that is shorter, and
    `InvalidArgumentError` where only the run finds that out.
    """
    attr, extra = numbers_or_input(k, "k")
    count = None if attr is None else attr[0]
    values, places = make_op("TopKV2", tensor(x), *extra, name=name, k=count).outputs
    return values, places


def invert_permutation(x: Any, name: str | None = None) -> Tensor:
    """Return the positions of 0, 1, ... in `x`, which holds each of them once.

    In the run raises `InvalidArgumentError` for anything else.
    """
    return make("InvertPermutation", tensor(x), name=name)


def _infer_top_k(inputs: Sequence[Static], attrs: Attrs) -> Sequence[Static]:
    x, k = inputs[0], attrs["k"]
    if k is None and inputs[1].value is not None and inputs[1].value.size == 1:
        k = int(inputs[1].value.reshape(()))
    if kind_of(x.dtype) not in "iuf":
        raise TypeError(f"{name_of(x.dtype)} has no greatest elements; cast it.")
    if k is not None and k < 0:
        raise ValueError(f"Need k >= 0, got {k}.")
    if x.shape is None:
        return [Static(None, x.dtype), Static(None, _PLACE)]
    size = x.shape[-1] if x.shape else 0
    if not x.shape or (size is not None and k is not None and size < k):
        raise ValueError(
            f"input must have last dimension >= k = {k} but is {size}: the input has "
            f"the shape {text(x.shape)}."
        )
    shape = (*x.shape[:-1], k)
    return [Static(shape, x.dtype), Static(shape, _PLACE)]


def _top_k(xp: ModuleType, x: Any, *extra: Any, k: int | None) -> Any:
    k = int(extra[0].reshape(())) if k is None else k
    size = x.shape[-1] if x.ndim else 0
    if not 0 <= k <= size:
        raise InvalidArgumentError(
            f"input must have at least k = {k} columns, but it has {size}; k is at "
            f"least 0."
        )
    # Reversed twice, so that the first of equal elements comes first.
    upwards = xp.argsort(x[..., ::-1], axis=-1, kind="stable")
    places = (size - 1 - upwards[..., ::-1])[..., :k].astype(_PLACE)
    return xp.take_along_axis(x, places.astype(np.int64), axis=-1), places


def _top_k_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    if gradients[0] is None:
        return [None] * len(op.inputs)
    x, places = op.inputs[0], op.outputs[1]
    back = make("PutAlong", gradients[0], places, x)
    return [back, *[None] * (len(op.inputs) - 1)]


def _take_along(xp: ModuleType, _: Attrs) -> Callable[..., Any]:
    return lambda x, places: xp.take_along_axis(x, places.astype(np.int64), axis=-1)


def _put_along(xp: ModuleType, values: Any, places: Any, like: Any) -> Any:
    result = xp.zeros(like.shape, values.dtype)
    rows = result.reshape(-1, like.shape[-1])
    columns = places.reshape(-1, places.shape[-1])
    rows[xp.arange(len(rows))[:, None], columns] = values.reshape(columns.shape)
    return result


def _put_along_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    return [make("TakeAlong", gradients[0], op.inputs[1]), None, None]


def _take_along_gradient(op: Op, gradients: Sequence[Any]) -> Sequence[Any]:
    x, places = op.inputs
    return [make("PutAlong", gradients[0], places, x), None]


def _infer_permutation(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    shape, dtype = inputs[0].shape, inputs[0].dtype
    if dtype.kind not in "iu":
        raise TypeError(f"a permutation is of integers, not of {name_of(dtype)}.")
    if shape is not None and len(shape) != 1:
        raise ValueError(f"a permutation is one row of integers, not {text(shape)}.")
    return [Static((None,) if shape is None else shape, dtype)]


def _invert(xp: ModuleType, x: Any) -> Any:
    if x.ndim != 1:
        raise InvalidArgumentError(
            f"a permutation is one row of integers, not {list(x.shape)}."
        )
    check_indices(xp, x, x.size, "the permutation")
    inverse = xp.full(x.shape, -1, x.dtype)
    inverse[x] = xp.arange(x.size, dtype=x.dtype)
    if x.size and int(inverse.min()) < 0:
        missing = int(xp.argmin(inverse))
        raise InvalidArgumentError(
            f"{missing} is missing in the permutation, so another is duplicated."
        )
    return inverse


_TWO: dict[str, Any] = {"n_outputs": 2, "takes": "iuf"}
enter("TopKV2", _infer_top_k, _top_k, _top_k_gradient, sizes_from=1, **_TWO)
enter("PutAlong", infer_like(2), _put_along, _put_along_gradient)
register_bound("TakeAlong", infer_like(1), _take_along, _take_along_gradient)
enter("InvertPermutation", _infer_permutation, _invert)


def in_top_k(predictions: Any, targets: Any, k: Any, name: str | None = None) -> Tensor:
    """Return for each row whether fewer than `k` classes are above its target.

    False also for a target that is not a class, and where a number is not finite.
    """
    return make(
        "InTopKV2", tensor(predictions), tensor(targets), name=name, k=number(k, "k")
    )


def _infer_in_top_k(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    predictions, targets = inputs
    if kind_of(predictions.dtype) != "f" or targets.dtype.kind not in "iu":
        raise TypeError(
            f"predictions are floating point and targets are integers, not "
            f"{predictions.dtype} and {targets.dtype}."
        )
    for what, sizes, rank in (
        ("predictions", predictions.shape, 2),
        ("targets", targets.shape, 1),
    ):
        if sizes is not None and len(sizes) != rank:
            raise ValueError(f"{what} must have {rank} axes, not {text(sizes)}.")
    rows = None if predictions.shape is None else predictions.shape[:1]
    shape = merge(rows, targets.shape, "the rows and the targets")
    return [Static((None,) if shape is None else shape, np.dtype(bool))]


def _in_top_k(xp: ModuleType, predictions: Any, targets: Any, *, k: int) -> Any:
    if predictions.ndim != 2 or targets.shape != predictions.shape[:1]:
        raise InvalidArgumentError(
            f"predictions of {list(predictions.shape)} do not go with targets of "
            f"{list(targets.shape)}: give a row of classes for each target."
        )
    n_classes = predictions.shape[1]
    if not n_classes:
        return xp.zeros(targets.shape, bool)
    is_class = (targets >= 0) & (targets < n_classes)
    places = xp.where(is_class, targets, 0).astype(np.int64)[:, None]
    own = xp.take_along_axis(predictions, places, axis=1)
    above = (predictions > own).sum(axis=1)
    is_ranked = is_class & xp.isfinite(predictions).all(axis=1)
    return is_ranked & (above < k)


enter("InTopKV2", _infer_in_top_k, _in_top_k)
