"""`tensorflow.python.ops.gen_state_ops`: what `tf` has, and temporary variables."""

from __future__ import annotations

from functools import partial

from kit import tf1
from kit.tf1.variables.assigning import (
    destroy_temporary_variable as destroy_temporary_variable,
)
from kit.tf1.variables.assigning import temporary_variable as temporary_variable

__all__ = ["destroy_temporary_variable", "temporary_variable"]

__getattr__ = partial(getattr, tf1)
