"""A cluster whose tasks live at the two ends of a wire; `kit.train` takes it as one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from kit.errors import DeadlineExceededError, from_plain
from kit.server.directory import Directory
from kit.settings import Settings
from kit.task import Task
from kit.training.client.run import Run
from kit.training.core.job import Job, Work
from kit.wire.handshake.credentials import Credentials
from kit.wire.handshake.messages import Role
from kit.wire.rpc import Caller
from tests.net.netlab import ADDRESS, EmulatedWire

ROOT = Path(__file__).parents[2]
CLIENT = Task("client", 0)
PATIENCE_S = 120.0  # a busy machine starts processes slowly
# Numpy's threads would only fight for the cores here.
ENVIRONMENT = {
    **os.environ,
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONPATH": str(ROOT),
}


class TaskProcess:
    """A process of `task_process`, at one end of the wire."""

    def __init__(
        self, wire: EmulatedWire, end: str, task: Task, log: IO[bytes]
    ) -> None:
        self.task, self.end = task, end
        self.process = wire.spawn(
            end,
            [sys.executable, "-m", "tests.net.task_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=ROOT,
            env=ENVIRONMENT,
        )
        # The pipe's lines are read by a thread, so that a deadline can be kept.
        self._reader = ThreadPoolExecutor(1)
        self.address = ""

    def tell(self, line: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self, timeout_s: float = PATIENCE_S) -> Any:
        assert self.process.stdout is not None
        try:
            text = self._reader.submit(self.process.stdout.readline).result(timeout_s)
        except TimeoutError as exc:
            raise DeadlineExceededError(f"{self.task} gave no answer.") from exc
        assert text, f"the process of {self.task} has ended; see its log"
        reply = json.loads(text)
        if "error" in reply:
            raise from_plain(reply["error"])
        return reply["answer"]

    def ask(self, **line: Any) -> Any:
        self.tell(line)
        return self.answer()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.shutdown()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


class NetCluster:
    """Tasks at both ends of a wire; the client sits at one of them: `end`."""

    def __init__(
        self,
        wire: EmulatedWire,
        processes: list[TaskProcess],
        directory: Directory,
        log: Path,
    ) -> None:
        self.wire, self.processes, self.directory = wire, processes, directory
        self.log, self.end = log, "a"

    @property
    def tasks(self) -> list[Task]:
        return [process.task for process in self.processes]

    @property
    def hosts(self) -> list[str]:
        return self.directory.hosts(self.tasks)

    def launch(self, job: Job, work: Work) -> Run:
        for process in self.processes:
            process.tell({"do": "begin", "job": job.to_plain()})
        for process in self.processes:
            process.answer()
        return Run(job, self.dial)

    def dial(self, task: Task, run: str, address: str = "") -> Caller:
        link = self.wire.call(
            self.end,
            lambda: self.directory.dial(
                task, CLIENT, Role.OBSERVER, run, address=address
            ),
        )
        return Caller(link)

    def ends(self, run: Run) -> dict[Task, dict[str, Any]]:
        """Return each task's own report of a training that is over."""
        for process in self.processes:
            process.tell({"do": "end", "run": run.job.run})
        return {process.task: process.answer() for process in self.processes}


def addresses(processes: list[TaskProcess]) -> dict[str, list[str]]:
    spec: dict[str, list[str]] = {}
    for process in processes:
        spec.setdefault(process.task.job, []).append(process.address)
    return spec


@contextmanager
def net_cluster(
    folder: Path,
    places: dict[str, str],
    *,
    settings: Settings,
    seed: int = 1,
    old_kernel: bool = False,
    counts: bool = True,
) -> Iterator[NetCluster]:
    """Start tasks at ends, `{"ps:0": "a", "worker:0": "b"}`, with TLS unless insecure.

    With `old_kernel` TCP waits longer and longer, as it does before Linux 6.15. With
    `counts` the tasks ask the kernel what it carried, which delays the ends of links.
    Everything is ended when the block is left. `folder` gets the tasks' log.
    """
    # "tcp", since the kernel counts nothing else, and tasks of one end have sockets.
    settings = settings.replace(runtime_dir=str(folder), transport="tcp")
    credentials = Credentials.new(certificate=not settings.insecure)
    log = folder / "log.txt"
    with ExitStack() as stack:
        file = stack.enter_context(log.open("ab"))
        wire = stack.enter_context(EmulatedWire(seed))
        processes = []
        for name, end in places.items():
            task = Task.parse(name)
            process = TaskProcess(wire, end, task, file)
            stack.callback(process.close)
            processes.append(process)
            process.tell(
                {
                    "job": task.job,
                    "index": task.index,
                    "address": f"{ADDRESS[end]}:0",
                    "credentials": credentials.to_plain(),
                    "settings": settings.as_plain(),
                    "old_kernel": old_kernel,
                    "counts": counts,
                }
            )
        for process in processes:
            process.address = process.answer()
        spec = addresses(processes)
        for process in processes:
            process.ask(do="connect", spec=spec)
        listed = {process.task: process.address for process in processes}
        directory = Directory(listed, credentials, folder, settings)
        yield NetCluster(wire, processes, directory, log)
