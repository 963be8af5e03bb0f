"""A cluster of bare processes: one a task, each a few tenths of a second to start.

For tests of faults, in which a task must be able to die or to freeze. The servers, links
and trainings are the real ones; only the launcher is missing: no ipyparallel, no
engines. A process lives as long as the pipe to the process that started it.

    with process_cluster(ps=1, worker=2) as cluster:
        run = kit.train(step, params, data, cluster=cluster)
        cluster[Task("worker", 1)].signal(SIGKILL)
        run.wait()                                      # raises PeerLost
"""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import cloudpickle
import psutil

from kit.errors import DeadlineExceededError, KitError, PeerLost, from_plain, to_plain
from kit.server import engine
from kit.server.directory import Directory
from kit.settings import Settings, current
from kit.task import Task
from kit.train.job import Job, Work
from kit.train.run import Run
from kit.wire.credentials import Credentials
from kit.wire.introduction import Role
from kit.wire.rpc import Caller

CLIENT = Task("client", 0)
_ANSWER_S = 30.0
_END_S = 8.0
_LOOK_S = 0.005


class TaskProcess:
    """One process; it hosts a task as soon as it was told which."""

    def __init__(self, log: Path) -> None:
        """Start the process; what it prints goes to `log`."""
        self.log = log
        self._pipe, theirs = Pipe()
        root = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        with log.open("wb") as output, theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kit.testing.processes", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended; a stopped one has not."""
        return self._process.poll() is None

    @property
    def is_well(self) -> bool:
        """Whether the process lives and no signal has stopped it."""
        return self.is_alive and self._status() != psutil.STATUS_STOPPED

    def tell(self, what: str, *values: Any) -> None:
        """Ask for something without waiting for the answer; `PeerLost` if it is gone."""
        try:
            self._pipe.send_bytes(cloudpickle.dumps((what, values)))
        except OSError as error:
            raise self._gone(what) from error

    def answer(self, what: str, deadline_s: float = _ANSWER_S) -> Any:
        """Return the answer to what was told; raises the error that it is."""
        if not self._pipe.poll(deadline_s):
            raise DeadlineExceededError(
                f"process {self.pid} did not answer {what!r} in {deadline_s:g} s; it "
                f"is stopped or stuck: look into {self.log}."
            )
        try:
            is_good, result = cloudpickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError) as error:
            raise self._gone(what) from error
        if not is_good:
            raise from_plain(result)
        return result

    def signal(self, number: int) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def wait_for_death(self, deadline_s: float) -> int:
        """Wait for the end; returns the exit status, `-SIGKILL` for a killed one."""
        return self._process.wait(deadline_s)

    def wait_for_stop(self, deadline_s: float) -> None:
        """Wait until a signal has stopped the process."""
        _until(lambda: self._status() == psutil.STATUS_STOPPED, deadline_s)

    def words(self) -> str:
        """Return what the process printed."""
        return self.log.read_text("utf-8", "replace")

    def hang_up(self) -> None:
        """Close the pipe: the process stops its server and ends."""
        self._pipe.close()

    def end(self, deadline_s: float = _END_S) -> bool:
        """Let the process end, or kill it; whether it ended by itself."""
        self.hang_up()
        try:
            self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        """End the process at once, frozen or not."""
        self.hang_up()
        self._process.kill()
        self._process.wait()

    def _status(self) -> str:
        return str(psutil.Process(self.pid).status())

    def _gone(self, what: str) -> PeerLost:
        status = self._process.poll()
        return PeerLost(
            f"process {self.pid} has ended ({status}) and cannot {what}; its last "
            f"words: {self.words()[-500:]}"
        )


class ProcessCluster:
    """Tasks in processes of their own; looks like a `kit.Cluster` to `kit.train`."""

    def __init__(self, tasks: list[Task], folder: Path, settings: Settings) -> None:
        """Start all processes at the same time, and one to spare."""
        self.tasks = tasks
        self._folder = folder
        over_tcp = settings.transport == "tcp"
        self._settings = settings.replace(
            runtime_dir=str(folder), transport="tcp" if over_tcp else "unix"
        )
        self._credentials = Credentials.new(
            certificate=over_tcp and not settings.insecure
        )
        self._n_started = 0
        self._processes = {task: self._start() for task in tasks}
        self._spare = self._start()
        self._addresses: dict[Task, str] = {}

    def open(self) -> None:
        """Start the servers and tell them of each other."""
        self._settle(self.tasks)

    def __getitem__(self, task: Task) -> TaskProcess:
        """Return the process of a task."""
        return self._processes[task]

    def launch(self, job: Job, work: Work) -> Run:
        """Begin a training on all tasks; raises what the first one refuses with."""
        try:
            for task, process in self._processes.items():
                process.tell("begin", job, None if task.job == "ps" else work)
            self._answers("begin")
        except KitError:
            for process in self._living():
                process.tell("give_up", job.run)
            self._answers("give_up")
            raise
        return Run(job, self.dial)

    def dial(self, task: Task, run: str) -> Caller:
        """Return a link for questions to a task."""
        directory = Directory(
            self._addresses, self._credentials, self._folder, self._settings
        )
        return Caller(directory.dial(task, CLIENT, Role.OBSERVER, run))

    def restart_dead(self) -> list[Task]:
        """Give every dead or frozen task a new process; returns those tasks."""
        dead = [task for task in self.tasks if not self._processes[task].is_well]
        for task in dead:
            self._processes[task].kill()
            self._processes[task], self._spare = self._spare, self._start()
        self._settle(dead)
        return dead

    def words(self) -> str:
        """Return what the processes printed, for the report of a failure."""
        return "\n".join(
            f"--- {task.short} (pid {process.pid})\n{process.words()}"
            for task, process in self._processes.items()
        )

    def stacks(self) -> str:
        """Return where every thread of every living process is, and `words`."""
        for process in self._living():
            process.signal(signal.SIGCONT)
            process.signal(signal.SIGUSR1)
        threading.Event().wait(0.2)  # they write while we look
        return self.words()

    def close(self) -> list[Task]:
        """End all processes; returns the tasks that had to be killed."""
        processes = [*self._processes.values(), self._spare]
        for process in processes:
            process.hang_up()
            if process.is_alive:
                process.signal(signal.SIGCONT)
        ended = [process.end() for process in processes]
        return [task for task, good in zip(self.tasks, ended, strict=False) if not good]

    def _start(self) -> TaskProcess:
        self._n_started += 1
        return TaskProcess(self._folder / f"process-{self._n_started}.log")

    def _settle(self, fresh: list[Task]) -> None:
        """Host the tasks in their processes, then tell everybody where they are."""
        for task in fresh:
            self._processes[task].tell("start", self._config(task))
        for task in fresh:
            self._addresses[task] = self._processes[task].answer("start")["address"]
        spec: dict[str, list[str]] = {}
        for task in self.tasks:
            spec.setdefault(task.job, []).append(self._addresses[task])
        for task in self.tasks:
            self._processes[task].tell("connect", spec)
        self._answers("connect")

    def _living(self) -> list[TaskProcess]:
        return [one for one in self._processes.values() if one.is_alive]

    def _answers(self, what: str) -> None:
        """Take the answers of all, then raise the first error among them."""
        errors = []
        for process in self._living():
            try:
                process.answer(what)
            except KitError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _config(self, task: Task) -> dict[str, Any]:
        return {
            "job": task.job,
            "index": task.index,
            "runtime_dir": str(self._folder),
            "transport": self._settings.transport,
            "insecure": self._settings.insecure,
            "settings": self._settings.as_plain(),
            "credentials": self._credentials.to_plain(),
        }


@contextmanager
def process_cluster(
    ps: int = 1, worker: int = 2, *, settings: Settings | None = None
) -> Iterator[ProcessCluster]:
    """Give a cluster of bare processes, and end them, whatever has happened to them.

    They listen on unix sockets, with `transport="tcp"` in the settings on 127.0.0.1.
    An error that leaves the block carries what the processes printed as a note. Raises
    `DeadlineExceededError` when a living process did not end in order.
    """
    tasks = [Task("ps", index) for index in range(ps)]
    tasks += [Task("worker", index) for index in range(worker)]
    with tempfile.TemporaryDirectory(prefix="kit-") as folder:
        cluster = ProcessCluster(tasks, Path(folder), settings or current())
        try:
            cluster.open()
            yield cluster
        except BaseException as error:
            error.add_note(cluster.stacks())
            cluster.close()
            raise
        killed = cluster.close()
        if killed:
            names = ", ".join(task.short for task in killed)
            raise DeadlineExceededError(
                f"{names} did not end within {_END_S:g} s.\n{cluster.words()}"
            )


def _until(holds: Callable[[], bool], deadline_s: float) -> None:
    end, pause = time.monotonic() + deadline_s, threading.Event()
    while not holds():
        if time.monotonic() > end:
            raise DeadlineExceededError(f"it did not happen within {deadline_s:g} s.")
        pause.wait(_LOOK_S)


def host(pipe: Connection) -> None:
    """Do what comes through the pipe, until it closes: the other side of `tell`."""
    table: dict[str, Callable[..., Any]] = {
        "start": engine.start,
        "connect": engine.connect,
        "begin": engine.begin,
        "give_up": engine.give_up,
    }
    while True:
        try:
            what, values = cloudpickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            break
        answer: tuple[bool, Any]
        try:
            answer = True, table[what](*values)
        except Exception as error:
            answer = False, to_plain(error)
        pipe.send_bytes(cloudpickle.dumps(answer))
    with suppress(KitError):
        engine.stop()


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    host(Connection(int(sys.argv[1])))
