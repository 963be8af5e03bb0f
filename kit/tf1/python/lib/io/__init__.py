"""`tensorflow.python.lib.io`: files, by the names inside of the original."""

from kit.tf1 import python_io as tf_record
from kit.tf1.python.lib.io import file_io as file_io
from kit.tf1.python.submodules import importable

__all__ = ["file_io", "tf_record"]

importable(__name__, ["tf_record"])
