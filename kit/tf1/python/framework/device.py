"""`tensorflow.python.framework.device`: names of devices, and what `tf` has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kit import tf1
from kit.devices.device import DeviceSpec

__all__ = ["canonical_name", "check_valid", "merge_device"]


def canonical_name(device: Any) -> str:
    """Return a device's name with its parts in the usual order; '' for None."""
    if device is None:
        return ""
    return str(_spec(device).to_string())


def check_valid(spec: str) -> None:
    """Raise `ValueError` for a text that is no name of a device."""
    DeviceSpec.from_string(spec)


def merge_device(spec: Any) -> Callable[[Any], str]:
    """Return a function for `tf.device` that adds what an operation's device lacks."""
    device = _spec(spec or "")

    def merged(op: Any) -> str:
        current = DeviceSpec.from_string(op.device or "")
        return str(device.make_merged_spec(current).to_string())

    return merged


def _spec(device: Any) -> Any:
    return DeviceSpec.from_string(device) if isinstance(device, str) else device


__getattr__ = partial(getattr, tf1)
