"""The functions that make an engine a task: start, connect, stop.

They travel to the engines by name and import the server there, so that the notebook's
process does not need it. Tests use other functions.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_SERVER = "kit.server.engine"


@dataclass(frozen=True)
class Bootstrap:
    """Three functions that run on an engine.

    `start` gets job, index, credentials, transport, insecure, runtime_dir, settings,
    threads (of BLAS) and host (its address; empty if all tasks are on one host), and
    returns address, pid, the host's name and the names of its GPUs; after a restart it
    also gets the address. A worker gets gpus and its number_on_host too
    (`kit.server.cards`).
    `connect` gets the full spec, `{job: [address]}`.
    """

    start: Callable[[dict[str, Any]], dict[str, Any]]
    connect: Callable[[Mapping[str, list[str]]], object]
    stop: Callable[[], object]


def start_server(config: dict[str, Any]) -> dict[str, Any]:
    """Start this engine's server."""
    reply: dict[str, Any] = importlib.import_module(_SERVER).start(config)
    return reply


def connect_server(spec: Mapping[str, list[str]]) -> None:
    """Give this engine's server the addresses of all tasks."""
    importlib.import_module(_SERVER).connect(spec)


def stop_server() -> None:
    """Stop this engine's server."""
    importlib.import_module(_SERVER).stop()


SERVERS = Bootstrap(start_server, connect_server, stop_server)
