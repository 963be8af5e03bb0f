"""The bench itself, with the kernel's TCP at both ends of it."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kit.errors import DeadlineExceededError, FailedPreconditionError
from kit.testing.task_process import until
from kit.wire import Stream, dial, listen
from kit.wire.listening.address import TcpAddress
from kit.wire.stream import read_some, wait_ready, write_all
from tests import zygote
from tests.net import netlab
from tests.net.netlab import ADDRESS, EmulatedWire


def soon() -> float:
    return time.monotonic() + 10.0


@contextmanager
def connected(wire: EmulatedWire) -> Iterator[tuple[Stream, Stream]]:
    """Give both ends of a plain TCP connection from a to b."""
    with ExitStack() as stack:
        where = TcpAddress(ADDRESS["b"], 0)
        listener = wire.call("b", lambda: listen(where, insecure=True))
        stack.callback(listener.close)
        near = wire.call("a", lambda: dial(listener.address, soon(), insecure=True))
        stack.callback(near.close)
        far = listener.accept()
        while far is None:
            far = listener.accept()
        stack.callback(far.close)
        yield near, far


def echo(near: Stream, far: Stream, data: bytes) -> float:
    """Send there and back; return the seconds it took."""
    room = bytearray(len(data))
    begin = time.monotonic()
    for source, target in ((near, far), (far, near)):
        write_all(source, [data], soon())
        done = 0
        while done < len(room):
            done += read_some(target, memoryview(room)[done:], soon())
        assert room == data
    return time.monotonic() - begin


@pytest.mark.net
def test_delay_is_felt_by_the_kernels_tcp() -> None:
    with EmulatedWire(seed=1) as wire, connected(wire) as (near, far):
        echo(near, far, b"warm")
        wire.delay_s = 0.05

        assert echo(near, far, b"x" * 100) >= 0.1


@pytest.mark.net
def test_tcp_repairs_what_the_line_loses_and_reorders() -> None:
    with EmulatedWire(seed=1) as wire, connected(wire) as (near, far):
        wire.loss, wire.jitter_s = 0.02, 0.001
        data = os.urandom(30_000)
        for _ in range(5):
            echo(near, far, data)

        assert wire.carried > 10


@pytest.mark.net
def test_nothing_comes_through_a_cut() -> None:
    with EmulatedWire(seed=1) as wire, connected(wire) as (near, far):
        echo(near, far, b"before")
        wire.cut_ab = True
        write_all(near, [b"into the void"], soon())
        with pytest.raises(DeadlineExceededError):
            wait_ready(far, select.POLLIN, time.monotonic() + 0.1)


def test_wire_that_cannot_be_made_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(netlab, "ip_command", lambda: None)

    with pytest.raises(FailedPreconditionError, match="iproute2"), EmulatedWire():
        raise AssertionError("it was made")


@pytest.mark.net
def test_what_is_asked_of_a_wire_that_is_closed_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(netlab, "N_THREADS", 1)
    has_begun, goes_on = threading.Event(), threading.Event()

    def wait() -> bool:
        has_begun.set()
        return goes_on.wait(10)

    with ThreadPoolExecutor(3) as pool, EmulatedWire(seed=1) as wire:
        under_way = pool.submit(wire.call, "a", wait)
        assert has_begun.wait(10)
        waiting = pool.submit(wire.call, "a", lambda: None)
        until(lambda: wire._ends["a"]._work_queue.qsize() == 1, 10)
        closing = pool.submit(wire.close)

        with pytest.raises(FailedPreconditionError, match="closed"):
            waiting.result(10)
        goes_on.set()
        closing.result(10)
        assert under_way.result(10)
        with pytest.raises(FailedPreconditionError, match="closed"):
            wire.call("a", lambda: None)


@pytest.mark.net
def test_a_socket_that_comes_too_late_is_closed() -> None:
    made, goes_on = list[socket.socket](), threading.Event()

    def make() -> socket.socket:
        goes_on.wait(10)
        made.append(socket.socket())
        return made[0]

    with EmulatedWire(seed=1) as wire:
        with pytest.raises(DeadlineExceededError, match="end a"):
            wire.call("a", make, timeout_s=0.01)
        goes_on.set()

    assert made[0].fileno() == -1


CODE = "import os, sys; print(os.readlink('/proc/self/ns/net'), 'kit' in sys.modules)"


def network(task: str = "self") -> str:
    return str(Path(f"/proc/{task}/ns/net").readlink())


def forked() -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CODE]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.net
@pytest.mark.slow
def test_a_program_is_forked_in_the_network_of_whoever_starts_it_first_or_later() -> (
    None
):
    zygote.zygote.end()
    with EmulatedWire(seed=1) as wire, zygote.forking():
        for end in ADDRESS:
            own = wire.call(end, lambda: network("thread-self"))
            program = wire.call(end, forked)
            assert program.communicate(timeout=60)[0] == f"{own} True\n"
            assert own != network()
        assert forked().communicate(timeout=60)[0] == f"{network()} True\n"
