"""`tf.nn`: layers, activations and losses."""

from __future__ import annotations

from kit.tf1 import rnn_cell as rnn_cell
from kit.tf1.contrib import legacy_seq2seq
from kit.tf1.not_offered import names_of, refusing
from kit.tf1.public import offer

offer(
    __name__,
    "kit.tf1.ops.arithmetic",
    "kit.tf1.ops.blocks",
    "kit.tf1.ops.composed",
    "kit.tf1.ops.nn_activation",
    "kit.tf1.ops.nn_composed",
    "kit.tf1.ops.nn_conv",
    "kit.tf1.ops.nn_layer",
    "kit.tf1.ops.nn_loss",
    "kit.tf1.ops.reduce",
    "kit.tf1.ops.sparse",
    "kit.tf1.rnn.unroll",
    only=names_of("nn"),
)

seq2seq = legacy_seq2seq  # as before 1.0

__getattr__ = refusing("nn")
