"""`tensorflow.python.ops.data_flow_ops`: what `tf` has, and staging areas."""

from __future__ import annotations

from typing import Any

from kit import tf1
from kit.tf1.contrib.staging import StagingArea as StagingArea

__all__ = ["StagingArea"]


def __getattr__(name: str) -> Any:
    return getattr(tf1, name)
