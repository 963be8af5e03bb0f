"""Tasks started as from shells, and what is reported of one that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kit.cluster.processes import reaper
from kit.demo.recovered import Recovered, Shells, problems
from kit.errors import DeadlineExceededError, UnavailableError

SAYS_ALL = "import sys; print(*sys.argv[1:])"
FAILS = "import sys; print('no disk'); sys.exit(3)"
SLEEPS = "import time; print('here', flush=True); time.sleep(60)"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    yield tmp_path
    assert list(tmp_path.glob("psring-*")) == []


def shells_of(program: str, folder: Path, **options: float) -> Shells:
    jobs = {"ps": 1, "worker": 2}
    return Shells([sys.executable, "-S", "-c", program], folder, jobs, **options)


@pytest.mark.slow
def test_each_task_is_told_who_it_is_and_where_all_are(folder: Path) -> None:
    with shells_of(SAYS_ALL, folder) as shells:
        shells.start("worker:1", "--steps=3")
        shells.start("ps:0")
        said = shells.wait_for_words("worker:1", r"(.*) (.*) (.*) (.*) (.*)\n").groups()
        other = shells.wait_for_words("ps:0", r"(.*) (.*) (.*) (.*)\n").groups()

    assert said[2:] == ("--job_name=worker", "--task_index=1", "--steps=3")
    assert other[:2] == said[:2]
    hosts = [text.partition("=")[2].split(",") for text in said[:2]]
    assert [len(host) for host in hosts] == [1, 2]
    assert len({*hosts[0], *hosts[1]}) == 3


@pytest.mark.slow
def test_task_that_fails_is_named_with_what_it_said(folder: Path) -> None:
    with shells_of(FAILS, folder) as shells:
        shells.start("worker:0")
        shells.start("worker:1")

        with pytest.raises(UnavailableError) as caught:
            shells.wait_for_ends("worker")

    assert "exited with status 3" in str(caught.value)
    assert "no disk" in str(caught.value)


@pytest.mark.slow
def test_words_that_do_not_come_end_the_wait_when_the_task_ends(folder: Path) -> None:
    with shells_of(SAYS_ALL, folder) as shells:
        shells.start("ps:0")

        with pytest.raises(DeadlineExceededError, match=r"ps:0 has not .*'never'"):
            shells.wait_for_words("ps:0", "never")


@pytest.mark.slow
def test_task_that_runs_on_ends_the_wait_after_its_bound(folder: Path) -> None:
    with shells_of(SLEEPS, folder, bound_s=0.2) as shells:
        shells.start("worker:0")
        shells.start("worker:1")

        with pytest.raises(DeadlineExceededError, match=r"worker:0, worker:1 .* 0.2 s"):
            shells.wait_for_ends("worker")


@pytest.mark.slow
def test_task_that_is_started_again_writes_on_in_its_log(folder: Path) -> None:
    with shells_of(SLEEPS, folder) as shells:
        first = shells.start("ps:0")
        shells.wait_for_words("ps:0", "here")
        shells.kill("ps:0")
        is_gone = reaper.find(first) is None
        second = shells.start("ps:0")
        shells.wait_for_words("ps:0", "here\nhere")

    assert is_gone
    assert first != second
    assert reaper.find(second) is None


OWNER = """
import sys, time
from pathlib import Path
from kit.demo.recovered import Shells
shells = Shells([sys.executable, "-S", "-c", sys.argv[1]], Path(sys.argv[2]))
print(shells.start("ps:0"), shells.reaper_pid, flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_no_task_outlives_its_owner_that_is_killed(folder: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, SLEEPS, str(folder)], stdout=subprocess.PIPE
    )
    assert owner.stdout is not None
    started = [reaper.find(int(pid)) for pid in owner.stdout.readline().split()]
    expected = {item for item in started if item is not None}
    os.kill(owner.pid, signal.SIGKILL)
    owner.communicate()

    assert len(expected) == 2
    assert reaper.wait_gone(expected, 30.0) == set()


GOOD = Recovered(
    pid=7,
    saved=200,
    restored=200,
    lost=46,
    wanted=1000,
    reached=1001,
    losses=[2.3, 0.02],
    seconds=8.0,
)


def test_steps_that_are_lost_are_those_since_the_checkpoint() -> None:
    assert GOOD.killed_at == 246
    assert "at step 246" in GOOD.sentence
    assert "46 steps were lost" in GOOD.sentence
    assert problems(GOOD) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"restored": 100}, "checkpoint of step 200 was complete"),
        ({"reached": 900}, "ended at step 900, before 1000"),
        ({"losses": [2.3, 1.5]}, "loss is 1.5"),
        ({"losses": [float("nan")]}, "loss is nan"),
    ],
)
def test_promise_of_the_trainer_that_is_broken_is_told(
    change: dict[str, object], word: str
) -> None:
    (message,) = problems(replace(GOOD, **change))  # type: ignore[arg-type]

    assert word in message
