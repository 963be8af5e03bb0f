"""The parts of neural networks beyond numpy: activations, layers, losses.

Each function adds ops to the graph of its tensors and computes nothing; most accept
anything that can be a tensor. Images are [image, row, column, channel].

    hidden = kit.nn.relu(x @ w + b)
    loss = np.mean(kit.nn.sparse_softmax_cross_entropy(labels, hidden @ v))
"""

from __future__ import annotations

from kit.graph.ops.nn.activations import elu as elu
from kit.graph.ops.nn.activations import leaky_relu as leaky_relu
from kit.graph.ops.nn.activations import relu as relu
from kit.graph.ops.nn.activations import relu6 as relu6
from kit.graph.ops.nn.activations import sigmoid as sigmoid
from kit.graph.ops.nn.activations import softplus as softplus
from kit.graph.ops.nn.embedding import dynamic_partition as dynamic_partition
from kit.graph.ops.nn.embedding import dynamic_stitch as dynamic_stitch
from kit.graph.ops.nn.embedding import embedding_lookup as embedding_lookup
from kit.graph.ops.nn.images import avg_pool as avg_pool
from kit.graph.ops.nn.images import conv2d as conv2d
from kit.graph.ops.nn.images import max_pool as max_pool
from kit.graph.ops.nn.layers import bias_add as bias_add
from kit.graph.ops.nn.layers import dropout as dropout
from kit.graph.ops.nn.layers import l2_loss as l2_loss
from kit.graph.ops.nn.softmax import log_softmax as log_softmax
from kit.graph.ops.nn.softmax import sigmoid_cross_entropy as sigmoid_cross_entropy
from kit.graph.ops.nn.softmax import softmax as softmax
from kit.graph.ops.nn.softmax import softmax_cross_entropy as softmax_cross_entropy
from kit.graph.ops.nn.softmax import (
    sparse_softmax_cross_entropy as sparse_softmax_cross_entropy,
)

__all__ = [
    "avg_pool",
    "bias_add",
    "conv2d",
    "dropout",
    "dynamic_partition",
    "dynamic_stitch",
    "elu",
    "embedding_lookup",
    "l2_loss",
    "leaky_relu",
    "log_softmax",
    "max_pool",
    "relu",
    "relu6",
    "sigmoid",
    "sigmoid_cross_entropy",
    "softmax",
    "softmax_cross_entropy",
    "softplus",
    "sparse_softmax_cross_entropy",
]
