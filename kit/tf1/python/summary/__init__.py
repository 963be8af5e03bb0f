"""`tensorflow.python.summary`: its module is `tf.summary`."""

from kit.tf1 import summary as summary
from kit.tf1.python.submodules import importable

__all__ = [
    "summary",
]

importable(__name__, __all__)
