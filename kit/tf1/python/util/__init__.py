"""`tensorflow.python.util`: texts and bytes of both Pythons."""

from kit.tf1 import compat as compat
from kit.tf1.not_offered import refusing
from kit.tf1.python.submodules import alias

alias(__name__, compat, "compat")

__getattr__ = refusing("python.util")
