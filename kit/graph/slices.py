"""A sparse gradient: some rows of a tensor, by index.

Pure. It comes from gathering rows, and is summed per index when it is applied.
"""

from __future__ import annotations

from typing import Any

from kit.graph.graph import Graph
from kit.graph.op import Op, Tensor


class IndexedSlices:
    """Rows `values[i]` that belong at `indices[i]` of a larger tensor.

    `dense_shape` is the shape of that tensor (a tensor), None if unknown. An index may
    occur several times: the rows add up.
    """

    def __init__(
        self, values: Tensor, indices: Tensor, dense_shape: Tensor | None = None
    ) -> None:
        self.values, self.indices, self.dense_shape = values, indices, dense_shape

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self.values.graph

    @property
    def op(self) -> Op:
        """The op that computes the values."""
        return self.values.op

    @property
    def name(self) -> str:
        """The name of the values."""
        return self.values.name

    @property
    def dtype(self) -> Any:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def device(self) -> str:
        """Where the values are computed, as far as it is said."""
        return self.values.device

    def consumers(self) -> list[Op]:
        """Return the ops that take the values."""
        ops = self.graph.ops[self.op.number + 1 :]
        return [op for op in ops if self.values in op.inputs]

    def __str__(self) -> str:
        whole = "" if self.dense_shape is None else f", dense_shape={self.dense_shape}"
        return f"IndexedSlices(indices={self.indices}, values={self.values}{whole})"

    def __repr__(self) -> str:
        return f"<rows {self.values!r} at {self.indices!r}>"
