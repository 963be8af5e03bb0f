"""One process of a rank group: it does what it is told on its line until the line ends.

Needs nothing but the standard library, so a peer's own environment can run it.
"""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.rank_group import Line

Handlers = Mapping[str, Callable[..., Any]]


def obey(rank: int, handlers: Handlers) -> None:
    """Answer orders: `{"do": name, ...}` calls the handler with the rest.

    The first message of the line tells the benchmark who is here. An error is sent back
    as text and ends nothing.
    """
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(os.environ["BENCH_LINE"])
        line = Line(sock)
        line.write({"rank": rank})
        while True:
            try:
                order = line.read(None)
            except (OSError, ValueError):
                return
            try:
                line.write({"result": handlers[order.pop("do")](**order)})
            except Exception:
                line.write({"error": traceback.format_exc()})
