"""`tf.contrib.slim.learning`: a step of training."""

from __future__ import annotations

from typing import Any

from kit.tf1.contrib import training
from kit.tf1.contrib.training import add_gradients_summaries as add_gradients_summaries
from kit.tf1.contrib.training import clip_gradient_norms as clip_gradient_norms
from kit.tf1.contrib.training import multiply_gradients as multiply_gradients
from kit.tf1.not_offered import refuse
from kit.tf1.train.optimizers.optimizer import Optimizer

__all__ = [
    "add_gradients_summaries",
    "clip_gradient_norms",
    "create_train_op",
    "multiply_gradients",
]


def create_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = training.USE_GLOBAL_STEP,
    update_ops: Any = None,
    variables_to_train: Any = None,
    clip_gradient_norm: float = 0,
    summarize_gradients: bool = False,
    gate_gradients: int = Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    gradient_multipliers: dict[Any, Any] | None = None,
    check_numerics: bool = True,
) -> Any:
    """Return a tensor that makes one step; see `tf.contrib.training.create_train_op`.

    Gradients are multiplied by `gradient_multipliers`, then each is shortened to
    `clip_gradient_norm`, if that is not 0.
    """

    def change(pairs: training.Pairs) -> training.Pairs:
        if gradient_multipliers:
            pairs = multiply_gradients(pairs, gradient_multipliers)
        if clip_gradient_norm > 0:
            pairs = clip_gradient_norms(pairs, clip_gradient_norm)
        return pairs

    return training.create_train_op(
        total_loss,
        optimizer,
        global_step,
        update_ops,
        variables_to_train,
        change,
        summarize_gradients,
        gate_gradients,
        aggregation_method,
        colocate_gradients_with_ops,
        check_numerics,
    )


def __getattr__(name: str) -> Any:
    refuse("contrib.slim.learning", name)
