"""`tensorflow.python.framework`: its modules; each is `tf`, which has their names."""

from kit import tf1
from kit.tf1 import errors as errors
from kit.tf1 import graph_util as graph_util
from kit.tf1.not_offered import refusing
from kit.tf1.python.framework import device as device
from kit.tf1.python.framework import tensor_util as tensor_util
from kit.tf1.python.submodules import alias

alias(__name__, tf1, "constant_op dtypes ops random_seed sparse_tensor")
alias(__name__, tf1, "tensor_shape")
alias(__name__, errors, "errors errors_impl")
alias(__name__, graph_util, "graph_util")

__getattr__ = refusing("python.framework")
