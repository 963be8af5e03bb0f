"""`tensorflow.python.platform`: modules that `tf` itself has too, where they lie."""

from kit.tf1 import app as app
from kit.tf1 import flags as flags
from kit.tf1 import gfile as gfile
from kit.tf1 import logging as tf_logging
from kit.tf1.python.submodules import importable

__all__ = [
    "app",
    "flags",
    "gfile",
    "tf_logging",
]

importable(__name__, __all__)
