"""Starts a program once for each task, as from a shell for each, and reads the output.

Nothing here knows what the program does. What a task prints goes to a file; a task that
is started again appends to it. All tasks end with this process, even if it is killed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kit.cluster.processes import reaper
from kit.cluster.processes.processes import ReaperHandle, why
from kit.cluster.processes.reaper import Process
from kit.cluster.runtime import engine_environment, make_folder, remove_folder, tail
from kit.errors import DeadlineExceededError, UnavailableError
from kit.regular_file import append_regular
from kit.task import Task
from kit.wire.handshake.credentials import Credentials
from kit.wire.listening.address import TcpAddress
from kit.wire.listening.listener import listen

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
