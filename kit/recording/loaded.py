"""A recording as a finished `Run`: what boards, reports and tables take.

It is the same class, and reads the same fold of facts: what the recorder has kept is
what an observer had been told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from kit.errors import AbortedError, DataLossError, FailedPreconditionError, KitError
from kit.recording.content import Content, read_content
from kit.recording.recorder import Recorder
from kit.trace.named_rows import Change
from kit.training.client.facts import TrainingFacts
from kit.training.client.flight_recorder import Flight
from kit.training.client.run import Run
from kit.training.client.watched import News, Watched


class LoadedFacts(TrainingFacts):
    """What a recording tells of a training, which is over."""

    def __init__(self, content: Content) -> None:
        """Take what a recording contains."""
        job, tables, end = content.job, content.tables, content.end
        error = content.error if end is not None else _unfinished(content)
        done: Mapping[tuple[int, int], int]
        if end is not None:
            done = {(member, epoch): n for member, epoch, n in end["n_steps"]}
        else:
            of_steps = (tables["STEP"][name].tolist() for name in ("task", "epoch"))
            done = Counter(zip(*of_steps, strict=True))
        watched = [
            Watched(n_steps={e: n for (m, e), n in done.items() if m == member})
            for member, _ in enumerate(job.tasks)
        ]
        leads = watched[job.coordinator]
        leads.state, leads.step = "failed" if error else "done", content.n_done
        leads.epochs, leads.totals = list(content.epochs), tables["LAST"]
        lost = end["lost"] if end is not None else {}
        leads.leads = {"lost": lost, "saves": {"rows": content.saves}}
        leads.leads |= {"libraries": content.libraries}
        if content.arithmetic is not None:
            leads.leads["arithmetic"] = content.arithmetic.to_plain()
        rows = [tables[kind] for kind in ("TRAN", "SPAN", "STEP", "MEAS")]
        super().__init__(job, watched, job.coordinator, max(1, *map(len, rows)))
        self.content = content
        unread = int(end["unread"]) if end is not None else 0
        lacks = int(content.lacks_messages)
        self.rows.add(News(rows, [max(unread, lacks), lacks, 0, 0]))
        self.stuck.end([], self.finished, error)

    def flight(self) -> Flight:
        """Refuse: what tasks were doing at the end is not recorded."""
        raise FailedPreconditionError(
            "what each task was doing last is not in a recording; run.error and "
            "run.bottleneck of a loaded run say what it ended with."
        )

    def versions(self) -> dict[str, str]:
        """Return those that it was recorded with."""
        return dict(self.content.about["versions"])

    def changes(self) -> tuple[Change, ...]:
        """Return what an elastic training had lost and taken in."""
        return self.content.changes

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
        facts = LoadedFacts(content)
        facts.trace()
    except (KeyError, TypeError, ValueError, OverflowError) as exc:
        raise DataLossError(f"{content.name} is damaged: {exc}.") from exc
    return Run.over(content.job, facts)


def content_of(source: str | Path | Run | Content) -> Content:
    """Return what a recording contains, given its folder or a run."""
    if isinstance(source, Content):
        return source
    if isinstance(source, Run):
        if isinstance(source.source, LoadedFacts):
            return source.source.content
        if not isinstance(source.recording, Recorder):
            raise FailedPreconditionError(
                "this run was not recorded; begin it with kit.train(..., "
                "record=folder), or give the folder of a recording."
            )
        return read_content(source.recording.options.path)
    return read_content(source)
