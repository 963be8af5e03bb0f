from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.cluster.processes import processes, reaper
from kit.cluster.processes.reaper import Process, ProcessRecord
from kit.errors import PermissionDeniedError
from kit.testing.task_process import until
from tests.cases import for_each

SLEEPER = "import signal,sys; print(flush=True); signal.pause()"
STUBBORN = "import signal; signal.signal(15, signal.SIG_IGN);" + SLEEPER


@contextmanager
def child(code: str = SLEEPER) -> Iterator[tuple[subprocess.Popen[bytes], Process]]:
    """A process that has begun; it is ours to end."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE
    ) as started:
        assert started.stdout is not None
        started.stdout.readline()
        result = reaper.find(started.pid)
        assert result is not None
        try:
            yield started, result
        finally:
            started.kill()


def test_the_same_pid_with_another_start_time_is_another_process() -> None:
    with child() as (started, real):
        other = Process(real.pid, real.started - 1)

        assert not other.is_running
        assert reaper.send(other, signal.SIGKILL) is False
        assert reaper.end([other], grace_s=0) == set()
        assert started.poll() is None


def test_ending_takes_descendants_that_were_never_recorded() -> None:
    code = (
        "import subprocess,sys; p=subprocess.Popen([sys.executable,'-I','-S','-c',"
        f"{SLEEPER!r}],stdout=2); print(p.pid,flush=True); p.wait()"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as parent:
        assert parent.stdout is not None
        grandchild = reaper.find(int(parent.stdout.readline()))
        root = reaper.find(parent.pid)
        assert grandchild is not None
        assert root is not None

        assert reaper.end([root], grace_s=2) == set()

        assert not grandchild.is_running
        assert not root.is_running


def test_the_reaper_of_a_host_that_is_this_machine_cleans_up_after_its_own(
    folder: Path, tmp_path: Path
) -> None:
    """mpiexec on the notebook's host: both reapers see each other's processes."""
    inner = tmp_path / "psring-inner"
    inner.mkdir()
    program = (
        "import os, sys; from pathlib import Path\n"
        "from kit.cluster.processes.processes import ReaperHandle\n"
        f"os.environ['PSRING_CLUSTER'] = {str(inner)!r}\n"
        f"handle = ReaperHandle(Path({str(inner)!r}), 0.01)\n"
        "print(handle.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {reaper.MARK: str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as host:
        assert host.stdout is not None
        watching = reaper.find(int(host.stdout.readline()))
        root = reaper.find(host.pid)
        assert watching is not None
        assert root is not None

        # The record has all that the notebook saw below mpiexec.
        assert reaper.end([root, watching], folder=str(folder)) == set()

    assert not inner.exists()
    assert not watching.is_running


SOMEBODY = 12345  # a user that is neither root nor the one who runs the tests
# It may signal its own processes only, as an ordinary user: without the capability to
# do more, which the new program cannot get back. Its child is of another user.
ORDINARY = f"""
import ctypes, os, subprocess, sys
PR_CAPBSET_DROP, CAP_KILL = 24, 5
if "-B" not in sys.orig_argv:
    assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_KILL, 0, 0, 0) == 0
    os.execv(sys.executable, [sys.executable, "-B", *sys.orig_argv[1:]])
sys.path.append({str(Path(reaper.__file__).parent)!r})
import reaper
def sleeper(**user):
    return subprocess.Popen(["sleep", "300"], stdout=-3, stderr=-3, **user)
foreign = sleeper(user={SOMEBODY})
own = sleeper(), sleeper()
left = reaper.end([reaper.find(one.pid) for one in (own[0], foreign, own[1])], 60)
print([one.poll() for one in own], foreign.poll(), [p.pid for p in left], foreign.pid)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts as another user")
def test_a_process_that_may_not_be_ended_does_not_save_the_others() -> None:
    """Such as what a task has started by sudo; it is not waited for either."""
    program = [sys.executable, "-I", "-S", "-c", ORDINARY]
    output = subprocess.run(program, capture_output=True, text=True)

    assert output.stderr == ""
    *rest, foreign = output.stdout.split()
    os.kill(int(foreign), signal.SIGKILL)
    assert rest == f"[-15, -15] None [{foreign}]".split()


def test_what_another_user_has_started_is_named_with_the_command_that_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(process: Process, number: int) -> bool:
        raise PermissionError

    with child() as (started, process), monkeypatch.context() as patched:
        patched.setattr(reaper, "send", refuse)
        error = processes.still_running([process], 10.0)

    assert isinstance(error, PermissionDeniedError)
    assert f"may not end: pid {started.pid} ({sys.executable}" in str(error)
    assert f"sudo kill {started.pid}" in str(error)


def test_what_ignores_the_polite_signal_is_killed_and_what_is_stopped_ends() -> None:
    with child(STUBBORN) as (stubborn, first), child() as (stopped, second):
        os.kill(stopped.pid, signal.SIGSTOP)

        assert reaper.end([second], grace_s=60) == set()
        assert reaper.end([first], grace_s=0.01) == set()

        assert stubborn.wait(5) == -signal.SIGKILL
        assert stopped.wait(5) == -signal.SIGTERM


def test_a_dead_process_is_gone_though_nobody_has_waited_for_it() -> None:
    with child() as (started, process):
        os.kill(started.pid, signal.SIGKILL)

        assert reaper.wait_gone([process], 5) == set()
        assert not process.is_running


def record_line(folder: Path, kernel: Process, lease_s: float = 0.0) -> bytes:
    plain = {"kernel": kernel, "lease_s": lease_s, "folder": str(folder)}
    return json.dumps(plain).encode() + b"\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "psring-test"
    path.mkdir()
    (path / "socket").touch()
    return path


@contextmanager
def keeping(first: bytes) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-I", "-S", reaper.__file__], stdin=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        process.stdin.write(first)
        try:
            yield process
        finally:
            process.kill()


def tell(process: subprocess.Popen[bytes], **line: object) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(line).encode() + b"\n")


def test_when_the_kernel_dies_all_that_was_recorded_goes_and_commands_are_run(
    folder: Path, tmp_path: Path
) -> None:
    cancelled = tmp_path / "cancelled"
    commands = [["/nowhere/qdel", "17"], ["touch", str(cancelled)]]
    with (
        child() as (kernel, who),
        child() as (engine, listed),
        child() as (bystander, _),
        keeping(record_line(folder, who)) as watcher,
    ):
        tell(watcher, processes=[listed])
        tell(watcher, at_end=commands)
        assert engine.poll() is None

        kernel.kill()
        kernel.wait()

        assert watcher.wait(10) == 0
        assert engine.wait(10) == -signal.SIGTERM
        assert not folder.exists()
        assert bystander.poll() is None
        assert cancelled.exists()


def test_on_order_all_that_was_recorded_goes_without_a_lease(folder: Path) -> None:
    with (
        child() as (kernel, who),
        child(STUBBORN) as (engine, listed),
        child() as (bystander, _),
        keeping(record_line(folder, who, lease_s=1e6)) as watcher,
    ):
        tell(watcher, processes=[listed])
        tell(watcher, end=0.01)

        assert watcher.wait(10) == 0
        assert engine.wait(10) == -signal.SIGKILL
        assert not folder.exists()
        assert [kernel.poll(), bystander.poll()] == [None, None]


@pytest.mark.parametrize(("line", "due_s"), [({"end": 0}, 0.0), ({}, 7.0)])
def test_an_order_given_just_before_the_kernels_end_counts(
    folder: Path, line: dict[str, float], due_s: float
) -> None:
    with child() as (kernel, who):
        kernel.kill()
        kernel.wait()
    read, write = os.pipe()
    os.write(write, json.dumps(line).encode() + b"\n")
    os.close(write)

    try:
        assert reaper.watch(ProcessRecord(who, 7.0, str(folder)), read) == due_s
    finally:
        os.close(read)


def test_a_closed_pipe_is_not_the_death_of_the_kernel(folder: Path) -> None:
    with (
        child() as (kernel, who),
        child() as (engine, listed),
        keeping(record_line(folder, who)) as watcher,
    ):
        tell(watcher, processes=[listed])
        assert watcher.stdin is not None
        watcher.stdin.close()
        fd = os.pidfd_open(watcher.pid)
        try:
            assert select.select([fd], [], [], 0.1)[0] == []
        finally:
            os.close(fd)
        assert engine.poll() is None
        kernel.kill()
        assert watcher.wait(10) == 0
        assert engine.wait(5) == -signal.SIGTERM


def test_a_folder_that_is_not_ours_is_never_removed(tmp_path: Path) -> None:
    other = tmp_path / "home"
    other.mkdir()
    me = reaper.find(os.getpid())
    assert me is not None

    reaper.clean_up(ProcessRecord(me, 0.0, str(other)))

    assert other.exists()


@given(st.integers(1, 2**22), st.integers(0, 2**40), st.floats(0, 1e6))
def test_a_record_survives_the_way_through_the_pipe(
    pid: int, started: int, lease_s: float
) -> None:
    line = record_line(Path("/tmp/psring-x"), Process(pid, started), lease_s)

    record = ProcessRecord.from_line(line.decode())
    record.update(json.dumps({"processes": [[pid, started]]}))

    assert record.kernel == Process(pid, started)
    assert record.lease_s == lease_s
    assert record.processes == {Process(pid, started)}
    assert not record.is_over


@pytest.mark.parametrize("number", [None, signal.SIGKILL, signal.SIGSTOP])
def test_the_end_comes_with_the_reaper_and_without_it(
    folder: Path, number: signal.Signals | None
) -> None:
    mine = processes.ReaperHandle(folder, lease_s=1.0)
    if number is not None:
        os.kill(mine.pid, number)

    with child() as (engine, expected):
        # More than the pipe holds, so that one that nobody reads fills up.
        for _ in range(20):
            mine.update([expected, *(Process(2**22 + n, 1) for n in range(500))])

        assert mine.end(grace_s=1.0) is True
        assert mine.end(grace_s=1.0) is True

        assert engine.wait(5) == -signal.SIGTERM
    assert not folder.exists()


def test_a_reaper_that_is_stopped_again_and_again_is_done_without(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = processes.ReaperHandle(folder, lease_s=1.0)
    monkeypatch.setattr(processes, "MARGIN_S", 0.1)
    monkeypatch.setattr(reaper, "KILL_S", 0.0)
    send_signal = subprocess.Popen.send_signal

    def stop_instead(process: subprocess.Popen[bytes], number: int) -> None:
        is_wake = number == signal.SIGCONT
        send_signal(process, signal.SIGSTOP if is_wake else number)

    monkeypatch.setattr(subprocess.Popen, "send_signal", stop_instead)
    with child() as (engine, expected):
        mine.update([expected])

        assert mine.end(grace_s=0.0) is True

        assert engine.wait(5) in (-signal.SIGTERM, -signal.SIGKILL)
    assert not folder.exists()


@for_each(
    ("status", "text"),
    [
        (0, "exited with status 0"),
        (-15, "killed by signal 15 (SIGTERM)"),
        (-9, "killed by signal 9 (SIGKILL), probably out of memory or killed by hand"),
        (-63, "killed by signal 63 (unknown)"),
        (None, "ended, it is not known how"),
    ],
)
def test_an_exit_status_is_told_in_words(status: int | None, text: str) -> None:
    assert processes.why(status) == text


RUN_ALL = """
import json, sys
from kit.cluster.processes.reaper import run_all
run_all(json.loads(sys.argv[1]))
"""


@pytest.mark.slow
def test_command_at_the_end_neither_waits_for_others_nor_is_given_up(
    tmp_path: Path,
) -> None:
    wait_for = "until [ -e $0 ]; do sleep 0.01; done; touch $1"
    commands = [
        *(["false"], ["/nowhere/command"]),
        ["sh", "-c", wait_for, "released", "cancelled_late"],
        ["sh", "-c", wait_for, "second", "first"],
        ["touch", "second"],
    ]

    subprocess.run(
        [sys.executable, "-c", RUN_ALL, json.dumps(commands)], cwd=tmp_path, check=True
    )

    until((tmp_path / "first").exists, 20)
    assert not (tmp_path / "cancelled_late").exists()
    (tmp_path / "released").touch()
    until((tmp_path / "cancelled_late").exists, 20)
