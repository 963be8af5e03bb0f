"""`tensorflow.python.ops.data_flow_ops`: what `tf` has, and staging areas."""

from __future__ import annotations

from functools import partial

from kit import tf1
from kit.tf1.contrib.staging import StagingArea as StagingArea

__all__ = ["StagingArea"]

__getattr__ = partial(getattr, tf1)
