"""`tf.math`: operations on numbers, under the names of the last releases."""

from __future__ import annotations

from kit.tf1.not_offered import refusing
from kit.tf1.ops.arithmetic import abs as abs
from kit.tf1.ops.composed import confusion_matrix as confusion_matrix
from kit.tf1.ops.nn_activation import log_softmax as log_softmax
from kit.tf1.ops.nn_activation import softmax as softmax
from kit.tf1.ops.nn_activation import softplus as softplus
from kit.tf1.ops.nn_activation import softsign as softsign
from kit.tf1.ops.nn_layer import l2_normalize as l2_normalize
from kit.tf1.ops.nn_layer import zero_fraction as zero_fraction
from kit.tf1.public import offer

offer(
    __name__,
    "kit.tf1.ops.arithmetic",
    "kit.tf1.ops.numbers",
    "kit.tf1.ops.reduce",
    "kit.tf1.ops.segment",
    without=[
        "reduction",
        "TopKV2",
        "arg_max",
        "arg_min",
        "bitcast",
        "cast",
        "complex",
        "div",
        "floor_div",
        "identity",
        "matmul",
        "norm",
        "realdiv",
        "saturate_cast",
        "sparse_segment_mean",
        "sparse_segment_sqrt_n",
        "sparse_segment_sum",
        "stop_gradient",
        "to_bfloat16",
        "to_complex128",
        "to_complex64",
        "to_double",
        "to_float",
        "to_int32",
        "to_int64",
        "truncatediv",
        "truncatemod",
    ],
)

__getattr__ = refusing("math")
