"""A session on a task with pretended GPUs, whose arrays refuse to mix with others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kit.arrays import Gpu
from kit.errors import NotFoundError
from kit.session.client import targets
from kit.session.client.session import Session
from kit.session.master.cluster_tasks import ClusterTasks
from kit.session.master.master import Master
from kit.session.transport.peers import Peers
from kit.session.worker.task_runtime import TaskRuntime
from kit.session.worker.worker import Worker
from kit.task import Task
from tests.strict_arrays import StrictGpu

TASK = Task("localhost", 0)
TARGET = "a task with GPUs"


@contextmanager
def task_with(gpus: Sequence[Gpu]) -> Iterator[TaskRuntime]:
    """Let `TARGET` be a task that has these GPUs."""

    def dial(task: Task, _: float) -> Any:
        raise NotFoundError(f"{task} is not there.")

    runtime = TaskRuntime(TASK, gpus=lambda: gpus)
    worker = Worker(runtime, Peers(dial))
    master = Master(worker, ClusterTasks(worker, lambda: [TASK]))
    targets.enter(TARGET, master)
    try:
        yield runtime
    finally:
        targets.leave(TARGET)
        master.close()


@contextmanager
def session_with(
    n_gpus: int = 1, **options: Any
) -> Iterator[tuple[Session, list[StrictGpu]]]:
    """Give a session of the default graph on a task with so many pretended GPUs."""
    gpus = [StrictGpu(number) for number in range(n_gpus)]
    with task_with(gpus), Session(TARGET, **options) as session:
        yield session, gpus
