"""`tf.contrib.opt`: weight decay that does not pass through an optimizer's means.

A step takes away `weight_decay` of each variable, after its gradient was computed and
before the optimizer updates it; the learning rate does not scale that. After Loshchilov
and Hutter, "Decoupled weight decay regularization", arXiv:1711.05101.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kit.graph.ops.array.rows import sum_rows
from kit.tf1.graph.control import control_dependencies
from kit.tf1.not_offered import refusing
from kit.tf1.ops.index import gather
from kit.tf1.train.optimizers.optimizer import Optimizer, variables_in
from kit.tf1.train.optimizers.optimizers import AdamOptimizer, MomentumOptimizer
from kit.tf1.variables.assigning import assign_sub, scatter_sub


class DecoupledWeightDecayExtension(Optimizer):
    """Beside another optimizer among the bases of a class: its steps decay weights."""

    def __init__(self, weight_decay: Any, *args: Any, **settings: Any) -> None:
        """Take the part that a step takes away, then what the other optimizer takes."""
        super().__init__(*args, **settings)
        self._weight_decay = weight_decay
        self._decayed: list[Any] | None = None  # all that it updates

    def minimize(
        self, *args: Any, decay_var_list: Iterable[Any] | None = None, **kwargs: Any
    ) -> Any:
        """See `Optimizer.minimize`; by default all variables decay."""
        self._choose(decay_var_list)
        return super().minimize(*args, **kwargs)

    def apply_gradients(
        self, *args: Any, decay_var_list: Iterable[Any] | None = None, **kwargs: Any
    ) -> Any:
        """See `Optimizer.apply_gradients`; by default all variables decay."""
        self._choose(decay_var_list)
        return super().apply_gradients(*args, **kwargs)

    def _choose(self, decay_var_list: Iterable[Any] | None) -> None:
        if decay_var_list is not None:
            self._decayed = variables_in(decay_var_list)

    def _decays(self, var: Any) -> bool:
        return self._decayed is None or any(var is chosen for chosen in self._decayed)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        if not self._decays(var):
            return super()._apply_dense(grad, var)
        with control_dependencies([grad]):
            decayed = assign_sub(var, self._weight_decay * var)
        with control_dependencies([decayed]):
            return super()._apply_dense(grad, var)

    def _apply_sparse_duplicate_indices(self, grad: Any, var: Any) -> Any:
        """Decay the rows that have a gradient, once however often they were used."""
        if not self._decays(var):
            return super()._apply_sparse_duplicate_indices(grad, var)
        summed = sum_rows(grad)
        with control_dependencies([summed.values]):
            rows = self._weight_decay * gather(var, summed.indices)
            decayed = scatter_sub(var, summed.indices, rows)
        with control_dependencies([decayed]):
            return super()._apply_sparse_duplicate_indices(summed, var)


def extend_with_decoupled_weight_decay(base_optimizer: type[Optimizer]) -> type[Any]:
    """Return a class whose steps decay weights and then are those of an optimizer."""
    bases = (DecoupledWeightDecayExtension, base_optimizer)
    return type(f"{base_optimizer.__name__}WithDecoupledWeightDecay", bases, {})


class AdamWOptimizer(DecoupledWeightDecayExtension, AdamOptimizer):
    """Adam whose steps decay the weights before they update them."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        super().__init__(
            weight_decay, learning_rate, beta1, beta2, epsilon, use_locking, name
        )


class MomentumWOptimizer(DecoupledWeightDecayExtension, MomentumOptimizer):
    """Momentum whose steps decay the weights before they update them."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "MomentumW",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(
            weight_decay, learning_rate, momentum, use_locking, name, use_nesterov
        )


__getattr__ = refusing("contrib.opt")
