"""A cluster of bare processes: one for each task, started in a few milliseconds.

For tests of faults, in which a task must be able to die or to freeze. The servers,
links and trainings are real; only ipyparallel and its engines are missing. A process
lives as long as the pipe to the process that started it.

    with process_cluster(ps=1, worker=2) as cluster:
        run = kit.train(step, params, data, cluster=cluster)
        cluster[Task("worker", 1)].signal(SIGKILL)
        run.wait()                                      # raises PeerLost
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kit.errors import DeadlineExceededError, KitError
from kit.server.directory import Directory, short_folder
from kit.settings import Settings, current
from kit.task import Task
from kit.testing.cluster import BareCluster
from kit.testing.task_process import END_S, TaskProcess
from kit.training.client.run import Run
from kit.training.core.job import Job, Work
from kit.wire.handshake.credentials import Credentials


class ProcessCluster(BareCluster):
    """Tasks in processes of their own."""

    def __init__(self, tasks: list[Task], folder: Path, settings: Settings) -> None:
        """Start all processes at the same time, and a spare one for a restart."""
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
        self._work: Work | None = None  # of the training that began last

    def open(self) -> None:
        """Start the servers and tell them of each other."""
        self._settle(self.tasks)

    def __getitem__(self, task: Task) -> TaskProcess:
        """Return the process of a task."""
        return self._processes[task]

    def launch(self, job: Job, work: Work) -> Run:
        """Begin a training on all tasks; raise the first refusal."""
        self._work = work
        try:
            job = self._prepared(job)
            for task, process in self._processes.items():
                needs_work = task.job != "ps" or job.is_elastic
                process.tell("begin", job, work if needs_work else None)
            self._answers("begin")
        except KitError:
            for process in self._living():
                process.tell("give_up", job.run)
            self._answers("give_up")
            raise
        return Run(job, self.dial)

    def _prepared(self, job: Job) -> Job:
        if not job.needs_preparing:
            return job
        for process in self._living():
            process.tell("prepare", job)
        return job.at(*(item.answer("prepare") for item in self._living()))

    @property
    def directory(self) -> Directory:
        """Where the tasks are, and the key to authenticate with."""
        return Directory(
            self._addresses, self._credentials, self._folder, self._settings
        )

    def restart_dead(self) -> list[Task]:
        """Give every dead or frozen task a new process; returns those tasks."""
        dead = [task for task in self.tasks if not self._processes[task].is_well]
        for task in dead:
            self._processes[task].kill()
            self._processes[task] = self._take_spare()
        self._settle(dead)
        return dead

    def replace(self, task: Task) -> TaskProcess:
        """Give a task a new process.

        Parameters
        ----------
        task : Task
            One of the cluster's.

        Returns
        -------
        TaskProcess
            The last process, which goes on.
        """
        last = self._processes[task]
        self._processes[task] = self._take_spare()
        self._settle([task])
        return last

    def join(self, run: Run, task: Task) -> None:
        """Let a restarted task take part in a training that is under way.

        Parameters
        ----------
        run : Run
            A training that has started on this cluster.
        task : Task
            The one that was restarted.
        """
        process = self._processes[task]
        process.tell("join", run.newest_job, self._work)
        process.answer("join")

    def words(self) -> str:
        """Return what the processes printed, for a failure report."""
        return "\n".join(
            f"--- {task.short} (pid {process.pid})\n{process.words()}"
            for task, process in self._processes.items()
        )

    def abort(self) -> str:
        """End all processes at once; returns `words`, with the stacks of all threads.

        A process writes them when it is sent SIGABRT. That ends it too, as walking the
        frames of running threads can crash it.
        """
        for process in (living := self._living()):
            process.signal(signal.SIGABRT)
            process.signal(signal.SIGCONT)  # a stopped one acts on no other signal
        for process in living:
            process.end()
        return self.words()

    def close(self) -> list[Task]:
        """End all processes; return the tasks that had to be killed."""
        processes = [*self._processes.values(), self._spare]
        for process in processes:
            process.hang_up()
            if process.is_alive:
                process.signal(signal.SIGCONT)
        ended = [process.end() for process in processes]
        return [task for task, good in zip(self.tasks, ended, strict=False) if not good]

    def _take_spare(self) -> TaskProcess:
        if not self._spare.is_well:  # what ends the rest of a failed test ends it, too
            self._spare.kill()
            self._spare = self._start()
        result, self._spare = self._spare, self._start()
        return result

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
        return [process for process in self._processes.values() if process.is_alive]

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
    """Start a cluster of bare processes, and end them, whatever has happened to them.

    Parameters
    ----------
    ps, worker : int, default 1 and 2
        Numbers of parameter servers and workers.
    settings : Settings, optional
        By default the current settings. The processes listen on unix sockets, with
        `transport="tcp"` on 127.0.0.1.

    Yields
    ------
    ProcessCluster
        For `kit.train(cluster=...)`; it can also kill and replace its processes.

    Raises
    ------
    DeadlineExceededError
        A process that was alive did not end by itself.

    Notes
    -----
    To an error that leaves the block, a note is added with what the processes printed
    and the stacks of their threads.
    """
    tasks = [Task("ps", index) for index in range(ps)]
    tasks += [Task("worker", index) for index in range(worker)]
    with tempfile.TemporaryDirectory(prefix="kit-", dir=short_folder()) as folder:
        cluster = ProcessCluster(tasks, Path(folder), settings or current())
        try:
            cluster.open()
            yield cluster
        except BaseException as error:
            error.add_note(cluster.abort())
            cluster.close()
            raise
        killed = cluster.close()
        if killed:
            names = ", ".join(task.short for task in killed)
            raise DeadlineExceededError(
                f"{names} did not end within {END_S:g} s.\n{cluster.words()}"
            )
