"""`tensorflow.python.ops.gen_state_ops`: what `tf` has, and temporary variables."""

from __future__ import annotations

from typing import Any

from kit import tf1
from kit.tf1.variables.assigning import (
    destroy_temporary_variable as destroy_temporary_variable,
)
from kit.tf1.variables.assigning import temporary_variable as temporary_variable

__all__ = ["destroy_temporary_variable", "temporary_variable"]


def __getattr__(name: str) -> Any:
    return getattr(tf1, name)
