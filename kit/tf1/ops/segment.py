"""Reductions of rows by the number of their segment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.tf1.ops.index import gather
from kit.tf1.ops.write import index
from kit.tf1.tensor.convert import argument, create, op_scope


def _reduced(
    op_type: str, data: Any, ids: Any, count: Any, name: str | None, rows: Any = None
) -> Any:
    with op_scope(name, op_type, [data, ids, count, rows]) as scope:
        values = argument(op_type, "data", data)
        values = values if rows is None else gather(values, rows)
        inputs = [values, index(op_type, "segment_ids", ids)]
        if count is not None:
            inputs.append(index(op_type, "num_segments", count))
        return create(op_type.removeprefix("Sparse"), *inputs, name=scope)


def _of_segments(kind: str) -> Callable[..., Any]:
    def function(data: Any, segment_ids: Any, name: str | None = None) -> Any:
        return _reduced(f"Segment{kind}", data, segment_ids, None, name)

    function.__doc__ = f"Return the {kind.lower()} of each segment of ascending ones."
    return function


def _of_unsorted(kind: str) -> Callable[..., Any]:
    def function(
        data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
    ) -> Any:
        return _reduced(f"UnsortedSegment{kind}", data, segment_ids, num_segments, name)

    function.__doc__ = (
        f"Return the {kind.lower()} of each segment, in any order; negative numbers "
        f"are left out."
    )
    return function


def _of_sparse(kind: str) -> Callable[..., Any]:
    def function(
        data: Any,
        indices: Any,
        segment_ids: Any,
        name: str | None = None,
        num_segments: Any = None,
    ) -> Any:
        op_type = f"SparseSegment{kind}"
        return _reduced(op_type, data, segment_ids, num_segments, name, indices)

    function.__doc__ = f"Return the {kind.lower()} of each segment of gathered rows."
    return function


segment_sum, segment_mean = _of_segments("Sum"), _of_segments("Mean")
segment_prod = _of_segments("Prod")
segment_min, segment_max = _of_segments("Min"), _of_segments("Max")
unsorted_segment_sum, unsorted_segment_mean = _of_unsorted("Sum"), _of_unsorted("Mean")
unsorted_segment_prod = _of_unsorted("Prod")
unsorted_segment_min, unsorted_segment_max = _of_unsorted("Min"), _of_unsorted("Max")
unsorted_segment_sqrt_n = _of_unsorted("SqrtN")
sparse_segment_sum, sparse_segment_mean = _of_sparse("Sum"), _of_sparse("Mean")
sparse_segment_sqrt_n = _of_sparse("SqrtN")
