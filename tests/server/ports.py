"""Ports of the loopback interface that nobody uses now."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """Return so many different ports; all are bound at once, then let go."""
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            probe = stack.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            found.append(int(probe.getsockname()[1]))
        return found


def spec_of(n_ps: int, n_workers: int) -> dict[str, list[str]]:
    """Return a cluster on free ports of this machine."""
    addresses = [f"localhost:{port}" for port in free_ports(n_ps + n_workers)]
    return {"ps": addresses[:n_ps], "worker": addresses[n_ps:]}
