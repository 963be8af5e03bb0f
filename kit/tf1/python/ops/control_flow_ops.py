"""`tensorflow.python.ops.control_flow_ops`: what `tf` has, and its own function."""

from __future__ import annotations

from functools import partial
from typing import Any

from kit import tf1

__all__ = ["with_dependencies"]


def with_dependencies(
    dependencies: Any, output_tensor: Any, name: str | None = None
) -> Any:
    """Return the value of a tensor, once operations have run."""
    values = [*dependencies, output_tensor]
    with (
        tf1.name_scope(name, "control_dependency", values) as scope,
        tf1.colocate_with(output_tensor),
        tf1.control_dependencies(dependencies),
    ):
        return tf1.identity(output_tensor, name=scope)


__getattr__ = partial(getattr, tf1)
