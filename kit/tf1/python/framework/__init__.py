"""`tensorflow.python.framework`: its modules; each is `tf`, which has their names."""

from kit import tf1 as constant_op
from kit import tf1 as device
from kit import tf1 as dtypes
from kit import tf1 as ops
from kit import tf1 as random_seed
from kit import tf1 as sparse_tensor
from kit import tf1 as tensor_shape
from kit.tf1 import errors as errors
from kit.tf1 import errors as errors_impl
from kit.tf1 import graph_util as graph_util
from kit.tf1.python.framework import tensor_util as tensor_util
from kit.tf1.python.submodules import importable

__all__ = [
    "constant_op",
    "device",
    "dtypes",
    "errors",
    "errors_impl",
    "graph_util",
    "ops",
    "random_seed",
    "sparse_tensor",
    "tensor_shape",
    "tensor_util",
]

importable(__name__, __all__)
