"""`tensorflow.python.layers`: its modules; each is `tf.layers`, with their names."""

from typing import Any

from kit.tf1 import layers as layers
from kit.tf1.not_offered import refuse
from kit.tf1.python.submodules import alias

alias(__name__, layers, "convolutional core layers normalization pooling")


def __getattr__(name: str) -> Any:
    refuse("python.layers", name)
