"""`tf.contrib.legacy_seq2seq`: sequences as lists, a tensor for each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kit.tf1.not_offered import refusing
from kit.tf1.ops.arithmetic import add_n, cast
from kit.tf1.ops.nn_loss import sparse_softmax_cross_entropy_with_logits
from kit.tf1.ops.reduce import reduce_sum
from kit.tf1.ops.shape import reshape
from kit.tf1.ops.shape import shape as shape_of
from kit.tf1.tensor.convert import convert_to_tensor, op_scope
from kit.tf1.variables.scopes import get_variable_scope, variable_scope


def sequence_loss_by_example(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    softmax_loss_function: Any = None,
    name: str | None = None,
) -> Any:
    """Return each example's weighted cross-entropy, averaged over the times.

    Raises `ValueError` for lists of different lengths.
    """
    if len({len(logits), len(targets), len(weights)}) != 1:
        raise ValueError(
            f"Lengths of logits, weights, and targets must be the same "
            f"{len(logits)}, {len(weights)}, {len(targets)}."
        )
    of_each = softmax_loss_function or sparse_softmax_cross_entropy_with_logits
    everything = [*logits, *targets, *weights]
    with op_scope(name, "sequence_loss_by_example", everything):
        triples = zip(logits, targets, map(convert_to_tensor, weights), strict=True)
        losses = add_n(
            [of_each(labels=reshape(y, [-1]), logits=x) * w for x, y, w in triples]
        )
        if not average_across_timesteps:
            return losses
        return losses / (
            add_n([convert_to_tensor(weight) for weight in weights]) + 1e-12
        )


def sequence_loss(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Any = None,
    name: str | None = None,
) -> Any:
    """Return the sum of `sequence_loss_by_example`, or the mean over the batch."""
    with op_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        losses = sequence_loss_by_example(
            logits,
            targets,
            weights,
            average_across_timesteps,
            softmax_loss_function,
        )
        cost = reduce_sum(losses)
        if not average_across_batch:
            return cost
        return cost / cast(shape_of(targets[0])[0], cost.dtype)


def rnn_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    cell: Any,
    loop_function: Callable[[Any, int], Any] | None = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Return the outputs for a list of inputs, one for each time, and the last state.

    `loop_function(output, time)` makes each input but the first of the output before.
    """
    state, outputs = initial_state, list[Any]()
    with variable_scope(scope or "rnn_decoder"):
        for time, step_input in enumerate(decoder_inputs):
            inputs = step_input
            if loop_function is not None and outputs:
                with variable_scope("loop_function", reuse=True):
                    inputs = loop_function(outputs[-1], time)
            if time:
                get_variable_scope().reuse_variables()
            output, state = cell(inputs, state)
            outputs.append(output)
    return outputs, state


__getattr__ = refusing("contrib.legacy_seq2seq")
