"""The server of an engine that takes the address of a process before it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.errors import AddressInUse
from kit.server import engine
from kit.settings import Settings
from kit.wire.handshake.credentials import Credentials


@pytest.fixture
def before() -> Iterator[socket.socket]:
    """The port of a process that was lost and has not ended yet."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield sock


def config(folder: Path, before: socket.socket) -> dict[str, Any]:
    return {
        "job": "worker",
        "index": 0,
        "runtime_dir": str(folder),
        "transport": "tcp",
        "insecure": False,
        "settings": Settings().as_plain(),
        "credentials": Credentials.new().to_plain(),
        "address": f"127.0.0.1:{before.getsockname()[1]}",
    }


def test_port_of_a_process_that_is_ending_is_waited_for(
    tmp_path: Path, before: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = config(tmp_path, before)
    looks: list[float] = []

    def look(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            before.close()

    monkeypatch.setattr("kit.server.engine.time.sleep", look)

    reply = engine.start(asked)

    engine.stop()
    assert reply["address"] == asked["address"]
    assert len(looks) >= 3


def test_port_that_another_process_keeps_is_told_after_the_deadline(
    tmp_path: Path, before: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "LEAVE_S", 0.05)

    with pytest.raises(AddressInUse, match="is taken"):
        engine.start(config(tmp_path, before))
