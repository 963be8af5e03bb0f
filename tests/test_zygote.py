"""A program that the tests fork is what it would be if it had been started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests import zygote

TOLD = """
import json, os, pathlib, resource, signal, sys, threading
import __main__, numpy
own = pathlib.Path("/proc/self")
environment = sorted(os.environ.items())  # the next import changes it
import threadpoolctl
print(json.dumps({
    "words": [sys.argv, sys.orig_argv, sys.path, sys.stdin.read()],
    "flags": [sys.flags.safe_path, sys.flags.isolated, sys.flags.utf8_mode],
    "main": [__name__, __main__.__name__, str(globals().get("__file__")), here()],
    "folder": os.getcwd(),
    "environment": environment,
    "proc": [(own / name).read_text() for name in ("cmdline", "environ")],
    "parent": os.getppid(),
    "leads": os.getsid(0) == os.getpid(),
    "descriptors": [n for n in range(20) if (own / f"fd/{n}").exists()],
    "limits": resource.getrlimit(resource.RLIMIT_NOFILE),
    "cores": sorted(os.sched_getaffinity(0)),
    "signals": [str(signal.getsignal(n)) for n in (2, 15, 1, 17, 13)],
    "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "threads": [threading.active_count(), threading.current_thread().name],
    "output": [
        (str(type(file.buffer)), file.write_through, file.line_buffering, file.errors)
        for file in (sys.stdout, sys.stderr)
    ],
    "blas": [pool["num_threads"] for pool in threadpoolctl.threadpool_info()],
}))
"""
PROGRAM = "def here(): return __name__\n" + TOLD


def output(words: Sequence[str], *, forked: bool, **how: Any) -> dict[str, Any]:
    """Return what a program says of itself, forked or started."""
    # Libraries of C have set variables here of which Python does not know.
    how = {"env": dict(os.environ), "input": "a word"} | how
    with zygote.forking() if forked else nullcontext():
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, timeout=60, **how
        )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.slow
def test_a_forked_program_has_the_descriptors_that_it_is_passed() -> None:
    pipes = [os.pipe() for _ in range(3)]
    passed = [write for _, write in reversed(pipes)]
    code = "import os, sys; [os.write(int(n), n.encode()) for n in sys.argv[1:]]"
    command = [sys.executable, "-c", code, *map(str, passed)]
    with zygote.forking():
        subprocess.run(command, pass_fds=passed, check=True)

    for read, write in pipes:
        assert os.read(read, 9) == str(write).encode()
        os.close(read)
        os.close(write)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "how"),
    [
        (["-c", PROGRAM, "one", "two words"], {}),
        (["-P", "-c", PROGRAM], {"start_new_session": True}),
        (["-m", "module", "--option"], {}),
        (["script.py", "one"], {"env": {**os.environ, "A": "ä=b", "PYTHONPATH": "/x"}}),
        (["-c", PROGRAM], {"env": {**os.environ, "OPENBLAS_NUM_THREADS": "2"}}),
        (["-c", PROGRAM], {"env": {**os.environ, "PYTHONUNBUFFERED": "1"}}),
        (["-c", PROGRAM], {"env": {**os.environ, "PYTHONUNBUFFERED": ""}}),
    ],
)
def test_a_forked_program_is_like_one_that_was_started(
    words: list[str], how: dict[str, Any], tmp_path: Path
) -> None:
    for name in ("script.py", "module.py"):
        (tmp_path / name).write_text(PROGRAM, "utf-8")

    result = [output(words, forked=item, cwd=tmp_path, **how) for item in (True, False)]

    assert result[0].pop("descriptors") == [0, 1, 2, 3]  # to fork in turn
    assert result[1].pop("descriptors") == [0, 1, 2]
    assert result[0] == result[1]


@pytest.mark.slow
def test_a_forked_program_ends_with_its_status_and_its_last_words() -> None:
    ends = ["sys.exit(7)", "sys.exit('bye')", "os.kill(os.getpid(), 9)", "1 / 0"]

    with zygote.forking():
        done = [
            subprocess.run(
                [sys.executable, "-c", f"import os, sys; {end}"],
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
            for end in ends
        ]

    assert [item.returncode for item in done] == [7, 1, -9, 1]
    assert done[1].stderr == "bye\n"
    assert done[3].stderr.endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.slow
def test_a_program_is_started_when_there_is_no_zygote_any_more() -> None:
    command = [sys.executable, "-c", "print(1)"]
    with zygote.forking():
        before = subprocess.check_output(command)
        process = zygote.zygote.process
        assert process is not None
        process.kill()
        process.wait()

        after = subprocess.check_output(command)

    assert before == after == b"1\n"


@pytest.mark.slow
def test_only_programs_of_clusters_are_forked_unless_all_are_asked_for() -> None:
    code = "import sys; print('kit' in sys.modules)"
    command = [sys.executable, "-c", code]

    started = subprocess.check_output(command, text=True)
    with zygote.forking():
        forked = subprocess.check_output(command, text=True)

    assert (started, forked) == ("False\n", "True\n")
