"""Optimizers that shrink variables after each step: by l1 towards 0, and by l2.

They update by operations of the graph, not by a rule of `kit.train`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kit.tf1.ops.arithmetic import abs as absolute
from kit.tf1.ops.arithmetic import cast, maximum, rsqrt, sign, square
from kit.tf1.ops.index import gather
from kit.tf1.tensor.dtypes import float32
from kit.tf1.train.optimizers.optimizer import Optimizer
from kit.tf1.variables.assigning import assign, assign_add, scatter_add, scatter_update


class ProximalGradientDescentOptimizer(Optimizer):
    """Gradient descent, then v = sign(v) max(|v| - lr l1, 0) / (1 + lr l2)."""

    def __init__(
        self,
        learning_rate: Any,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        rate = self._rate(var, square(grad))
        return assign(var, self._shrunk(var - rate * grad, rate))

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        rows, values = grad.indices, grad.values
        rate = self._rate(var, square(values), rows)
        moved = gather(var, rows) - rate * values
        return scatter_update(var, rows, self._shrunk(moved, rate))

    def _rate(self, var: Any, squares: Any, rows: Any = None) -> Any:
        if var.dtype.base_dtype != float32:
            raise TypeError(
                f"{self.get_name()} takes variables of float32, as the original's; "
                f"{var.op.name} is {var.dtype.base_dtype.name}."
            )
        return cast(self._call_if_callable(self._learning_rate), float32)

    def _shrunk(self, moved: Any, rate: Any) -> Any:
        if self._l1 > 0:
            moved = sign(moved) * maximum(absolute(moved) - rate * self._l1, 0.0)
        return moved / (1.0 + rate * self._l2)


class ProximalAdagradOptimizer(ProximalGradientDescentOptimizer):
    """The same, with the learning rate over the root of the sum of squares."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(
                f"initial_accumulator_value must be positive: "
                f"{initial_accumulator_value}"
            )
        strengths = (l1_regularization_strength, l2_regularization_strength)
        super().__init__(learning_rate, *strengths, use_locking, name)
        self._initial = initial_accumulator_value

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._filled_slot(var, self._initial, "accumulator", self._name)

    def _rate(self, var: Any, squares: Any, rows: Any = None) -> Any:
        rate = super()._rate(var, squares)
        sums = self.get_slot(var, "accumulator")
        if rows is None:
            return rate * rsqrt(assign_add(sums, squares))
        return rate * rsqrt(gather(scatter_add(sums, rows, squares), rows))
