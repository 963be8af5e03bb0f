"""`tensorflow.python.util`: texts and bytes of both Pythons."""

from kit.tf1 import compat as compat
from kit.tf1.python.submodules import importable

__all__ = [
    "compat",
]

importable(__name__, __all__)
