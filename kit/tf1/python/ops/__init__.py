"""`tensorflow.python.ops`: its modules; each is `tf`, which has their names."""

from kit import tf1 as array_ops
from kit import tf1 as clip_ops
from kit import tf1 as control_flow_ops
from kit import tf1 as data_flow_ops
from kit import tf1 as init_ops
from kit import tf1 as logging_ops
from kit import tf1 as math_ops
from kit import tf1 as random_ops
from kit import tf1 as script_ops
from kit import tf1 as state_ops
from kit import tf1 as variable_scope
from kit import tf1 as variables
from kit.tf1 import nn as nn
from kit.tf1 import nn as nn_ops

__all__ = [
    "array_ops",
    "clip_ops",
    "control_flow_ops",
    "data_flow_ops",
    "init_ops",
    "logging_ops",
    "math_ops",
    "nn",
    "nn_ops",
    "random_ops",
    "script_ops",
    "state_ops",
    "variable_scope",
    "variables",
]
