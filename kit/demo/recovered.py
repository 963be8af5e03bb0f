"""The fourth part of the demonstration: a server is killed, and the program goes on.

A program for TensorFlow 1.x, of which only the import was changed, trains the digits
in four processes. One of its servers is killed and started again, empty; the program's
monitored session restores its last checkpoint, and what is lost are the steps since.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.cluster.processes import reaper
from kit.cluster.processes.processes import ReaperHandle, why
from kit.cluster.processes.reaper import Process
from kit.cluster.runtime import engine_environment, make_folder, remove_folder, tail
from kit.errors import DeadlineExceededError, FailedPreconditionError, UnavailableError
from kit.regular_file import append_regular
from kit.task import Task
from kit.wire.handshake.credentials import Credentials
from kit.wire.listening.address import TcpAddress
from kit.wire.listening.listener import listen

# --------------------------------------------------------------------------------------
# Starts a program once for each task, as from a shell for each, and reads the output.
#
# Nothing here knows what the program does. What a task prints goes to a file; a task
# that is started again appends to it. All tasks end with this process, even if it is
# killed.

_LOOK_S = 0.01
_END_S = 10.0
_LEASE_S = 0.0


class Shells:
    """The tasks of one cluster as processes of this machine.

    `command` is how the program is started; `--ps_hosts`, `--worker_hosts`,
    `--job_name` and `--task_index` are added to it. Logs go into `folder`.

        with Shells([sys.executable, "trainer.py"], folder) as shells:
            shells.start("ps:0", "--steps=100")
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        jobs: Mapping[str, int] | None = None,
        bound_s: float = 100.0,
    ) -> None:
        """Choose ports for `jobs`, by default two ps and two workers; start nothing.

        No wait is longer than `bound_s`.
        """
        self._command, self._folder, self._bound_s = list(command), folder, bound_s
        counts = dict(jobs or {"ps": 2, "worker": 2})
        self.tasks = [Task(job, i) for job, n in counts.items() for i in range(n)]
        ports = dict(zip(self.tasks, free_ports(len(self.tasks)), strict=True))
        self._hosts = [
            f"--{job}_hosts="
            + ",".join(f"localhost:{ports[Task(job, i)]}" for i in range(n))
            for job, n in counts.items()
        ]
        self._running: dict[Task, subprocess.Popen[bytes]] = {}
        self._private = make_folder()  # sockets and keys; not in the user's home
        self._credentials = self._private / "credentials.json"
        Credentials.new().save(self._credentials)
        self._reaper = ReaperHandle(self._private, _LEASE_S)

    @property
    def reaper_pid(self) -> int:
        """The process id of the reaper, which ends all if this process is killed."""
        return self._reaper.pid

    def command(self, name: str, *options: str) -> list[str]:
        """Return the command that starts a task, such as `worker:1`."""
        task = Task.parse(name)
        who = [f"--job_name={task.job}", f"--task_index={task.index}"]
        return [*self._command, *self._hosts, *who, *options]

    def start(self, name: str, *options: str) -> int:
        """Start a task and return its process id. Does not wait."""
        environment = {
            **os.environ,
            **engine_environment(self._private, threads=1),
            "KIT_RUNTIME_DIR": str(self._private),
            "KIT_CREDENTIALS": str(self._credentials),
        }
        with append_regular(self.log(name)) as log:
            process = subprocess.Popen(
                self.command(name, *options), stdout=log, stderr=log, env=environment
            )
        self._running[Task.parse(name)] = process
        # From now on the reaper ends it, should this process be killed.
        self._record()
        return process.pid

    def kill(self, name: str) -> None:
        """Kill a task by SIGKILL, and wait until it is gone."""
        process = self._running.pop(Task.parse(name))
        process.kill()
        process.wait(_END_S)
        self._record()

    def wait_for_ends(self, job: str) -> None:
        """Wait until all tasks of a job have ended well; raises as `check` does."""
        end = time.monotonic() + self._bound_s
        names = [task.short for task in self.tasks if task.job == job]
        while any(self.check(name) for name in names):
            if time.monotonic() > end:
                raise DeadlineExceededError(
                    f"not all of {', '.join(names)} have ended after "
                    f"{self._bound_s:g} s.\n{self.all_words()}"
                )
            time.sleep(_LOOK_S)

    def wait_for_words(self, name: str, pattern: str) -> re.Match[str]:
        """Wait until a running task has printed a pattern; returns the match."""
        end = time.monotonic() + self._bound_s
        while True:
            # Before its words are read, so that its last ones are among them.
            is_running = self.check(name)
            match = re.search(pattern, self.words(name))
            if match:
                return match
            if not is_running or time.monotonic() > end:
                raise DeadlineExceededError(
                    f"{name} has not printed {pattern!r} within "
                    f"{self._bound_s:g} s.\n{self.all_words()}"
                )
            time.sleep(_LOOK_S)

    def check(self, name: str) -> bool:
        """Return whether a task runs; raises `UnavailableError` if it has failed."""
        status = self._running[Task.parse(name)].poll()
        if status:
            raise UnavailableError(f"{name} {why(status)}.\n{self.all_words()}")
        return status is None

    def words(self, name: str) -> str:
        """Return what a task has printed so far."""
        path = self.log(name)
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def all_words(self, n_lines: int = 15) -> str:
        """Return the last lines of all tasks, for the report of a failure."""
        parts = (
            f"--- {task.short}\n{tail(self.words(task.short), n_lines)}"
            for task in self.tasks
        )
        return "\n".join(parts)

    def log(self, name: str) -> Path:
        """Return the file that a task prints to."""
        return self._folder / f"{name.replace(':', '')}.log"

    def end(self) -> None:
        """End all tasks that still run, and remove everything but the logs."""
        for process in self._running.values():
            process.kill()
            process.wait(_END_S)
        self._running.clear()
        self._record()
        self._reaper.end(grace_s=0.0)
        remove_folder(self._private)

    def __enter__(self) -> Shells:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.end()

    def _record(self) -> None:
        # With its start time, so that a later process with the same id is not killed.
        processes = (reaper.find(process.pid) for process in self._running.values())
        self._reaper.update(
            {process for process in processes if isinstance(process, Process)}
        )


def python(module: str) -> list[str]:
    """Return the command that runs a module in this interpreter."""
    return [sys.executable, "-m", module]


def free_ports(count: int) -> list[int]:
    """Return some free ports.

    All are bound at the same time, so that they differ, and then released.
    """
    listeners = [listen(TcpAddress("127.0.0.1", 0)) for _ in range(count)]
    ports = []
    for listener in listeners:
        assert isinstance(listener.address, TcpAddress)
        ports.append(listener.address.port)
        listener.close()
    return ports


# --------------------------------------------------------------------------------------
# The part of the demonstration.

PROGRAM = "kit.demo.trainer"
VICTIM = "ps:1"
_CHIEF = "worker:0"
_TOLD = re.compile(
    r"(?m)was lost; restored \S*model\.ckpt-(\d+); goes on at step (\d+)"
    r"; (\d+) steps are lost"
)
_SAVED = re.compile(r"(?m)^model_checkpoint_path: .*-(\d+)")
_LOSS = re.compile(r"loss = ([\d.e+-]+), step = (\d+)")
_GOOD_LOSS = 0.5
_MOMENT_S = 100.0


@dataclass(frozen=True)
class Recovered:
    """How the training went.

    `saved` is the newest checkpoint's step when the server was killed, `restored` the
    one it went on from, `lost` the steps made since; `reached` is the last
    checkpoint's step, `losses` what the workers reported now and then, by step.
    """

    pid: int
    saved: int
    restored: int
    lost: int
    wanted: int
    reached: int
    losses: Sequence[float]
    seconds: float

    @property
    def killed_at(self) -> int:
        """The step that the cluster was at when its server was killed."""
        return self.restored + self.lost

    def to_plain(self) -> dict[str, Any]:
        """Return the figures, for the table and the JSON."""
        return {
            "killed": VICTIM,
            "at step": self.killed_at,
            "went on from": self.restored,
            "steps lost": self.lost,
            "last step": self.reached,
            "loss": round(self.losses[-1], 4),
            "seconds": round(self.seconds, 1),
        }

    @property
    def lines(self) -> list[str]:
        """What happened, in lines for the terminal."""
        return [
            f"{VICTIM} was killed at step {self.killed_at:,} and started again, empty",
            f"{_CHIEF} restored the checkpoint of step {self.restored:,}: "
            f"{self.lost:,} steps were lost",
            f"done at step {self.reached:,}: loss {self.losses[-1]:.4f}, "
            f"{self.seconds:.1f} s in all",
        ]

    @property
    def sentence(self) -> str:
        """What happened, in one sentence for the report."""
        return (
            f"A program of four processes lost its server {VICTIM} at step "
            f"{self.killed_at:,}: it went on from its checkpoint of step "
            f"{self.restored:,}, {self.lost:,} steps were lost, and it reached step "
            f"{self.reached:,}."
        )


def train(folder: Path, steps: int, save_every: int) -> Recovered:
    """Train with two ps and two workers, kill one ps on the way, start it again.

    Logs and checkpoints are in `folder`. Blocks some 8 s for 1,000 steps. Raises
    `UnavailableError` when a task fails by itself, `DeadlineExceededError` when it does
    not come to an end, both with what the tasks printed last.
    """
    _make_empty(folder)
    began = time.perf_counter()
    options = (
        f"--checkpoint_dir={folder / 'checkpoints'}",
        f"--steps={steps}",
        f"--save_every={save_every}",
        "--log_every=10",
    )
    with Shells(python(PROGRAM), folder) as shells:
        for task in shells.tasks:
            shells.start(task.short, *options)
        saved = _wait_for_the_moment(shells, folder, save_every)
        shells.kill(VICTIM)
        # It may have saved again between the decision to kill and the kill.
        saved = max(saved, _saved(folder))
        pid = shells.start(VICTIM, *options)
        match = shells.wait_for_words(_CHIEF, _TOLD.pattern)
        shells.wait_for_ends("worker")
        told_losses = [
            (int(step), float(loss))
            for worker in ("worker:0", "worker:1")
            for loss, step in _LOSS.findall(shells.words(worker))
        ]
    return Recovered(
        pid=pid,
        saved=saved,
        restored=int(match[1]),
        lost=int(match[3]),
        wanted=steps,
        reached=_saved(folder),
        losses=[loss for _, loss in sorted(told_losses)],
        seconds=time.perf_counter() - began,
    )


def problems(training: Recovered) -> list[str]:
    """Return the promises that were not kept, a sentence for each."""
    wrong = []
    if training.restored < training.saved:
        wrong.append(
            f"the trainer went on from step {training.restored}, although the "
            f"checkpoint of step {training.saved} was complete."
        )
    if training.reached < training.wanted:
        wrong.append(
            f"the trainer ended at step {training.reached}, before {training.wanted}."
        )
    if not training.losses[-1] < _GOOD_LOSS:
        wrong.append(
            f"the trainer's loss is {training.losses[-1]} at the end, not below "
            f"{_GOOD_LOSS}."
        )
    return wrong


def _wait_for_the_moment(shells: Shells, folder: Path, save_every: int) -> int:
    """Wait until a kill costs some steps, not none; returns the newest checkpoint."""
    end = time.monotonic() + _MOMENT_S
    while time.monotonic() < end:
        shells.check(VICTIM)
        if not shells.check(_CHIEF):
            raise FailedPreconditionError(
                "the training was over before its server was killed: this process had "
                "no time to look. Run it again when the machine is less busy."
            )
        saved, losses = _saved(folder), _LOSS.findall(shells.words(_CHIEF))
        seen = int(losses[-1][1]) if losses else 0
        # Right after a checkpoint a kill would cost nothing. But if this process seldom
        # gets to look, it may never see a later moment: then four checkpoints will do.
        is_between = seen >= saved + save_every // 4
        if saved >= 2 * save_every and (is_between or saved >= 4 * save_every):
            return saved
        time.sleep(0.005)
    raise DeadlineExceededError(
        f"the training has not saved twice within {_MOMENT_S:g} s; {_CHIEF} says:\n"
        f"{shells.words(_CHIEF)}"
    )


def _saved(folder: Path) -> int:
    """Return the step of the newest complete checkpoint, -1 before the first."""
    text = ""
    with suppress(OSError):
        text = (folder / "checkpoints" / "checkpoint").read_text("utf-8")
    match = _SAVED.search(text)
    return int(match[1]) if match else -1


def _make_empty(folder: Path) -> None:
    """Make the folder, without the files of an earlier demonstration.

    Only what such a run writes is removed: the user may have chosen any folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    checkpoints = folder / "checkpoints"
    if checkpoints.is_symlink():  # what is removed next must not be elsewhere
        checkpoints.unlink()
    for pattern in ("checkpoint", "graph.pbtxt", "model.ckpt-*"):
        for path in checkpoints.glob(pattern):
            path.unlink()
    for job, index in itertools.product(("ps", "worker"), range(2)):
        (folder / f"{job}{index}.log").unlink(missing_ok=True)
