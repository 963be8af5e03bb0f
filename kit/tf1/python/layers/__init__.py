"""`tensorflow.python.layers`: its modules; each is `tf.layers`, with their names."""

from kit.tf1 import layers as layers
from kit.tf1.not_offered import refusing
from kit.tf1.python.submodules import alias

alias(__name__, layers, "convolutional core layers normalization pooling")

__getattr__ = refusing("python.layers")
