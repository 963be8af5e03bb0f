"""What `session.list_devices()` tells of a device.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kit.session.master.devices import Device

# What the original says of every CPU; it is no measure of anything.
_NOMINAL_BYTES = 256 << 20


class DeviceAttributes(NamedTuple):
    """A device: full name, `CPU` or `GPU`, nominal memory, and its task's incarnation.

    The incarnation is a random number that changes when the task is restarted.
    """

    name: str
    device_type: str
    memory_limit_bytes: int
    incarnation: int


def attributes_of(devices: Sequence[tuple[Device, int]]) -> list[DeviceAttributes]:
    """Return devices and their incarnations as the original describes them."""
    return [
        DeviceAttributes(one.name, one.type, _NOMINAL_BYTES, incarnation)
        for one, incarnation in devices
    ]
