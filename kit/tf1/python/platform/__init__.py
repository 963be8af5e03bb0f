"""`tensorflow.python.platform`: modules that `tf` itself has too, where they lie."""

from kit.tf1 import app as app
from kit.tf1 import flags as flags
from kit.tf1 import gfile as gfile
from kit.tf1 import logging as tf_logging

__all__ = ["app", "flags", "gfile", "tf_logging"]
