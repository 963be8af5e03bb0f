"""`tf.contrib.seq2seq`: the loss of sequences."""

from __future__ import annotations

from typing import Any

from kit.tf1.not_offered import refusing
from kit.tf1.ops.arithmetic import cast, divide
from kit.tf1.ops.nn_loss import sparse_softmax_cross_entropy_with_logits
from kit.tf1.ops.reduce import count_nonzero, reduce_sum
from kit.tf1.ops.shape import reshape
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.tensor.convert import convert_to_tensor, op_scope
from kit.tf1.tensor.dtypes import float32


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: Any = None,
    name: str | None = None,
) -> Any:
    """Return the weighted cross-entropy of sequences, averaged as the flags say.

    `logits` are [example, time, class], `targets` and `weights` [example, time]. A mean
    is the sum divided by that of the weights, a sum is divided by how many weights are
    not 0. Raises `ValueError` for other axes and for flags that contradict each other.
    """
    logits, targets, weights = map(convert_to_tensor, (logits, targets, weights))
    for what, tensor, rank in (("Logits", logits, 3), ("Targets", targets, 2)):
        if tensor.shape.ndims != rank:
            raise ValueError(f"{what} must be of {rank} axes, not {tensor.shape}.")
    if weights.shape.ndims != 2:
        raise ValueError(f"Weights must be of 2 axes, not {weights.shape}.")
    means = average_across_timesteps, average_across_batch
    sums = sum_over_timesteps, sum_over_batch
    if any(mean and add for mean in means for add in sums):
        raise ValueError("give averages or sums, not both of them.")
    of_each = softmax_loss_function or sparse_softmax_cross_entropy_with_logits
    with op_scope(name, "sequence_loss", [logits, targets, weights]):
        rows = reshape(logits, [-1, shape_of(logits)[2]])
        losses = of_each(labels=reshape(targets, [-1]), logits=rows)
        losses = reshape(losses * reshape(weights, [-1]), shape_of(logits)[:2])
        over = means if any(means) else sums
        axes = [axis for axis, is_over in ((1, over[0]), (0, over[1])) if is_over]
        if not axes:
            return losses
        count = cast(count_nonzero(weights, axis=axes), losses.dtype)
        total = reduce_sum(weights, axis=axes) if any(means) else count
        return divide(reduce_sum(losses, axis=axes), cast(total, losses.dtype) + _TINY)


# So that sequences without weight have the loss 0.
_TINY = float32.as_numpy_dtype(1e-12)

__getattr__ = refusing("contrib.seq2seq")
