"""`tf.nn`: layers, activations and losses."""

from __future__ import annotations

from kit.tf1 import rnn_cell as rnn_cell
from kit.tf1.contrib import legacy_seq2seq
from kit.tf1.not_offered import refusing
from kit.tf1.ops.arithmetic import sigmoid as sigmoid
from kit.tf1.ops.arithmetic import tanh as tanh
from kit.tf1.ops.blocks import space_to_batch as space_to_batch
from kit.tf1.ops.composed import depth_to_space as depth_to_space
from kit.tf1.ops.composed import space_to_depth as space_to_depth
from kit.tf1.ops.reduce import in_top_k as in_top_k
from kit.tf1.ops.reduce import top_k as top_k
from kit.tf1.ops.sparse import embedding_lookup_sparse as embedding_lookup_sparse
from kit.tf1.public import offer

offer(
    __name__,
    "kit.tf1.ops.nn_activation",
    "kit.tf1.ops.nn_composed",
    "kit.tf1.ops.nn_conv",
    "kit.tf1.ops.nn_layer",
    "kit.tf1.ops.nn_loss",
    "kit.tf1.rnn.unroll",
)

seq2seq = legacy_seq2seq  # as before 1.0

__getattr__ = refusing("nn")
