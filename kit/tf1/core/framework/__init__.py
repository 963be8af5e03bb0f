"""`tensorflow.core.framework`: the numbers of types."""

from kit.tf1.core.framework import types_pb2 as types_pb2
