"""`tf.contrib.slim`: the layers of `tf.contrib.layers`, and the lists of variables."""

from __future__ import annotations

from kit.tf1.contrib import layers as layers
from kit.tf1.contrib import learning as learning
from kit.tf1.contrib import losses as losses
from kit.tf1.contrib import named_outputs, regularizers
from kit.tf1.contrib import prefetch_queue as prefetch_queue
from kit.tf1.contrib.layers import linear as linear
from kit.tf1.contrib.layers import relu as relu
from kit.tf1.not_offered import refusing
from kit.tf1.public import offer
from kit.tf1.variables import variable_lists

offer(
    __name__,
    "kit.tf1.contrib.arg_scope",
    "kit.tf1.contrib.layers",
    "kit.tf1.contrib.regularizers",
    "kit.tf1.contrib.restoring",
    "kit.tf1.train.global_step",
    without=["assert_global_step", "global_step", "has_arg_scope"],
)

utils, initializers = named_outputs, regularizers
get_variables = variable_lists.global_variables
get_model_variables = variable_lists.model_variables
get_trainable_variables = variable_lists.trainable_variables

__getattr__ = refusing("contrib.slim")
