"""Both systems do the same, as far as both can be tried on Linux."""

from __future__ import annotations

import inspect
import mmap
import os
import select
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

import kit.system
from kit.system import linux, posix
from tests.cases import for_each
from tests.source import ROOT

SYSTEMS = [linux, posix]
Pair = tuple[socket.socket, socket.socket]
each_system = for_each("system", SYSTEMS, [m.__name__ for m in SYSTEMS])


@pytest.fixture
def pair() -> Iterator[Pair]:
    near, far = socket.socketpair()
    with near, far:
        yield near, far


def test_both_systems_offer_the_same_functions() -> None:
    names = {name for name in vars(kit.system) if not name.startswith("_")}
    names -= {"annotations", "os", "sys", "linux", "posix", "TYPE_CHECKING"}

    assert len(names) > 15
    for name in names:
        ours, theirs = vars(linux)[name], vars(posix)[name]
        if inspect.isclass(ours):
            public = {key for key in vars(ours) if key[0] != "_"}
            assert public == {key for key in vars(theirs) if key[0] != "_"}
        elif callable(ours):
            assert inspect.signature(ours) == inspect.signature(theirs)


def is_ready(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])


@each_system
def test_a_bell_rings_until_it_is_answered(system: ModuleType) -> None:
    with closing(system.Bell()) as bell:
        assert not is_ready(bell.fd)
        for _ in range(3):
            system.ring(bell.handle)
        assert is_ready(bell.fd)
        bell.answer()
        assert not is_ready(bell.fd)
        bell.answer()  # nothing has rung
        system.ring(bell.handle)
        assert is_ready(bell.fd)


@each_system
def test_a_bell_that_nobody_answers_or_that_is_closed_holds_nobody_up(
    system: ModuleType,
) -> None:
    bell = system.Bell()
    handle = os.dup(bell.handle)
    for _ in range(10_000):
        system.ring(handle)
    bell.answer()
    assert not is_ready(bell.fd)

    bell.close()
    system.ring(handle)
    os.close(handle)


@each_system
def test_new_memory_is_zeros_is_shared_and_has_no_name(system: ModuleType) -> None:
    fd = system.new_memory("a/name", 10_000)
    try:
        assert (os.fstat(fd).st_size, os.fstat(fd).st_nlink) == (10_000, 0)
        assert not os.get_inheritable(fd)
        assert system.why_unsafe(fd) == ""
        first, other = mmap.mmap(fd, 10_000), mmap.mmap(fd, 10_000)
        assert first[:] == bytes(10_000)
        first[5:8] = b"abc"
        assert other[5:8] == b"abc"
    finally:
        os.close(fd)


@each_system
def test_what_may_change_its_size_or_is_no_memory_is_not_safe(
    system: ModuleType, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(10))
    for path in (file, Path(os.devnull)):
        with path.open("rb") as opened:
            assert system.why_unsafe(opened.fileno())


@each_system
def test_memory_of_an_impossible_size_is_refused_and_leaves_nothing(
    system: ModuleType,
) -> None:
    before = {*Path("/proc/self/fd").iterdir()}
    for size in (1 << 63, 1 << 64):
        with pytest.raises((OSError, OverflowError)):
            system.new_memory("much", size)
    assert {*Path("/proc/self/fd").iterdir()} == before


@each_system
def test_a_path_leads_to_what_was_written_and_is_gone_afterwards(
    system: ModuleType,
) -> None:
    with system.path_of("secret") as (fd, path):
        os.write(fd, b"of us alone")
        assert Path(path).read_bytes() == b"of us alone"
        if system is posix:  # on Linux the way to it is closed, not its mode
            assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
        assert Path(path).stat().st_uid == os.geteuid()
    assert not Path(path).exists()


@each_system
def test_the_end_of_a_connection_is_seen(system: ModuleType) -> None:
    near, far = socket.socketpair()
    with near:
        assert not system.has_hung_up(near.fileno())
        far.close()
        assert system.has_hung_up(near.fileno())


@each_system
def test_bytes_are_no_end(system: ModuleType, pair: Pair) -> None:
    near, far = pair
    far.send(b"more")
    assert not system.has_hung_up(near.fileno())
    assert near.recv(10) == b"more"  # looking has taken nothing


@each_system
def test_each_end_is_told_once_among_others_that_go_on(
    system: ModuleType, pair: Pair
) -> None:
    near, far = socket.socketpair()
    ends = system.HangUps()
    with near, closing(ends):
        for sock in (*pair, near):
            ends.add(sock.fileno())
        pair[1].send(b"more")
        threading.Timer(0.02, far.close).start()
        assert ends.wait() == [near.fileno()]
        threading.Timer(0.02, ends.wake).start()
        assert ends.wait() == []


@each_system
def test_the_user_at_the_other_end_is_named(system: ModuleType, pair: Pair) -> None:
    assert system.peer_uid(pair[0]) == os.geteuid()


@each_system
def test_tcp_takes_all_options(system: ModuleType) -> None:
    with socket.socket() as sock:
        for option, value in system.tcp_options(5.0):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
            assert sock.getsockopt(socket.IPPROTO_TCP, option) == value
        system.outlast(sock, 3)
        system.send_unpaced(sock)


@each_system
def test_a_machine_knows_itself(system: ModuleType) -> None:
    assert system.machine_id() == system.machine_id() != ""
    assert system.pid_namespace() == system.pid_namespace()
    assert len(system.cpus()) >= 1


QUICK = (
    "tests/exchange/test_port_contract.py",
    "tests/exchange/test_bit_identity.py",
    "tests/exchange/test_native_executor.py",
    "tests/wire/test_links.py",
    "tests/wire/test_streams.py",
    "tests/wire/test_tls.py",
    "tests/session/test_late_ends.py",
)
TRAINING = """
import kit
from kit.demo.digits import digits_mlp

with kit.Cluster(ps=1, worker=2) as cluster:
    model = digits_mlp(seed=0)
    run = kit.train(model.step, model.params, model.train, topology="ring", steps=20)
    run.wait()
    print("trained to step", run.step)
"""


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "KIT_SYSTEM": "posix", "PSRING_NO_ZYGOTE": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_quick_tests_pass_with_the_other_system() -> None:
    options = ("-q", "-n", "0", "-m", "not slow", "-p", "no:cacheprovider")

    assert " passed" in run("-m", "pytest", *options, *QUICK)


@pytest.mark.slow
@pytest.mark.engines
def test_a_cluster_trains_with_the_other_system() -> None:
    assert "trained to step 20" in run("-c", TRAINING)
