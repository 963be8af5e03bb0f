"""What a cluster looks like: one line of text, or a table for the notebook.

Pure. The table is plain semantic HTML without colours, so it is readable on a light and
on a dark background; a state is always a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kit.cluster.memory import shrunk
from kit.cluster.options import as_arguments
from kit.markup import Html, rows_table
from kit.task import Task

_TASKS_PER_CORE = 2  # such as a server and a worker: one waits for the other


class ClusterState(StrEnum):
    """The state of a task, or of a whole cluster."""

    NEW = "new"
    STARTING = "starting"
    READY = "ready"
    LOST = "lost"
    STOPPING = "stopping"
    STOPPED = "stopped"


# Why a task that is not lost cannot be used, by its state.
_AWAY = {
    ClusterState.STARTING: "is being restarted",
    ClusterState.STOPPING: "is being stopped with its cluster",
    ClusterState.STOPPED: "was stopped with its cluster",
}


@dataclass(frozen=True)
class TaskStatus:
    """What is known about one task.

    Parameters
    ----------
    task : Task
        Which task it is.
    state : ClusterState
        Its state.
    pid : int, optional
        The process id on its host; None while it has no process.
    host : str
        The name of its host; empty until it is known.
    reason : str
        Why it is lost, or why it could not be restarted.
    phase : str
        How far its start is.
    ready_s : float, optional
        How many seconds its start took; None before it was ready.
    gpus : tuple of str
        The GPUs of its host that it sees, by CUDA's names, if it was given some.
    """

    task: Task
    state: ClusterState = ClusterState.NEW
    pid: int | None = None
    host: str = ""
    reason: str = ""
    phase: str = ""
    ready_s: float | None = None
    gpus: tuple[str, ...] = ()

    @property
    def why_away(self) -> str:
        """Why the task cannot be used; empty while it can."""
        is_lost = self.state is ClusterState.LOST
        return self.reason if is_lost else _AWAY.get(self.state, "")

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.task.short} {self.state}{reason}"


def one_line(
    state: str,
    jobs: Mapping[str, int],
    threads: int,
    lost: Sequence[str],
    warning: str = "",
) -> str:
    """Return the cluster in one line.

    >>> one_line("ready", {"ps": 1, "worker": 3}, 2, [])
    '<Cluster ready: ps=1 worker=3, 2 BLAS threads each>'
    """
    counts = " ".join(f"{job}={n}" for job, n in jobs.items())
    plural = "s" if threads != 1 else ""
    each = f", {threads} BLAS thread{plural} each" if threads else ""
    gone = f", lost: {', '.join(lost)}" if lost else ""
    warned = f", {warning}" if warning else ""
    return f"<Cluster {state}: {counts}{each}{gone}{warned}>"


def beside(others: Sequence[str]) -> str:
    """Return what to do about clusters that run already where another one starts.

    >>> print(beside(["<Cluster ready: ps=1 worker=3>"])[:64])
    another cluster starts beside <Cluster ready: ps=1 worker=3>, wh
    """
    return (
        f"another cluster starts beside {' and '.join(others)}, which goes on until "
        f"it is stopped. To use what runs, write cluster = kit.current_cluster() in "
        f"place of the start; kit.current_cluster().stop() ends the one that was "
        f"started last, and, called again, the one before it. %%cluster and `with "
        f"kit.Cluster(...)` leave none behind when a cell is run again."
    )


def few_cores(jobs: Mapping[str, int], cores: int) -> str:
    """Return what many tasks on each core mean for speed; nothing for up to two.

    >>> few_cores({"ps": 1, "worker": 3}, 2)
    ''
    >>> print(few_cores({"ps": 1, "worker": 40}, 2))
    41 tasks on 2 cores: about 20 take turns on each core, so a step takes about 20
    times as long as with a core for each task. ps=1, worker=1 would have that.
    """
    n_tasks = sum(jobs.values())
    if n_tasks <= _TASKS_PER_CORE * cores:
        return ""
    times, plural = n_tasks // cores, "s" if cores != 1 else ""
    fitting = shrunk(jobs, cores)
    advice = f" {as_arguments(fitting)} would have that." if fitting else ""
    return (
        f"{n_tasks} tasks on {cores} core{plural}: about {times} take turns on each "
        f"core, so a step takes about {times}\ntimes as long as with a core for each "
        f"task.{advice}"
    )


def table(
    caption: str,
    statuses: Sequence[TaskStatus],
    memory_mib: Mapping[Task, float],
    foot: str = "",
) -> Html:
    """Return an HTML table with a row for each task."""
    heads: tuple[str, ...] = ("task", "pid", "host", "state", "memory, MiB")
    rows = [_row(status, memory_mib) for status in statuses]
    if any(status.gpus for status in statuses):
        heads = (*heads, "GPU")
        gpus = [gpus_in_words(status, statuses) for status in statuses]
        rows = [(*row, text) for row, text in zip(rows, gpus, strict=True)]
    return rows_table(caption, heads, rows, foot)


def gpus_in_words(status: TaskStatus, statuses: Sequence[TaskStatus]) -> str:
    """Return the GPUs of a task, and with which tasks it shares them.

    >>> first, second = (TaskStatus(Task("worker", n), gpus=("0",)) for n in range(2))
    >>> gpus_in_words(first, [first, second])
    '0, shared with worker:1'
    """
    texts = []
    for gpu in status.gpus:
        others = [
            other.task.short
            for other in statuses
            if other.task != status.task
            and other.host == status.host
            and gpu in other.gpus
        ]
        texts.append(f"{gpu}, shared with {', '.join(others)}" if others else gpu)
    return "; ".join(texts)


def _row(status: TaskStatus, memory_mib: Mapping[Task, float]) -> tuple[str, ...]:
    memory = memory_mib.get(status.task)
    state = f"{status.state}: {status.reason}" if status.reason else str(status.state)
    return (
        status.task.short,
        "" if status.pid is None else str(status.pid),
        status.host,
        state,
        "" if memory is None else f"{memory:.0f}",
    )
