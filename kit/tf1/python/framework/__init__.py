"""`tensorflow.python.framework`: its modules; each is `tf`, which has their names."""

from kit import tf1 as constant_op
from kit import tf1 as dtypes
from kit import tf1 as ops
from kit import tf1 as random_seed
from kit import tf1 as sparse_tensor
from kit import tf1 as tensor_shape
from kit.tf1 import errors as errors

__all__ = [
    "constant_op",
    "dtypes",
    "errors",
    "ops",
    "random_seed",
    "sparse_tensor",
    "tensor_shape",
]
