"""`tf.contrib.training`: which parameter server gets the next variable."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kit.devices import load_balancing
from kit.devices.load_balancing import (
    GreedyLoadBalancingStrategy as GreedyLoadBalancingStrategy,
)
from kit.devices.load_balancing import RandomStrategy as RandomStrategy

__all__ = ["GreedyLoadBalancingStrategy", "RandomStrategy", "byte_size_load_fn"]


def byte_size_load_fn(op: Any) -> int:
    """Return the bytes of an operation's only output; a scalar is one element.

    Raises `ValueError` if it has not one output, or its shape is not fully known.
    """
    outputs = [one.static for one in op.outputs]
    return load_balancing.byte_size_load_fn(
        SimpleNamespace(name=op.name, type=op.type, device=op.device, outputs=outputs)
    )
