"""The trainer of the guide: four processes, started by the commands of its text."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.server.ports import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PROGRAM = Path(__file__).parent / "trainer.py"
BOUND_S = 100.0
SAVE_EVERY = 100


class Shells:
    """Starts tasks of one cluster as processes, and reads what they print."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        ports = [f"localhost:{port}" for port in free_ports(4)]
        self._hosts = [
            f"--ps_hosts={','.join(ports[:2])}",
            f"--worker_hosts={','.join(ports[2:])}",
        ]
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, job: str, index: int, *options: str) -> None:
        command = [
            *(sys.executable, str(PROGRAM), *self._hosts),
            *(f"--job_name={job}", f"--task_index={index}"),
            f"--checkpoint_dir={self._folder / 'checkpoints'}",
            *(f"--save_every={SAVE_EVERY}", "--log_every=50", *options),
        ]
        with self._log(job, index).open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        self._running[f"{job}{index}"] = process

    def start_all(self, *options: str) -> None:
        for job in ("ps", "worker"):
            for index in range(2):
                self.start(job, index, *options)

    def words(self, job: str, index: int) -> str:
        path = self._log(job, index)
        return path.read_text("utf-8") if path.exists() else ""

    def wait_for_words(self, job: str, index: int, pattern: str) -> re.Match[str]:
        """Wait until a task has printed something; returns the match."""
        end = time.monotonic() + BOUND_S
        while time.monotonic() < end:
            found = re.search(pattern, self.words(job, index))
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"no {pattern!r} in:\n{self.all_words()}")

    def wait_for_workers(self) -> None:
        for index in range(2):
            status = self._running[f"worker{index}"].wait(BOUND_S)
            assert status == 0, self.all_words()

    def kill(self, job: str, index: int) -> None:
        process = self._running.pop(f"{job}{index}")
        process.kill()
        process.wait(BOUND_S)

    def end(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait(BOUND_S)
        self._running.clear()

    def all_words(self) -> str:
        logs = sorted(self._folder.glob("*.log"))
        return "\n".join(f"--- {one.name}\n{one.read_text('utf-8')}" for one in logs)

    def _log(self, job: str, index: int) -> Path:
        return self._folder / f"{job}{index}.log"


@pytest.fixture
def shells(tmp_path: Path) -> Iterator[Shells]:
    found = Shells(tmp_path)
    try:
        yield found
    finally:
        found.end()


def saved(folder: Path) -> int:
    """Return the step of the newest checkpoint that is complete."""
    state = folder / "checkpoints" / "checkpoint"
    text = state.read_text("utf-8") if state.exists() else ""
    found = re.search(r"^model_checkpoint_path: .*-(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else -1


def losses(words: str) -> list[float]:
    return [float(one) for one in re.findall(r"loss = ([\d.e+-]+)", words)]


def test_trainer_learns_and_goes_on_where_it_was(
    shells: Shells, tmp_path: Path
) -> None:
    shells.start_all("--steps=400")
    shells.wait_for_workers()
    first = saved(tmp_path)
    learned = [losses(shells.words("worker", index)) for index in range(2)]
    shells.end()

    shells.start_all("--steps=600")
    shells.wait_for_workers()

    # Each worker may make one more step than the last.
    assert 400 <= first <= 402
    assert max(one[0] for one in learned) > 2.0  # of whoever came first
    assert max(one[-1] for one in learned) < 0.7
    assert f"model.ckpt-{first}" in shells.words("worker", 0)
    assert 600 <= saved(tmp_path) <= 602
    assert shells.words("worker", 1).count("worker 1 is done") == 2


def test_synchronous_trainer_makes_its_steps_together(
    shells: Shells, tmp_path: Path
) -> None:
    shells.start_all("--sync=true", "--steps=150")

    shells.wait_for_workers()

    assert 150 <= saved(tmp_path) <= 151
    assert losses(shells.words("worker", 1))[-1] < 1.0


@pytest.mark.parametrize("sync", ["false", "true"])
def test_killed_server_costs_no_more_than_the_steps_since_the_last_checkpoint(
    sync: str, shells: Shells, tmp_path: Path
) -> None:
    shells.start_all(f"--sync={sync}", "--steps=800")
    wait_until(lambda: saved(tmp_path) >= SAVE_EVERY, shells)
    shells.kill("ps", 1)
    before = saved(tmp_path)
    shells.start("ps", 1)
    told = shells.wait_for_words(
        "worker", 0, r"restored \S*model.ckpt-(\d+); goes on at step \d+; (\d+) steps"
    )
    shells.wait_for_workers()

    restored, lost = map(int, told.groups())
    assert restored >= before
    # The chief sees the step once a run: a save may come two of them late.
    assert lost <= SAVE_EVERY + 4
    assert saved(tmp_path) >= 800
    assert "worker 1 is done" in shells.words("worker", 1)


def wait_until(holds: Callable[[], bool], shells: Shells) -> None:
    end = time.monotonic() + BOUND_S
    while not holds():
        assert time.monotonic() < end, shells.all_words()
        time.sleep(0.02)
