"""The greatest elements of each row, and orders turned round."""

from __future__ import annotations

from typing import Any, NamedTuple

from kit.graph.op import Tensor
from kit.tf1.ops.write import index, ints
from kit.tf1.tensor.allowed import check_allowed
from kit.tf1.tensor.convert import argument, create, create_op, op_scope
from kit.tf1.tensor.dtypes import float32


class TopKV2(NamedTuple):
    """The greatest elements of each row, and where they stand."""

    values: Any
    indices: Any


def top_k(input: Any, k: Any = 1, sorted: bool = True, name: str | None = None) -> Any:
    """Return the `k` greatest elements of each row, greatest first, and their places.

    Of equal elements the first one counts as greater. They are always `sorted`. Raises
    `ValueError` for a row that is shorter, in the run `InvalidArgumentError`.
    """
    with op_scope(name, "TopKV2", [input, k]) as scope:
        found = argument("TopKV2", "input", input)
        check_allowed("TopKV2", [found])
        count = ints("TopKV2", "k", k)
        if isinstance(count, list):
            raise ValueError(f"k of TopKV2 must be one number, not {count}.")
        extra = [] if isinstance(count, int) else [count]
        known = None if extra else count
        op = create_op("TopKV2", found, *extra, name=scope, k=known)
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
        count = ints("InTopKV2", "k", k)
        if isinstance(count, Tensor | list):
            raise ValueError(
                f"in_top_k needs one k, known when the line is written, not {k!r}."
            )
        return create("InTopKV2", rows, places, name=scope, k=count)


def invert_permutation(x: Any, name: str | None = None) -> Any:
    """Return where each of 0, 1, ... stands in `x`, which holds each of them once.

    In the run raises `InvalidArgumentError` for anything else.
    """
    with op_scope(name, "InvertPermutation", [x]) as scope:
        found = index("InvertPermutation", "x", x)
        return create("InvertPermutation", found, name=scope)
