"""What each engine is asked to do so that it becomes a task: start, connect, stop.

The functions travel to the engines by name and import there, so that the notebook's
process needs no server. Tests put other functions in their place.
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

    `start` gets job, index, credentials, transport, insecure, runtime_dir, settings and
    host (its address; empty where all tasks are on one), and returns address, pid and
    the host's name; in the place of a lost process it gets the address too. `connect`
    gets the full spec, `{job: [address]}`.
    """

    start: Callable[[dict[str, Any]], dict[str, Any]]
    connect: Callable[[Mapping[str, list[str]]], object]
    stop: Callable[[], object]


def start_server(config: dict[str, Any]) -> dict[str, Any]:
    """Start this engine's server."""
    reply: dict[str, Any] = importlib.import_module(_SERVER).start(config)
    return reply


def connect_server(spec: Mapping[str, list[str]]) -> None:
    """Tell this engine's server where all tasks are."""
    importlib.import_module(_SERVER).connect(spec)


def stop_server() -> None:
    """Stop this engine's server."""
    importlib.import_module(_SERVER).stop()


SERVERS = Bootstrap(start_server, connect_server, stop_server)
