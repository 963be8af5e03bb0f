"""`tf.nn`: layers, activations and losses."""

from __future__ import annotations

from typing import Any

from kit.tf1 import rnn_cell as rnn_cell
from kit.tf1.contrib import legacy_seq2seq
from kit.tf1.not_offered import refuse
from kit.tf1.ops.arithmetic import sigmoid as sigmoid
from kit.tf1.ops.arithmetic import tanh as tanh
from kit.tf1.ops.composed import depth_to_space as depth_to_space
from kit.tf1.ops.composed import space_to_depth as space_to_depth
from kit.tf1.ops.nn_activation import elu as elu
from kit.tf1.ops.nn_activation import l2_loss as l2_loss
from kit.tf1.ops.nn_activation import leaky_relu as leaky_relu
from kit.tf1.ops.nn_activation import log_softmax as log_softmax
from kit.tf1.ops.nn_activation import relu as relu
from kit.tf1.ops.nn_activation import relu6 as relu6
from kit.tf1.ops.nn_activation import softmax as softmax
from kit.tf1.ops.nn_activation import softplus as softplus
from kit.tf1.ops.nn_activation import softsign as softsign
from kit.tf1.ops.nn_composed import avg_pool1d as avg_pool1d
from kit.tf1.ops.nn_composed import avg_pool_v2 as avg_pool_v2
from kit.tf1.ops.nn_composed import conv1d_transpose as conv1d_transpose
from kit.tf1.ops.nn_composed import conv_transpose as conv_transpose
from kit.tf1.ops.nn_composed import crelu as crelu
from kit.tf1.ops.nn_composed import log_poisson_loss as log_poisson_loss
from kit.tf1.ops.nn_composed import max_pool1d as max_pool1d
from kit.tf1.ops.nn_composed import max_pool_v2 as max_pool_v2
from kit.tf1.ops.nn_composed import selu as selu
from kit.tf1.ops.nn_composed import swish as swish
from kit.tf1.ops.nn_conv import atrous_conv2d as atrous_conv2d
from kit.tf1.ops.nn_conv import atrous_conv2d_transpose as atrous_conv2d_transpose
from kit.tf1.ops.nn_conv import conv1d as conv1d
from kit.tf1.ops.nn_conv import conv2d as conv2d
from kit.tf1.ops.nn_conv import conv2d_backprop_filter as conv2d_backprop_filter
from kit.tf1.ops.nn_conv import conv2d_backprop_input as conv2d_backprop_input
from kit.tf1.ops.nn_conv import conv2d_transpose as conv2d_transpose
from kit.tf1.ops.nn_conv import convolution as convolution
from kit.tf1.ops.nn_conv import depthwise_conv2d as depthwise_conv2d
from kit.tf1.ops.nn_conv import separable_conv2d as separable_conv2d
from kit.tf1.ops.nn_layer import avg_pool as avg_pool
from kit.tf1.ops.nn_layer import batch_normalization as batch_normalization
from kit.tf1.ops.nn_layer import bias_add as bias_add
from kit.tf1.ops.nn_layer import dropout as dropout
from kit.tf1.ops.nn_layer import embedding_lookup as embedding_lookup
from kit.tf1.ops.nn_layer import l2_normalize as l2_normalize
from kit.tf1.ops.nn_layer import (
    local_response_normalization as local_response_normalization,
)
from kit.tf1.ops.nn_layer import lrn as lrn
from kit.tf1.ops.nn_layer import max_pool as max_pool
from kit.tf1.ops.nn_layer import moments as moments
from kit.tf1.ops.nn_layer import relu_layer as relu_layer
from kit.tf1.ops.nn_layer import xw_plus_b as xw_plus_b
from kit.tf1.ops.nn_layer import zero_fraction as zero_fraction
from kit.tf1.ops.nn_loss import (
    sigmoid_cross_entropy_with_logits as sigmoid_cross_entropy_with_logits,
)
from kit.tf1.ops.nn_loss import (
    softmax_cross_entropy_with_logits as softmax_cross_entropy_with_logits,
)
from kit.tf1.ops.nn_loss import (
    softmax_cross_entropy_with_logits_v2 as softmax_cross_entropy_with_logits_v2,
)
from kit.tf1.ops.nn_loss import (
    sparse_softmax_cross_entropy_with_logits as sparse_softmax_cross_entropy_with_logits,  # noqa: E501
)
from kit.tf1.ops.nn_loss import (
    weighted_cross_entropy_with_logits as weighted_cross_entropy_with_logits,
)
from kit.tf1.ops.reduce import in_top_k as in_top_k
from kit.tf1.ops.reduce import top_k as top_k
from kit.tf1.ops.sparse import embedding_lookup_sparse as embedding_lookup_sparse
from kit.tf1.rnn.unroll import bidirectional_dynamic_rnn as bidirectional_dynamic_rnn
from kit.tf1.rnn.unroll import dynamic_rnn as dynamic_rnn
from kit.tf1.rnn.unroll import static_bidirectional_rnn as static_bidirectional_rnn
from kit.tf1.rnn.unroll import static_rnn as static_rnn

seq2seq = legacy_seq2seq  # as before 1.0


def __getattr__(name: str) -> Any:
    refuse("nn", name)
