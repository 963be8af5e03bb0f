"""`device_lib`: the devices of this process."""

from __future__ import annotations

from typing import Any, NamedTuple

from kit.tf1.graph.graph import Graph
from kit.tf1.session.session import Session


class LocalDevice(NamedTuple):
    """A device, as `/device:GPU:0`; what it is made of is not described."""

    name: str
    device_type: str
    memory_limit: int
    incarnation: int
    physical_device_desc: str = ""


def list_local_devices(session_config: Any = None) -> list[LocalDevice]:
    """Return the devices that a session without a target has."""
    with Session(graph=Graph(), config=session_config) as session:
        return [
            LocalDevice(f"/device:{device.name.split('/device:')[1]}", *device[1:])
            for device in session.list_devices()
        ]
