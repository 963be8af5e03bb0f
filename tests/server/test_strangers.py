"""Somebody holds connections to a server open and says nothing.

When root runs the tests that is another user. Without this right it is a process of the
same user, which is harder: it has the same claim to the room as the owner's dials.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kit
from kit.task import Task
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.messages import Role
from kit.wire.listening.address import TcpAddress, UnixAddress
from tests.server.ports import free_ports

CLIENT = Task("client", 0)
N_SILENT, N_DIALS = 200, 30

# It changes its user after the start, so that user need not be able to read Python.
STRANGER = """
import os, select, socket, sys
family, where, uid = int(sys.argv[1]), eval(sys.argv[2]), int(sys.argv[3])
try:
    os.setresuid(uid, uid, uid)
except OSError:
    pass  # no right to, or no such user here
def knock():
    one = socket.socket(family)
    one.connect(where)
    return one
held = [knock() for _ in range(int(sys.argv[4]))]
print(os.getuid(), flush=True)
while not select.select([0], [], [], 0)[0]:
    for one in select.select(held, [], [], 0.02)[0]:
        held.remove(one)
        one.close()
        held.append(knock())
"""


@contextmanager
def stranger(address: TcpAddress | UnixAddress) -> Iterator[int]:
    """Hold silent connections, again and again; yields the stranger's user id."""
    if isinstance(address, TcpAddress):
        options = ["2", repr((address.host, address.port)), "65534"]
    else:  # another user cannot enter its folder
        options = ["1", repr(address.path), str(os.getuid())]
    command = [sys.executable, "-I", "-S", "-c", STRANGER, *options, str(N_SILENT)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        try:
            yield int(process.stdout.readline())
            assert process.poll() is None, "the stranger gave up"
        finally:
            process.stdin.close()


@pytest.mark.slow
@pytest.mark.parametrize("attacked", ["tcp", "unix"])
def test_strangers_who_say_nothing_lock_nobody_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, attacked: str
) -> None:
    transport = "tcp" if attacked == "tcp" else "auto"
    settings = kit.Settings(runtime_dir=str(tmp_path), transport=transport)
    (port,) = free_ports(1)
    spec = {"worker": [f"localhost:{port}"]}
    target: TcpAddress | UnixAddress = TcpAddress("127.0.0.1", port)
    waits_s: list[float] = []
    with kit.Server(spec, credentials=Credentials.new(), settings=settings) as server:
        if attacked == "unix":
            target = UnixAddress(str(next(tmp_path.glob("*.sock"))))
        with stranger(target) as uid:
            for _ in range(N_DIALS):
                begin = time.monotonic()
                dial = server.directory.dial
                with dial(server.task, CLIENT, Role.CONTROL, deadline_s=20) as link:
                    waits_s.append(time.monotonic() - begin)
                    assert link.transport == ("unix" if attacked == "unix" else "tls")

    print(f"{N_DIALS} dials, the slowest took {max(waits_s):.3f} s")
    refusals = [line for line in caplog.messages if "too many new conn" in line]
    assert f"of user {uid}" in refusals[0]
    assert len(caplog.messages) < 50
