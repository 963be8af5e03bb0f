"""`tf.ConditionalAccumulator`: collects gradients until their mean is taken.

It lives where its operation is placed; equal `shared_name`s mean the same accumulator.
A gradient computed for an earlier time step than the accumulator's is dropped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kit.bfloat16 import kind_of
from kit.graph.op import IndexedSlices
from kit.tf1.ops.arithmetic import cast
from kit.tf1.tensor.convert import (
    argument,
    convert_to_tensor,
    create,
    create_op,
    op_scope,
)
from kit.tf1.tensor.dtypes import DType, as_dtype, int32, int64, numpy_of
from kit.tf1.tensor.shape import TensorShape, static_of

_NUMBERS = "iufc"


class SparseAccumulatorTakeGradient(NamedTuple):
    """What a sparse accumulator returns: three tensors."""

    indices: Any
    values: Any
    shape: Any


class ConditionalAccumulatorBase:
    """What dense and sparse accumulators have in common."""

    _type = _prefix = _called = ""

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str | None = None,
        reduction_type: str = "MEAN",
    ) -> None:
        """Add the accumulator's operation to the default graph.

        Raises `TypeError` for a dtype that is not numeric, `ValueError` for another
        reduction than MEAN and SUM. In a run: `InvalidArgumentError` for whole numbers.
        """
        self._dtype = _number_type(dtype)
        self._shape, self._static = TensorShape(shape), static_of(shape)
        self._ref = create(
            self._type,
            name=name or self._called,
            dtype=numpy_of(self._dtype),
            shape=self._static,
            shared_name=shared_name or "",
            reduction_type="MEAN" if reduction_type is None else reduction_type,
        )

    @property
    def accumulator_ref(self) -> Any:
        """The tensor that stands for the accumulator itself."""
        return self._ref

    @property
    def name(self) -> str:
        """The last part of the name of its operation."""
        return str(self._ref.op.name).split("/")[-1]

    @property
    def dtype(self) -> DType:
        """The dtype of the gradients."""
        return self._dtype

    def num_accumulated(self, name: str | None = None) -> Any:
        """Return the number of gradients in it."""
        called = name or f"{self.name}_NumAccumulated"
        return self._make(f"{self._prefix}NumAccumulated", name=called).outputs[0]

    def set_global_step(self, new_global_step: Any, name: str | None = None) -> Any:
        """Return an operation that sets its time step; a lower one causes a warning."""
        step = _step(new_global_step)
        return self._make(f"{self._prefix}SetGlobalStep", step, name=name)

    def _make(self, op_type: str, *inputs: Any, name: str | None, **attrs: Any) -> Any:
        raise NotImplementedError


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """An accumulator of dense gradients of one shape."""

    _type = "ResourceConditionalAccumulator"
    _prefix = "ResourceAccumulator"
    _called = "conditional_accumulator"

    def apply_grad(
        self, grad: Any, local_step: Any = 0, name: str | None = None
    ) -> Any:
        """Return an operation that adds a gradient computed for `local_step`.

        Raises `ValueError` for another shape or dtype. In a run: a stale gradient is
        dropped silently, `InvalidArgumentError` for another shape.
        """
        tensor = convert_to_tensor(grad, self._dtype)
        tensor.get_shape().assert_is_compatible_with(self._shape)
        step = _step(local_step)
        op_type = "ResourceAccumulatorApplyGradient"
        return self._make(op_type, step, tensor, name=name, dtype=numpy_of(self._dtype))

    def take_grad(self, num_required: Any, name: str | None = None) -> Any:
        """Return the mean of all gradients as soon as there are `num_required`.

        This empties it and increments its time step. Raises in a run:
        `InvalidArgumentError` for fewer than 1.
        """
        op_type = "ResourceAccumulatorTakeGradient"
        with op_scope(name, op_type, [self._ref, num_required]) as scope:
            n = argument(op_type, "num_required", num_required, int32)
            attrs = {"dtype": numpy_of(self._dtype), "shape": self._static}
            return self._make(op_type, n, name=scope, **attrs).outputs[0]

    def _make(self, op_type: str, *inputs: Any, name: str | None, **attrs: Any) -> Any:
        # In the current scopes: it runs where the accumulator is, whatever they say.
        graph = self._ref.graph
        return graph.create(op_type, self._ref, *inputs, name=name, **attrs)


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """An accumulator of sparse gradients; see `tf.IndexedSlices`.

    Its shape is that of the whole tensor. The mean of a row is taken over the gradients
    that contain it.
    """

    _type = "SparseConditionalAccumulator"
    _prefix = "Accumulator"
    _called = "sparse_conditional_accumulator"

    def apply_indexed_slices_grad(
        self, grad: Any, local_step: Any = 0, name: str | None = None
    ) -> Any:
        """Return an operation that adds a sparse gradient; see `apply_grad`."""
        return self.apply_grad(
            grad.indices, grad.values, grad.dense_shape, local_step, name
        )

    def apply_grad(
        self,
        grad_indices: Any,
        grad_values: Any,
        grad_shape: Any = None,
        local_step: Any = 0,
        name: str | None = None,
    ) -> Any:
        """Return an operation that adds the rows `grad_values` at `grad_indices`.

        `grad_shape` is the shape of the whole. Raises in a run: `InvalidArgumentError`
        for an index beyond the whole, and for rows of another shape or number; a stale
        gradient is dropped silently.
        """
        op_type = "SparseAccumulatorApplyGradient"
        step = _step(local_step)
        indices = cast(grad_indices, int64)
        whole = cast([] if grad_shape is None else grad_shape, int64)
        with op_scope(name, op_type, [self._ref, step, indices, whole]) as scope:
            rows = argument(op_type, "gradient_values", grad_values)
            return self._make(
                op_type,
                step,
                indices,
                rows,
                whole,
                name=scope,
                dtype=numpy_of(rows.dtype),
                has_known_shape=grad_shape is not None,
            )

    def take_grad(self, num_required: Any, name: str | None = None) -> Any:
        """Return indices, rows and shape of the mean as soon as there are enough."""
        op_type = "SparseAccumulatorTakeGradient"
        with op_scope(name, op_type, [self._ref, num_required]) as scope:
            n = argument(op_type, "num_required", num_required, int32)
            made = self._make(op_type, n, name=scope, dtype=numpy_of(self._dtype))
        return SparseAccumulatorTakeGradient(*made.outputs)

    def take_indexed_slices_grad(
        self, num_required: Any, name: str | None = None
    ) -> IndexedSlices:
        """Return the mean as `tf.IndexedSlices`; see `take_grad`."""
        slices = self.take_grad(num_required, name)
        return IndexedSlices(slices.values, slices.indices, slices.shape)

    def _make(self, op_type: str, *inputs: Any, name: str | None, **attrs: Any) -> Any:
        return create_op(op_type, self._ref, *inputs, name=name, **attrs)


def _step(value: Any) -> Any:
    return cast(convert_to_tensor(value), int64)


def _number_type(value: Any) -> DType:
    float_dtype: DType | None = None if value is None else as_dtype(value).base_dtype
    if float_dtype is None or kind_of(numpy_of(float_dtype)) not in _NUMBERS:
        raise TypeError(f"an accumulator has a dtype of numbers, not {value!r}.")
    return float_dtype
