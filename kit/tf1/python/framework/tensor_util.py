"""`tensorflow.python.framework.tensor_util`: messages of constants, static values."""

from kit.tf1.tensor.proto import constant_value_as_shape as constant_value_as_shape
from kit.tf1.tensor.proto import get_static_value as constant_value
from kit.tf1.tensor.proto import is_tensor as is_tensor
from kit.tf1.tensor.proto import make_ndarray as MakeNdarray
from kit.tf1.tensor.proto import make_tensor_proto as make_tensor_proto

__all__ = [
    "MakeNdarray",
    "constant_value",
    "constant_value_as_shape",
    "is_tensor",
    "make_tensor_proto",
]
