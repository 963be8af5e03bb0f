"""`tensorflow.python.ops`: its modules; each is `tf`, which has their names."""

from kit import tf1
from kit.tf1 import image
from kit.tf1 import nn as nn
from kit.tf1 import rnn_cell as rnn_cell
from kit.tf1.not_offered import refusing
from kit.tf1.python.ops import control_flow_ops as control_flow_ops
from kit.tf1.python.ops import data_flow_ops as data_flow_ops
from kit.tf1.python.ops import gen_state_ops as gen_state_ops
from kit.tf1.python.submodules import alias

alias(
    __name__,
    tf1,
    """
    array_ops check_ops clip_ops gradients gradients_impl init_ops logging_ops
    lookup_ops math_ops partitioned_variables random_ops resource_variable_ops
    script_ops sparse_ops standard_ops state_ops string_ops variable_scope
    variables
    """,
)
alias(__name__, image, "image_ops")
alias(__name__, nn, "embedding_ops nn nn_impl nn_ops rnn")
alias(__name__, rnn_cell, "rnn_cell rnn_cell_impl")

__getattr__ = refusing("python.ops")
