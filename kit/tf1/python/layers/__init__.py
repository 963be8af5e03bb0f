"""`tensorflow.python.layers`: its modules; each is `tf.layers`, with their names."""

from kit.tf1 import layers as convolutional
from kit.tf1 import layers as core
from kit.tf1 import layers as layers
from kit.tf1 import layers as normalization
from kit.tf1 import layers as pooling
from kit.tf1.python.submodules import importable

__all__ = [
    "convolutional",
    "core",
    "layers",
    "normalization",
    "pooling",
]

importable(__name__, __all__)
