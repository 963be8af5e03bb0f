"""Ports of the loopback interface that nobody uses now."""

from __future__ import annotations

import itertools
import os
import socket
from contextlib import ExitStack

# Below the ports that a system gives away by itself, to connections for example: until
# a test binds what it got here, nobody else does. Each process of a suite has its own.
_FIRST, _COUNT = 20_000, 1_000
_process = (
    int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 10
)  # "gw" and a number
_begin = os.getpid()  # two suites at a time do not begin with the same ones
_next = itertools.cycle(
    _FIRST + _COUNT * _process + (_begin + number) % _COUNT for number in range(_COUNT)
)


def free_ports(count: int) -> list[int]:
    """Return so many different ports; all are bound at once, then let go."""
    with ExitStack() as stack:
        result: list[int] = []
        while len(result) < count:
            probe, port = stack.enter_context(socket.socket()), next(_next)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            result.append(port)
        return result


def spec_of(n_ps: int, n_workers: int) -> dict[str, list[str]]:
    """Return a cluster on free ports of this machine."""
    addresses = [f"localhost:{port}" for port in free_ports(n_ps + n_workers)]
    return {"ps": addresses[:n_ps], "worker": addresses[n_ps:]}
