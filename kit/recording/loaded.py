"""A recording as a finished `Run`: what boards, reports and tables take.

It is the same class. Instead of an observer that asks the tasks, it has one that knows
everything from the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from kit.errors import AbortedError, DataLossError, FailedPreconditionError, KitError
from kit.recording.content import Content, read_content
from kit.task import Task
from kit.trace.named_rows import EpochRow
from kit.trace.trace import Trace
from kit.training.client.flight_recorder import Flight
from kit.training.client.recorded import Cursors, News, Recorded, Tables
from kit.training.client.requests import over
from kit.training.client.run import Run
from kit.training.client.stuck_tasks import StuckTasks
from kit.training.client.watched import Teller, Watched
from kit.training.elastic.generation import Change
from kit.training.job import Job
from kit.wire.rpc import Caller


class LoadedObserver:
    """The `RunSource` of a training that is over."""

    def __init__(self, content: Content) -> None:
        """Take what a recording contains."""
        self.content, self._tables = content, content.tables
        self.stuck = StuckTasks()
        self.finished: Future[None] = Future()
        error = content.error if content.end is not None else _unfinished(content)
        if error is None:
            self.finished.set_result(None)
        else:
            self.finished.set_exception(error)
        self.coordinator = Watched(
            state="failed" if error else "done", step=content.n_done
        )
        tables = [self._tables[kind] for kind in ("TRAN", "SPAN", "STEP", "MEAS")]
        self.recorded = Recorded(max(1, *map(len, tables)))
        unread = int(content.end["unread"]) if content.end is not None else 0
        lacks = int(content.lacks_messages)
        self.recorded.add(News(tables, [max(unread, lacks), lacks, 0, 0]))

    @property
    def job(self) -> Job:
        """The job of the training."""
        return self.content.job

    def stuck_tasks(self) -> list[Task]:
        """Return no task: none is left."""
        return []

    def epoch(self) -> EpochRow | None:
        """Return the last epoch."""
        return self.content.epochs[-1] if self.content.epochs else None

    def epochs(self) -> tuple[EpochRow, ...]:
        """Return all epochs."""
        return self.content.epochs

    def pending(self) -> str:
        """Return no request: none can be made."""
        return ""

    def requested(self) -> None:
        """Return no request: none can be made."""

    def leads(self) -> dict[str, Any]:
        """Return what the coordinator would say now: nothing."""
        return {}

    def command(self, what: str, **values: Any) -> None:
        """Refuse: the training is over."""
        raise over()

    def come_back(self, member: int, incarnation: int) -> None:
        """Refuse: the training is over."""
        raise over()

    def at_end(self, call: Callable[[KitError | None], None]) -> bool:
        """Return False: it has ended."""
        return False

    def let_tell(self, teller: Teller) -> None:
        """Do nothing: what was printed is not recorded."""

    def reach(self, member: int) -> Caller:
        """Refuse: the training is over."""
        raise over()

    def close(self) -> None:
        """Do nothing: nobody is asked."""

    def catch_up(self, timeout: float) -> None:
        """Do nothing: all is known."""

    def wait(self, timeout: float | None) -> None:
        """Raise what the training failed with, at once."""
        self.finished.result(0)

    def step(self) -> int:
        """Return how many steps were done."""
        return self.content.n_done

    def state(self) -> str:
        """Return done or failed."""
        return self.coordinator.state

    def flight(self) -> Flight:
        """Refuse: what tasks were doing at the end is not recorded."""
        raise FailedPreconditionError(
            "what each task was doing last is not in a recording; run.error and "
            "run.bottleneck of a loaded run say what it ended with."
        )

    def lost(self) -> dict[int, str]:
        """Return the members that were gone at the end."""
        plain = self.content.end["lost"] if self.content.end is not None else {}
        return {int(number): str(text) for number, text in plain.items()}

    def is_silent(self, member: int) -> bool:
        """Return True: nobody can be asked."""
        return True

    def changes(self) -> tuple[Change, ...]:
        """Return what an elastic training had lost and taken in."""
        return self.content.changes

    def unrepeatable(self) -> dict[int, int]:
        """Return no worker: `kit.replay` finds out."""
        return {}

    def n_steps(self) -> dict[tuple[int, int], int]:
        """Return by member and epoch how many steps it has done."""
        if self.content.end is not None:
            return {(m, epoch): n for m, epoch, n in self.content.end["n_steps"]}
        steps = self._tables["STEP"]
        pairs = zip(steps["task"].tolist(), steps["epoch"].tolist(), strict=True)
        return dict(Counter(pairs))

    def trace(self) -> Trace:
        """Return all that was recorded."""
        return self._trace(self.recorded.since())

    def news(self, cursors: Cursors) -> tuple[Trace, Cursors]:
        """Return what comes after `cursors`, and where it ends."""
        found = self.recorded.since(cursors)
        return self._trace(found), found.cursors

    def params(self) -> bytearray:
        """Return the flat parameters at the end."""
        flat = self.final()
        if flat is None:
            raise FailedPreconditionError(
                f"{self.content.name} does not hold the last parameters: the recording "
                f"was not finished. kit.replay computes them again."
            )
        return flat

    def final(self) -> bytearray | None:
        """Return the flat parameters at the end, None if they are not known."""
        values = self.content.last_parameters()
        if values is None:
            return None
        flat = bytearray(self.job.layout.n_bytes)
        for leaf in self.job.layout.leaves:
            flat[leaf.range.lo : leaf.range.hi] = values[leaf.spec.name].tobytes()
        return flat

    def _trace(self, found: Tables) -> Trace:
        transfers, spans, steps, measures = found.tables
        return Trace(
            tuple(map(str, self.job.tasks)),
            self.content.epochs,
            transfers,
            spans,
            steps,
            self._tables["LAST"],
            self.content.saves,
            measures,
            found.kept,
            insecure=self.job.settings.insecure,
        )


def _unfinished(content: Content) -> KitError:
    return AbortedError(
        f"{content.name} was not finished: its program was ended, or its disk was "
        f"full. It holds the training up to step {content.n_done}."
    )


def load_run(folder: str | Path) -> Run:
    """Return a recorded training as a `Run` that is over.

    Boards, reports and tables accept it like one that was trained just now.

    Parameters
    ----------
    folder : str or Path
        What `kit.train(..., record=folder)` has written.

    Returns
    -------
    Run
        With the losses, metrics, trace and last parameters. If the recording was not
        finished, the run counts as failed, and has what was written until then.

    Raises
    ------
    NotFoundError
        There is no recording.
    InvalidArgumentError
        The files are not those of a recording, or are not regular files.
    VersionMismatch
        The recording has another version of the format.
    DataLossError
        The recording is damaged.

    Notes
    -----
    Reads the log and the messages once, and executes nothing of them.

    Examples
    --------
    >>> import tempfile
    >>> import kit, numpy as np
    >>> from kit.testing.cluster import local_cluster
    >>> def step(params, batch):
    ...     error = batch[0] @ params["w"] - batch[1]
    ...     return (error**2).mean(), {"w": 2 * batch[0].T @ error / len(error)}
    >>> data, parent = (np.eye(4), np.arange(4.0)), tempfile.TemporaryDirectory()
    >>> folder = parent.name + "/run-1"
    >>> with local_cluster(ps=1, worker=2) as cluster:
    ...     run = kit.train(
    ...         step, {"w": np.zeros(4)}, data, batch=4, steps=20,
    ...         record=folder, cluster=cluster,
    ...     ).wait()
    >>> loaded = kit.load_run(folder)
    >>> loaded.step, loaded.loss == run.loss, len(loaded.metrics)
    (20, True, 20)
    >>> parent.cleanup()
    """
    content = read_content(folder)
    try:
        observer = LoadedObserver(content)
    except (KeyError, TypeError, ValueError, OverflowError) as exc:
        raise DataLossError(f"{content.name} is damaged: {exc}.") from exc
    return Run.over(content.job, observer)


def content_of(given: str | Path | Run | Content) -> Content:
    """Return what a recording contains, given its folder or a run."""
    if isinstance(given, Content):
        return given
    if isinstance(given, Run):
        if isinstance(given.source, LoadedObserver):
            return given.source.content
        if given.recording is None:
            raise FailedPreconditionError(
                "this run was not recorded; begin it with kit.train(..., "
                "record=folder), or give the folder of a recording."
            )
        return read_content(given.recording.options.path)
    return read_content(given)
