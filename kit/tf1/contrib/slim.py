"""`tf.contrib.slim`: the layers of `tf.contrib.layers`, and the lists of variables."""

from __future__ import annotations

from typing import Any

from kit.tf1.contrib import layers as layers
from kit.tf1.contrib import learning as learning
from kit.tf1.contrib import losses as losses
from kit.tf1.contrib import named_outputs as utils
from kit.tf1.contrib import prefetch_queue as prefetch_queue
from kit.tf1.contrib import regularizers as initializers
from kit.tf1.contrib import regularizers as regularizers
from kit.tf1.contrib.arg_scope import add_arg_scope as add_arg_scope
from kit.tf1.contrib.arg_scope import arg_scope as arg_scope
from kit.tf1.contrib.layers import add_model_variable as add_model_variable
from kit.tf1.contrib.layers import avg_pool2d as avg_pool2d
from kit.tf1.contrib.layers import batch_norm as batch_norm
from kit.tf1.contrib.layers import bias_add as bias_add
from kit.tf1.contrib.layers import conv2d as conv2d
from kit.tf1.contrib.layers import dropout as dropout
from kit.tf1.contrib.layers import flatten as flatten
from kit.tf1.contrib.layers import fully_connected as fully_connected
from kit.tf1.contrib.layers import l1_regularizer as l1_regularizer
from kit.tf1.contrib.layers import l2_regularizer as l2_regularizer
from kit.tf1.contrib.layers import linear as linear
from kit.tf1.contrib.layers import max_pool2d as max_pool2d
from kit.tf1.contrib.layers import model_variable as model_variable
from kit.tf1.contrib.layers import one_hot_encoding as one_hot_encoding
from kit.tf1.contrib.layers import relu as relu
from kit.tf1.contrib.layers import repeat as repeat
from kit.tf1.contrib.layers import separable_conv2d as separable_conv2d
from kit.tf1.contrib.layers import softmax as softmax
from kit.tf1.contrib.layers import stack as stack
from kit.tf1.contrib.layers import variable as variable
from kit.tf1.contrib.layers import (
    variance_scaling_initializer as variance_scaling_initializer,
)
from kit.tf1.contrib.layers import xavier_initializer as xavier_initializer
from kit.tf1.contrib.restoring import assign_from_checkpoint as assign_from_checkpoint
from kit.tf1.contrib.restoring import (
    assign_from_checkpoint_fn as assign_from_checkpoint_fn,
)
from kit.tf1.contrib.restoring import (
    get_variables_to_restore as get_variables_to_restore,
)
from kit.tf1.not_offered import refuse
from kit.tf1.train import create_global_step as create_global_step
from kit.tf1.train import get_global_step as get_global_step
from kit.tf1.train import get_or_create_global_step as get_or_create_global_step
from kit.tf1.variables.variable_lists import global_variables as get_variables
from kit.tf1.variables.variable_lists import model_variables as get_model_variables
from kit.tf1.variables.variable_lists import (
    trainable_variables as get_trainable_variables,
)

__all__ = [
    "add_arg_scope",
    "add_model_variable",
    "arg_scope",
    "assign_from_checkpoint",
    "assign_from_checkpoint_fn",
    "avg_pool2d",
    "batch_norm",
    "bias_add",
    "conv2d",
    "create_global_step",
    "dropout",
    "flatten",
    "fully_connected",
    "get_global_step",
    "get_model_variables",
    "get_or_create_global_step",
    "get_trainable_variables",
    "get_variables",
    "get_variables_to_restore",
    "initializers",
    "l1_regularizer",
    "l2_regularizer",
    "layers",
    "learning",
    "linear",
    "losses",
    "max_pool2d",
    "model_variable",
    "one_hot_encoding",
    "prefetch_queue",
    "regularizers",
    "relu",
    "repeat",
    "separable_conv2d",
    "softmax",
    "stack",
    "utils",
    "variable",
    "variance_scaling_initializer",
    "xavier_initializer",
]


def __getattr__(name: str) -> Any:
    refuse("contrib.slim", name)
