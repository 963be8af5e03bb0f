"""The optimizers, with the original's names, defaults and slots.

`kit.training.optimizers.rules` defines what they compute; this adds the names of their
operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from kit.graph.array_protocol import ArrayProtocol
from kit.tf1.graph.control import group
from kit.tf1.ops.arithmetic import abs as absolute
from kit.tf1.ops.arithmetic import cast, maximum, rsqrt, sign, square
from kit.tf1.ops.index import gather
from kit.tf1.tensor.convert import convert_to_tensor
from kit.tf1.tensor.dtypes import float32
from kit.tf1.train.optimizers.optimizer import Optimizer
from kit.tf1.variables.assigning import assign, assign_add, scatter_add, scatter_update
from kit.tf1.variables.variables import Variable
from kit.training.optimizers import graph_rules
from kit.training.optimizers import rules as rules
from kit.training.optimizers.minimize import settings_of, title_of
from kit.training.optimizers.rule import Rule


class RuleOptimizer(Optimizer):
    """An optimizer that updates by a rule of `kit.train`."""

    _rule_class: ClassVar[Callable[..., Rule]]

    def __init__(self, use_locking: bool, name: str, **settings: Any) -> None:
        super().__init__(use_locking, name)
        self._settings = settings
        self._rule: Rule | None = None

    def _current(self) -> Rule:
        """Return the rule with its settings: numbers, or tensors of the graph."""
        called = {
            k: self._call_if_callable(setting) for k, setting in self._settings.items()
        }
        return self._rule_class(
            **{k: _setting(k, setting) for k, setting in called.items()}
        )

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            for slot in self._current().slots:
                self._filled_slot(var, slot.initial, slot.name, self._name)

    def _prepare(self) -> None:
        self._rule = self._current()

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._update("Apply", var, [grad])

    def _apply_sparse_duplicate_indices(self, grad: Any, var: Any) -> Any:
        return self._update("SparseApply", var, [grad.values, grad.indices])

    def _update(self, kind: str, var: Any, parts: list[Any]) -> Any:
        rule = self._rule
        assert rule is not None  # _prepare made it
        plain, fed = settings_of(rule)
        inputs = [
            var.ref,
            *(self.get_slot(var, slot.name).ref for slot in rule.slots),
            *(self._power(name, var.graph).value() for name in rule.powers),
            *(convert_to_tensor(setting) for setting in fed.values()),
            *parts,
        ]
        op_type = f"{kind}{title_of(rule)}"
        return var.graph.create(op_type, *inputs, rule=plain, fed=tuple(fed)).outputs[0]

    def _power(self, name: str, graph: Any) -> Any:
        return self._non_slots[name, graph]


# These become values of slots directly, in the slot's dtype.
_OF_THE_SLOT = ("initial_accumulator_value",)


def _setting(name: str, value: Any) -> Any:
    """Return a setting as the original has it: a float32, unless it is a tensor."""
    if isinstance(value, bool | ArrayProtocol):
        return value
    if np.ndim(value):
        raise ValueError(f"{name} is {value!r}; it must be one number.")
    if isinstance(value, np.ndarray | np.generic) or name in _OF_THE_SLOT:
        return float(value)
    return float(np.float32(value))


class GradientDescentOptimizer(RuleOptimizer):
    """v -= learning_rate * g."""

    _rule_class = rules.GradientDescent

    def __init__(
        self,
        learning_rate: Any,
        use_locking: bool = False,
        name: str = "GradientDescent",
    ) -> None:
        super().__init__(use_locking, name, learning_rate=learning_rate)


class MomentumOptimizer(RuleOptimizer):
    """a = momentum * a + g; v -= learning_rate * a, or with Nesterov's look ahead."""

    _rule_class = rules.Momentum

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(
            use_locking,
            name,
            learning_rate=learning_rate,
            momentum=momentum,
            use_nesterov=bool(use_nesterov),
        )


class AdagradOptimizer(RuleOptimizer):
    """a += g * g; v -= learning_rate * g / sqrt(a).

    Raises `ValueError` for an initial value of a that is not positive.
    """

    _rule_class = rules.Adagrad

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(
                f"initial_accumulator_value must be positive: "
                f"{initial_accumulator_value}"
            )
        super().__init__(
            use_locking,
            name,
            learning_rate=learning_rate,
            initial_accumulator_value=initial_accumulator_value,
        )


class AdadeltaOptimizer(RuleOptimizer):
    """Steps as long as the last ones were, relative to the gradients."""

    _rule_class = graph_rules.Adadelta

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(
            use_locking, name, learning_rate=learning_rate, rho=rho, epsilon=epsilon
        )


class FtrlOptimizer(RuleOptimizer):
    """FTRL-Proximal, with costs l1 and l2 of the weights, and shrinkage.

    Raises `ValueError` for negative settings, and for another `learning_rate_power`
    than -0.5, the root.
    """

    _rule_class = graph_rules.Ftrl

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
    ) -> None:
        if learning_rate_power != -0.5:
            raise ValueError(
                f"learning_rate_power is {learning_rate_power}; only -0.5 is supported "
                f"here, leave it out."
            )
        settings = {
            "initial_accumulator_value": initial_accumulator_value,
            "l1": l1_regularization_strength,
            "l2": l2_regularization_strength,
            "l2_shrinkage": l2_shrinkage_regularization_strength,
        }
        for key, value in settings.items():
            if value < 0.0:
                raise ValueError(f"{key} must be zero or positive: {value}")
        self._names = {"accum": accum_name, "linear": linear_name}
        super().__init__(use_locking, name, learning_rate=learning_rate, **settings)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            for slot in self._current().slots:
                name = self._names[slot.name] or self._name
                self._filled_slot(var, slot.initial, slot.name, name)


class RMSPropOptimizer(RuleOptimizer):
    """Divides by the root of the mean square of the last gradients; may be centered."""

    _rule_class = rules.RMSProp

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        super().__init__(
            use_locking,
            name,
            learning_rate=learning_rate,
            decay=decay,
            momentum=momentum,
            epsilon=epsilon,
            centered=bool(centered),
        )


class AdamOptimizer(RuleOptimizer):
    """Divides the mean gradient by its root mean square, both with bias correction."""

    _rule_class = rules.Adam

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(
            use_locking,
            name,
            learning_rate=learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
        )

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        # All clients must put the powers in the same place: beside the first by name.
        first = min(var_list, key=lambda variable: str(variable.name))
        for name in ("beta1", "beta2"):
            if (name, first.graph) not in self._non_slots:
                start = self._call_if_callable(self._settings[name])
                with first.graph.colocate_with(first.op):
                    self._non_slots[name, first.graph] = Variable(
                        start, name=f"{name}_power", trainable=False
                    )
        super()._create_slots(var_list)

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        graph = next(graph for _, graph in self._non_slots)
        return self._power("beta1", graph), self._power("beta2", graph)

    def _finish(self, update_ops: list[Any], name_scope: str) -> Any:
        """Multiply the powers by their settings once all updates have used them."""
        assert self._rule is not None  # _prepare made it
        graph = update_ops[0].graph
        moved = []
        with graph.control_dependencies(update_ops):
            for name in ("beta1", "beta2"):
                power = self._power(name, graph)
                with graph.colocate_with(power.op):
                    factor = convert_to_tensor(
                        getattr(self._rule, name), power.dtype.base_dtype, name=name
                    )
                    moved.append(assign(power, power.value() * factor))
        return group(*update_ops, *moved, name=name_scope)


# --------------------------------------------------------------------------------------
# Optimizers that shrink variables after each step: by l1 towards 0, and by l2.
#
# They update by operations of the graph, not by a rule of `kit.train`.


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
