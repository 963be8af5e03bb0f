"""`tensorflow.core`: the numbers of types, which programs import from inside."""

from kit.tf1.core import framework as framework

__all__ = ["framework"]
