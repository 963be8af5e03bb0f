"""`kit.compare`: some runs side by side, as numbers, curves and a page."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.experiments import words
from kit.experiments.summary import Row, RunSummary, row, tasks
from kit.handles import handle
from kit.markup import Html, in_cell
from kit.trace.trace import distinct
from kit.training.client.run import Run, view

if TYPE_CHECKING:
    import pandas as pd


@handle
class Comparison:
    """Some runs side by side; `kit.compare` returns it.

    It keeps no copy of the runs: each call shows them as they are now. As the last line
    of a cell it is drawn: the loss by step, by seconds and by bytes, on a linear or a
    logarithmic scale, smoothed or not; and bars of bytes and of time.

    Examples
    --------
    Look at the mean of each measure, and keep the page::

        comparison = kit.compare(ps, ring)
        comparison.frame().groupby("run").mean()
        comparison.save("ps and ring.html")
    """

    runs: tuple[Run, ...]
    names: tuple[str, ...]

    def __init__(self, runs: Sequence[Run], names: Sequence[str]) -> None:
        self.runs, self.names = tuple(runs), tuple(names)

    def outcomes(self) -> tuple[RunSummary, ...]:
        """Return each run as it is now, with its name; all else is made from these."""
        pairs = zip(self.names, self.runs, strict=True)
        return tuple(outcome_of(run, name) for name, run in pairs)

    def frame(self) -> pd.DataFrame:
        """Return the curves as one DataFrame, a row for each run and step.

        Returns
        -------
        pandas.DataFrame
            `run` is the name and `step` the number. `examples` is how many were used
            up to this step, `seconds` is the time from the
            start of the run's first step to the end of this one, pauses included;
            `bytes` is what all its tasks together received in steps up to this one;
            `loss` is the mean over the mini-batch; `step_seconds` the time the step
            took. Each other measure has a column, NaN at steps without a measurement.
            The older steps of a long run are thinned out, as `run.trace.kept` says.
        """
        import pandas as pd

        parts = []
        for outcome in self.outcomes():
            series = outcome.curves()
            columns: dict[str, Any] = {
                "run": [outcome.name] * len(series.step),
                "step": series.step,
                "examples": series.examples,
                "seconds": series.seconds,
                "bytes": series.bytes,
                "loss": series.loss,
                "step_seconds": series.step_seconds,
            }
            parts.append(pd.DataFrame(columns | series.measures))
        filled = [part for part in parts if len(part)] or parts[:1]
        return pd.concat(filled, ignore_index=True)

    def table(self) -> pd.DataFrame:
        """Return one row for each run: its configuration, its results, what it took.

        Returns
        -------
        pandas.DataFrame
            Indexed by `run`. `bytes_per_step` is the mean, for all tasks together;
            `ms_per_step` is the median; `steps_per_second` is the rate over `seconds`,
            from the start of the first step to the end of the last, pauses included.
            `compute_ms` and the like are the mean times that workers spent in a phase,
            for each step. In an asynchronous run a step is an update.
        """
        import pandas as pd

        return pd.DataFrame(self.rows()).set_index("run")

    def rows(self) -> list[Row]:
        """Return the rows of the table as dicts."""
        return [row(outcome) for outcome in self.outcomes()]

    def bands(self, measure: str = "loss", along: str = "step") -> pd.DataFrame:
        """Return the curve of each run, in the columns of `Sweep.bands`."""
        import pandas as pd

        parts = []
        for outcome in self.outcomes():
            places, values = outcome.curves().points(measure, along)
            columns = {along: places, "mean": values, "low": values, "high": values}
            parts.append(pd.DataFrame({"run": outcome.name, **columns, "n": 1}))
        return pd.concat(parts, ignore_index=True)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        measure: str = "loss",
        along: str = "step",
    ) -> None:
        """Write a page (.html) or a figure for a paper (.svg, .pdf, .png).

        The page needs neither a network nor a notebook, and has all measures.

        Parameters
        ----------
        path : str or PathLike
            The file to write, whose ending says what it is. It appears whole or not at
            all.
        measure : str, default "loss"
            What a figure shows: "loss", or what else was measured.
        along : {"step", "examples", "seconds", "bytes"}
            By what a figure shows it.

        Raises
        ------
        InvalidArgumentError
            The path has another ending, or nothing is called so.
        FailedPreconditionError
            bokeh, which draws the page, or matplotlib, which draws figures, is not
            installed.
        OSError
            The file cannot be written.
        """
        write = view("comparison_page")
        if write is None:
            raise FailedPreconditionError(
                "bokeh draws the page and cannot be imported; install it with "
                "`pip install psring`, or use table() and frame()."
            )
        write(self, path, measure, along)

    def __repr__(self) -> str:
        rows = self.rows()
        return words.text_table(rows) + unequal(rows).replace("; ", "\n", 1)

    def _repr_html_(self) -> Html:
        rows = self.rows()
        return in_cell(words.html_table(rows, f"{len(rows)} runs{unequal(rows)}"))

    def _ipython_display_(self) -> None:
        show = view("comparison")
        if show is None:
            raise NotImplementedError  # IPython then takes the table above
        show(self)


def compare(*runs: Run, names: Iterable[str] | None = None) -> Comparison:
    """Put two or more runs side by side: their loss, bytes and times.

    Parameters
    ----------
    *runs : Run
        Live or finished, of any length, on any clusters.
    names : iterable of str, optional
        What to call them; by default what they differ in, such as their topologies. If
        names are equal, the second becomes "ring (2)".

    Returns
    -------
    Comparison
        `frame()` has all steps, `table()` one row a run, `save()` writes a page.

    Raises
    ------
    InvalidArgumentError
        There are fewer than two runs, something is not a run, or there are more or
        fewer names than runs.

    Notes
    -----
    Curves may be laid over each other by step, by seconds or by bytes. By seconds they
    differ from machine to machine. Costs a pass over the rows of the traces.

    Examples
    --------
    >>> import kit, numpy as np
    >>> from kit.testing.cluster import local_cluster
    >>> def step(params, batch):
    ...     error = batch[0] @ params["w"] - batch[1]
    ...     return (error**2).mean(), {"w": batch[0].T @ error / len(error)}
    >>> data, start = (np.eye(4), np.arange(4.0)), {"w": np.zeros(4)}
    >>> with local_cluster(ps=1, worker=2) as cluster:  # in this process
    ...     asked = {"batch": 4, "steps": 20, "cluster": cluster}
    ...     ps = kit.train(step, start, data, **asked).wait()
    ...     ring = kit.train(step, start, data, topology="ring", **asked).wait()
    >>> kit.compare(ps, ring).table()["bytes_per_step"].to_dict()
    {'ps': 128.0, 'ring': 64.0}
    """
    if len(runs) < 2:
        what = f"{len(runs)} run{'s' * (len(runs) != 1)}"
        if runs and not isinstance(runs[0], Run):
            what = repr(runs[0])
        raise InvalidArgumentError(
            f"compare takes two runs or more, and was given {what}; write "
            f"kit.compare(a, b), or kit.compare(*runs) for a list."
        )
    for run in runs:
        if not isinstance(run, Run):
            raise InvalidArgumentError(
                f"compare takes runs, as kit.train returns them, and was given "
                f"{type(run).__name__}."
            )
    return Comparison(runs, _names(runs, names))


def outcome_of(run: Run, name: str) -> RunSummary:
    """Return a run as it is now."""
    # Before the trace: what is recorded in between then only makes the curves longer.
    # The other way round, a run that is done could lack its last steps.
    step, state, error = run.step, run.state, run.error
    return RunSummary(
        name=name,
        trace=run.trace,
        state=state,
        step=step,
        topology=run.topology,
        link=run.link,
        error=f"{type(error).__name__}: {error.message}" if error else "",
        earlier=run.curves_before,
    )


def _names(runs: Sequence[Run], names: Iterable[str] | None) -> list[str]:
    """Return as many different names as there are runs."""
    if names is None:
        asked = [_of_job(run) for run in runs]
        differs = [key for key in asked[0] if len({item[key] for item in asked}) > 1]
        labels = _distinct_names([outcome_of(run, "") for run in runs])
        pairs = zip(labels, asked, strict=True)
        named = [", ".join([name, *(item[k] for k in differs)]) for name, item in pairs]
        return distinct(named)
    texts = [names] if isinstance(names, str) else list(names)
    if len(texts) != len(runs) or not all(isinstance(name, str) for name in texts):
        raise InvalidArgumentError(
            f"names is {texts!r} for {len(runs)} runs; give a text for each."
        )
    return distinct(texts)


def unequal(rows: Sequence[Row]) -> str:
    """Return a clause that says where runs did not use the same number of examples.

    >>> unequal([{"examples": 640}, {"examples": 1280}, {}])
    '; they used 640 to 1,280 examples: last losses are not of the same number'
    """
    used = [int(str(item["examples"])) for item in rows if item.get("examples")]
    if len({*used}) < 2:
        return ""
    numbers = f"{min(used):,} to {max(used):,}"
    return f"; they used {numbers} examples: last losses are not of the same number"


def _of_job(run: Run) -> dict[str, str]:
    """Return what a run was asked for besides topology and links, in words."""
    job = run.job
    return {
        "optimizer": f"{job.inner or job.optimizer}",
        "batch": f"batch {job.batch}",
        "aggregate": f"aggregate {job.aggregate or 'all'}",
        "local": f"local steps {job.local_steps or 1}",
        "compress": f"compress {job.compress or 'nothing'}",
        "seed": f"seed {job.seed}",
    }


def _distinct_names(outcomes: Sequence[RunSummary]) -> list[str]:
    """Return for each what it differs in: topology, and link and tasks if they differ.

    >>> from kit.trace.trace import Trace
    >>> a = RunSummary("", Trace(("worker:0",)), "done", 9, "ring")
    >>> b = RunSummary("", Trace(("worker:0",)), "done", 9, "ring", link="1gbit")
    >>> _distinct_names([a, b])
    ['ring at full speed', 'ring at 1gbit']
    """
    ways, links = zip(*(outcome.configurations() for outcome in outcomes), strict=True)
    sizes = [tasks(outcome.trace) for outcome in outcomes]
    labels = list(ways)
    if len(set(links)) > 1:
        pairs = zip(labels, links, strict=True)
        labels = [f"{name} at {link or 'full speed'}" for name, link in pairs]
    if len(set(sizes)) > 1:
        labels = [f"{a} on {size}" for a, size in zip(labels, sizes, strict=True)]
    return labels
