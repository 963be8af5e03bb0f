"""Run a cell on tasks: its output, which tasks fail or hang, and the stop button.

A polling (see `kit.cluster.polling`) does it, so that a notebook's widgets stay alive
meanwhile. The caller says what to do with output: a notebook shows it, `Cluster.on`
collects it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kit.cluster.cells.cell_output import CellOutput, OutputKind
from kit.cluster.cells.cells import CellRun
from kit.cluster.cells.failures import TaskFailure, rendered, summary
from kit.cluster.polling import Polling
from kit.errors import DeadlineExceededError, PeerLost, UnknownError
from kit.task import Task

# Ten checks a second would do for the eye, but short cells should end quickly.
_CHECK_S = 0.05
_SOON_S = 0.005
_PATIENCE_S = 3.0

Show = Callable[[Sequence[CellOutput]], object]


@dataclass(frozen=True)
class Outcome:
    """The output of a cell on one task.

    Parameters
    ----------
    task : Task
        Where it ran.
    stdout, stderr : str
        All that it wrote.
    result : str
        The text of its last expression; empty if that has no value.
    shown : tuple of dict
        Everything displayed, including the result: each a dict of formats by MIME type.
    """

    task: Task
    stdout: str
    stderr: str
    result: str
    shown: tuple[Mapping[str, object], ...]


class CellFailed(UnknownError):
    """A cell raised on a task. `failures` has all failures, `lines` the text to show.

    Those that say what has happened on another task come last.

    Raised in the notebook when all tasks have finished the cell. The user corrects the
    cell; what it did before it raised stays done, and a retry starts from there.
    """

    def __init__(self, failures: Sequence[TaskFailure]) -> None:
        failures = sorted(failures, key=lambda failure: failure.is_effect)
        super().__init__(summary(failures), task=str(failures[0].task))
        self.failures = tuple(failures)
        self.lines = rendered(failures)


class TaskLostInCell(CellFailed, PeerLost):
    """A cell failed because a task was lost; other tasks may have raised too.

    Raised in the notebook, as `CellFailed` is. The user restarts the task
    (`cluster.restart`) and runs the cells again that set it up. A retry helps after
    that.
    """

    code = PeerLost.code


class CellInterrupted(KeyboardInterrupt):
    """A cell was stopped by Ctrl-C or the stop button; the text says on which tasks."""


class BeginsCells(Protocol):
    """What `cells_on` needs of a cluster."""

    def begin_cell(self, where: Sequence[Task], code: str) -> CellRun:
        """Begin a cell on these tasks."""

    def begin_naming(self, task: Task) -> CellRun:
        """Begin to set `task` in the task's namespace to the task itself."""


def cells_on(
    cluster: BeginsCells, tasks: Sequence[Task], code: str, *, each: bool
) -> Iterator[CellRun]:
    """Begin one cell on all tasks, or, with `each`, one after the other on each."""
    if not each:
        yield cluster.begin_cell(tasks, code)
        return
    for task in tasks:
        yield cluster.begin_naming(task)
        yield cluster.begin_cell([task], code)


def on_tasks(
    run: CellRun,
    show: Show,
    timeout_s: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Polling[None]:
    """Follow a cell to its end on all tasks, showing its output as it comes.

    Raises `CellFailed` if it raised anywhere (also a `PeerLost` if a task was lost),
    `DeadlineExceededError` after `timeout_s`, and `CellInterrupted` after Ctrl-C. In
    the last two cases the tasks that had not finished got a SIGINT, and the error names
    those that do not react to it.
    """
    try:
        yield from _until_over(run, show, timeout_s, clock)
    except KeyboardInterrupt:
        # The cell ends on the tasks, not here: wait for that, and show what still
        # comes.
        stopped = run.interrupt()
        yield from _until_over(run, show, _PATIENCE_S, clock)
        raise CellInterrupted(_interrupted(stopped, run.waiting)) from None
    if run.waiting:
        late = run.interrupt()
        yield from _until_over(run, show, _PATIENCE_S, clock)
        raise _too_late(late, run.waiting, timeout_s or 0.0)
    if run.failures:
        is_lost = any(failure.name == PeerLost.__name__ for failure in run.failures)
        raise (TaskLostInCell if is_lost else CellFailed)(run.failures)


def _until_over(
    run: CellRun, show: Show, timeout_s: float | None, clock: Callable[[], float]
) -> Polling[None]:
    begin = clock()
    while run.waiting:
        past_s = clock() - begin
        if timeout_s is not None and past_s >= timeout_s:
            break
        yield _CHECK_S if past_s > 10 * _SOON_S else _SOON_S
        show(run.outputs())
    show(run.outputs())


def _names(tasks: Sequence[Task]) -> str:
    return ", ".join(task.short for task in tasks)


def _interrupted(stopped: Sequence[Task], silent: Sequence[Task]) -> str:
    if not stopped:
        return "interrupted; the cell was over on all tasks."
    if not silent:
        return f"interrupted on {_names(stopped)}; the cluster goes on."
    return f"interrupted on {_names(stopped)}; {_is_silent(silent)}"


def _is_silent(silent: Sequence[Task]) -> str:
    verb = "does" if len(silent) == 1 else "do"
    name = silent[0].short
    return (
        f"{_names(silent)} {verb} not react within {_PATIENCE_S:g} s. Code outside of "
        f"Python may end later; cluster.restart({name!r}) ends it at once."
    )


def _too_late(
    late: Sequence[Task], silent: Sequence[Task], timeout_s: float
) -> DeadlineExceededError:
    verb = "has" if len(late) == 1 else "have"
    end = _is_silent(silent) if silent else "Give more time, or look why."
    return DeadlineExceededError(
        f"{_names(late)} {verb} not answered within {timeout_s:g} s and got an "
        f"interrupt. {end}",
        task=str(late[0]),
    )


def collected(tasks: Sequence[Task], outputs: Sequence[CellOutput]) -> list[Outcome]:
    """Return the output of each task, from all outputs in their order.

    >>> output = CellOutput(Task("worker", 0), OutputKind.STDOUT, text="hello")
    >>> collected([output.task], [output])[0].stdout
    'hello'
    """
    return [_outcome(task, [o for o in outputs if o.task == task]) for task in tasks]


def _outcome(task: Task, outputs: Sequence[CellOutput]) -> Outcome:
    def text(kind: OutputKind) -> str:
        return "".join(output.text for output in outputs if output.kind is kind)

    shown = tuple(output.data for output in outputs if not output.is_stream)
    return Outcome(
        task,
        text(OutputKind.STDOUT),
        text(OutputKind.STDERR),
        text(OutputKind.RESULT),
        shown,
    )
