"""Whether a class is among those that are most probable."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kit.errors import InvalidArgumentError
from kit.graph.arguments import number
from kit.graph.convert import make, tensor
from kit.graph.op import Tensor
from kit.graph.static import Static, merge, text
from kit.graph.table import Attrs, OpDef, register


def in_top_k(predictions: Any, targets: Any, k: Any, name: str | None = None) -> Tensor:
    """Return for each row whether fewer than `k` classes are above its target.

    False also for a target that is not a class, and where a number is not finite.
    """
    return make(
        "InTopKV2", tensor(predictions), tensor(targets), name=name, k=number(k, "k")
    )


def _infer(inputs: Sequence[Static], _: Attrs) -> Sequence[Static]:
    predictions, targets = inputs
    if predictions.dtype.kind != "f" or targets.dtype.kind not in "iu":
        raise TypeError(
            f"predictions are floating point and targets are integers, not "
            f"{predictions.dtype} and {targets.dtype}."
        )
    for what, found, rank in (
        ("predictions", predictions.shape, 2),
        ("targets", targets.shape, 1),
    ):
        if found is not None and len(found) != rank:
            raise ValueError(f"{what} must have {rank} axes, not {text(found)}.")
    rows = None if predictions.shape is None else predictions.shape[:1]
    shape = merge(rows, targets.shape, "the rows and the targets")
    return [Static((None,) if shape is None else shape, np.dtype(bool))]


def _bind(xp: ModuleType, predictions: Any, targets: Any, *, k: int) -> Any:
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
    is_told = is_class & xp.isfinite(predictions).all(axis=1)
    return is_told & (above < k)


register(OpDef("InTopKV2", _infer, _bind))
