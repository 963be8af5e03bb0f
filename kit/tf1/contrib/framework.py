"""`tf.contrib.framework`: the global step under its older names."""

from __future__ import annotations

from kit.tf1.train import create_global_step as create_global_step
from kit.tf1.train import get_global_step as get_global_step
from kit.tf1.train import get_or_create_global_step as get_or_create_global_step

__all__ = ["create_global_step", "get_global_step", "get_or_create_global_step"]
