"""`tensorflow.python.ops`: its modules; each is `tf`, which has their names."""

from kit import tf1 as array_ops
from kit import tf1 as check_ops
from kit import tf1 as clip_ops
from kit import tf1 as gradients
from kit import tf1 as gradients_impl
from kit import tf1 as init_ops
from kit import tf1 as logging_ops
from kit import tf1 as lookup_ops
from kit import tf1 as math_ops
from kit import tf1 as partitioned_variables
from kit import tf1 as random_ops
from kit import tf1 as resource_variable_ops
from kit import tf1 as script_ops
from kit import tf1 as sparse_ops
from kit import tf1 as standard_ops
from kit import tf1 as state_ops
from kit import tf1 as string_ops
from kit import tf1 as variable_scope
from kit import tf1 as variables
from kit.tf1 import image as image_ops
from kit.tf1 import nn as embedding_ops
from kit.tf1 import nn as nn
from kit.tf1 import nn as nn_impl
from kit.tf1 import nn as nn_ops
from kit.tf1 import nn as rnn
from kit.tf1 import rnn_cell as rnn_cell
from kit.tf1 import rnn_cell as rnn_cell_impl
from kit.tf1.python.ops import control_flow_ops as control_flow_ops
from kit.tf1.python.ops import data_flow_ops as data_flow_ops
from kit.tf1.python.submodules import importable

__all__ = [
    "array_ops",
    "check_ops",
    "clip_ops",
    "control_flow_ops",
    "data_flow_ops",
    "embedding_ops",
    "gradients",
    "gradients_impl",
    "image_ops",
    "init_ops",
    "logging_ops",
    "lookup_ops",
    "math_ops",
    "nn",
    "nn_impl",
    "nn_ops",
    "partitioned_variables",
    "random_ops",
    "resource_variable_ops",
    "rnn",
    "rnn_cell",
    "rnn_cell_impl",
    "script_ops",
    "sparse_ops",
    "standard_ops",
    "state_ops",
    "string_ops",
    "variable_scope",
    "variables",
]

importable(__name__, __all__)
