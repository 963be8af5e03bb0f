"""The watch on leaks: it finds each kind, names it, and lets clean tests pass."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[1]
CONFTEST = (ROOT / "tests" / "conftest.py").read_text("utf-8")

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
    pid = subprocess.check_output(["sh", "-c", "sleep 300 >/dev/null & echo $!"])
    print("pid", int(pid))
"""

FAILING = """
import socket, subprocess
from pathlib import Path

import psutil
import pytest

import kit

ORPHAN = "sleep 300 >/dev/null & echo $!"


def orphan():
    return psutil.Process(int(subprocess.check_output(["sh", "-c", ORPHAN])))


@pytest.fixture(scope="module")
def shared():
    process = orphan()
    yield process
    process.kill()


LEFT = []


def test_fails(shared):
    LEFT.append(orphan())
    subprocess.Popen(["sleep", "300"])  # nobody waits for it, which is a warning
    forgotten = socket.socket()
    kit.Cluster(ps=0, worker=1).start()
    assert not LEFT


def test_meets_nothing_of_it(shared):
    assert not LEFT[0].is_running() or LEFT[0].status() == psutil.STATUS_ZOMBIE
    assert shared.is_running()
    with pytest.raises(kit.errors.FailedPreconditionError, match="no cluster"):
        kit.current_cluster()
"""

INTERRUPTED = """
import signal, subprocess, sys

def test_child_can_be_interrupted():
    code = "import signal; print(signal.getsignal(signal.SIGINT).__name__)"
    printed = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert printed == "default_int_handler\\n"
"""

CHOSEN = """
import pytest

@pytest.mark.browser
def test_in_a_browser(): pass

def test_without(): pass
"""

WRITING = """
def test_that_has_a_name_of_many_words_and_writes(tmp_path):
    print("it is", tmp_path)
    (tmp_path / "file").touch()
"""


INI = """
[pytest]
filterwarnings =
    error::ResourceWarning
    error::pytest.PytestUnraisableExceptionWarning
markers =
    lasting(*kinds): what may stay
    browser: opens one
"""


def run(
    pytester: pytest.Pytester, tests: str, *options: str, command: str = ""
) -> pytest.RunResult:
    brief = CONFTEST.replace("GRACE_S = 10.0", "GRACE_S = 0.1")
    assert brief != CONFTEST
    pytester.makeconftest(brief)
    pytester.makeini(INI)
    pytester.makepyfile(tests)
    options = ("-p", "no:cacheprovider", "-rA", *options)
    if command:
        pytest_here = shlex.join([sys.executable, "-m", "pytest", *options])
        return pytester.run("sh", "-c", command.format(pytest_here))
    return pytester.runpytest_subprocess(*options)


@pytest.fixture(autouse=True)
def _tests_elsewhere_find_what_conftest_imports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def end_orphan(output: str) -> None:
    result = re.search(r"^pid (\d+)$", output, re.MULTILINE)
    assert result, output
    orphan = psutil.Process(int(result[1]))
    assert orphan.name() == "sleep"
    orphan.kill()


@pytest.mark.slow
def test_each_kind_of_leak_is_an_error_that_names_it(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, LEAKING)

    # Six tests leak one thing each; the child is ended then, so it is not found again.
    result.assert_outcomes(passed=8, errors=6)
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
    result.stdout.fnmatch_lines(["*the tests left running:", "*process *: sleep 300"])


@pytest.mark.slow
def test_a_test_that_fails_leaves_no_process_and_no_cluster_to_the_next(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, FAILING)

    # The error is the leak, which is looked for before what is left is ended.
    result.assert_outcomes(passed=1, failed=1, errors=1)


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_children_can_be_interrupted_when_the_tests_run_in_the_background(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    # What `&` does in a script; a shell that is interactive does not.
    result = run(pytester, INTERRUPTED, *options, command="trap '' INT; {}")

    result.assert_outcomes(passed=1)


@pytest.mark.slow
def test_tests_in_a_browser_can_be_chosen_and_left_out(
    pytester: pytest.Pytester,
) -> None:
    only = run(pytester, CHOSEN, "--browser=only")
    without = run(pytester, CHOSEN, "--browser=without")

    only.stdout.fnmatch_lines(["PASSED *::test_in_a_browser", "*1 passed, 1 desel*"])
    without.stdout.fnmatch_lines(["PASSED *::test_without", "*1 passed, 1 deselected*"])


@pytest.mark.slow
def test_code_is_compiled_before_the_workers_of_xdist_begin(
    pytester: pytest.Pytester,
) -> None:
    folder = pytester.mkdir("tests")
    for name in ("unasked", "test_unasked"):  # which no worker imports
        (folder / f"{name}.py").write_text("assert True\n")

    run(pytester, "def test_of_a_worker(): pass", "-n", "1", "--ignore=tests")

    result = sorted(path.name for path in folder.glob("__pycache__/*.pyc"))
    assert [name.split(".")[0] for name in result] == ["test_unasked", "unasked"]
    assert ["pytest" in name for name in result] == [True, False]


@pytest.mark.slow
def test_sockets_fit_into_the_folder_of_a_test_wherever_temporary_files_are(
    pytester: pytest.Pytester,
) -> None:
    folder = pytester.mkdir("many_words_" * 10)
    old = Path(tempfile.mkdtemp(prefix="kit-tests-", dir="/tmp"))
    os.utime(old, (0, 0))

    result = run(pytester, WRITING, "-n", "1", command=f"TMPDIR={folder} {{}}")

    result.assert_outcomes(passed=1)
    (used,) = re.findall(r"^it is (.*)$", result.stdout.str(), re.MULTILINE)
    assert len(used) < 70
    assert not Path(used).parents[1].exists()  # once all have passed
    assert not old.exists()
