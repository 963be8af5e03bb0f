"""The watch on leaks: it finds each kind, names it, and lets clean tests pass."""

from __future__ import annotations

import re
from pathlib import Path

import psutil
import pytest

CONFTEST = Path(__file__).with_name("conftest.py").read_text("utf-8")

LEAKING = """
import os, socket, subprocess, sys, threading
import pytest

KEPT = []
DOZE = "import sys; sys.stdin.read()"


def test_thread():
    stop = threading.Event()
    KEPT.append(stop)
    threading.Thread(target=stop.wait, name="kit-forgotten", daemon=True).start()


def test_socket():
    KEPT.append(socket.create_server(("127.0.0.1", 0)))


def test_memory():
    KEPT.append(os.memfd_create("forgotten"))


def test_second_eventfd():
    KEPT.append(os.eventfd(0))


def test_child():
    KEPT.append(subprocess.Popen([sys.executable, "-c", DOZE], stdin=subprocess.PIPE))


def test_zombie():
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    KEPT.append(child)


@pytest.mark.lasting("descriptor")
def test_excused():
    KEPT.append(os.eventfd(0))


def test_clean():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    thread = threading.Thread(target=print)
    thread.start()
    thread.join()
    subprocess.run(["true"], check=True)
"""

ORPHANING = """
import subprocess, sys

# The shell ends at once, so the test process never was the parent of `sleep`.
def test_orphan():
    pid = subprocess.check_output(["sh", "-c", "sleep 30 >/dev/null & echo $!"])
    print("pid", int(pid))
"""


def run(pytester: pytest.Pytester, tests: str) -> pytest.RunResult:
    brief = CONFTEST.replace("GRACE_S = 10.0", "GRACE_S = 0.1")
    assert brief != CONFTEST
    pytester.makeconftest(brief)
    pytester.makeini("[pytest]\nmarkers = lasting(*kinds): what may stay")
    pytester.makepyfile(tests)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rA")


def end_orphan(output: str) -> None:
    found = re.search(r"^pid (\d+)$", output, re.MULTILINE)
    assert found, output
    orphan = psutil.Process(int(found[1]))
    assert orphan.name() == "sleep"
    orphan.kill()


@pytest.mark.slow
def test_each_kind_of_leak_is_an_error_that_names_it(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, LEAKING)

    # Six tests leak one thing each; the child is found once more at the very end.
    result.assert_outcomes(passed=8, errors=7)
    for line in (
        "*thread 'kit-forgotten', a daemon",
        "*descriptor *: socket:* AF_INET ('127.0.0.1', *)",
        "*descriptor *: /memfd:forgotten*",
        "*descriptor *: anon_inode:?eventfd?*",
        "*process *: * -c import sys; sys.stdin.read()",
        "*process *: a zombie*",
    ):
        result.stdout.fnmatch_lines([line])


@pytest.mark.slow
def test_process_whose_parent_died_is_found_at_the_end(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, ORPHANING)
    end_orphan(result.stdout.str())

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*the tests left running:", "*process *: sleep 30"])
