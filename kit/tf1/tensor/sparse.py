"""Sparse tensors: three tensors in one, to be fetched and fed.

Pure. There are no operations on them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kit.tf1.graph.graph import Graph
from kit.tf1.tensor.convert import convert_to_tensor, create, op_scope
from kit.tf1.tensor.dtypes import DType, int64, numpy_of
from kit.tf1.tensor.shape import TensorShape


class SparseTensorValue(NamedTuple):
    """The value of a `SparseTensor`: where it is not zero, what is there, the shape."""

    indices: Any
    values: Any
    dense_shape: Any


class SparseTensor:
    """`values[i]` at `indices[i]` of a tensor of `dense_shape`, and zeros elsewhere."""

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        """Take the parts; raises `ValueError` for shapes that do not fit."""
        with op_scope(None, "SparseTensor", [indices, values, dense_shape]):
            self.indices = convert_to_tensor(indices, int64, name="indices")
            self.values = convert_to_tensor(values, name="values")
            self.dense_shape = convert_to_tensor(dense_shape, int64, name="dense_shape")
        rows = self.indices.shape.with_rank(2)
        rows[0].merge_with(self.values.shape.with_rank(1)[0])
        rows[1].merge_with(self.dense_shape.shape.with_rank(1)[0])

    @classmethod
    def from_value(cls, sparse_tensor_value: Any) -> SparseTensor:
        """Return the parts of a `SparseTensorValue` as tensors."""
        value = sparse_tensor_value
        if not isinstance(value, SparseTensor | SparseTensorValue):
            raise TypeError(f"Neither a SparseTensor nor SparseTensorValue: {value!r}.")
        return cls(value.indices, value.values, value.dense_shape)

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        graph: Graph = self.values.graph
        return graph

    @property
    def op(self) -> Any:
        """The operation that gives the values."""
        return self.values.op

    @property
    def dtype(self) -> DType:
        """The dtype of the values."""
        dtype: DType = self.values.dtype
        return dtype

    @property
    def shape(self) -> TensorShape:
        """The shape of the whole, as far as it is known."""
        sizes = self.dense_shape.static.value
        if sizes is None:
            return TensorShape([None] * (self.dense_shape.shape[0].value or 0))
        return TensorShape([None if size < 0 else int(size) for size in sizes])

    def get_shape(self) -> TensorShape:
        """Return the shape of the whole, as far as it is known."""
        return self.shape

    def __repr__(self) -> str:
        return f"SparseTensor(indices={self.indices}, values={self.values})"


def sparse_placeholder(
    dtype: Any, shape: Any = None, name: str | None = None
) -> SparseTensor:
    """Return a sparse tensor whose value each run is fed."""
    static_shape = TensorShape(shape)
    sizes = None if static_shape.ndims is None else static_shape.as_list()
    prefix = f"{name}/" if name else ""

    def part(of: str, kind: Any, parts: tuple[int | None, ...]) -> Any:
        wanted = numpy_of(kind)
        return create("Placeholder", name=prefix + of, dtype=wanted, shape=parts)

    if sizes is None or None in sizes:
        whole = part("shape", int64, (None if sizes is None else len(sizes),))
    else:
        whole = convert_to_tensor(sizes, int64, name=prefix + "shape")
    rank = whole.shape[0].value
    return SparseTensor(
        part("indices", int64, (None, rank)), part("values", dtype, (None,)), whole
    )
