"""One run in numbers: its curves as columns, and its row in a table.

Pure. All of it is made from the trace, so a live run, one that is over and one that was
loaded give the same numbers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from kit.errors import InvalidArgumentError
from kit.trace.trace import STEP_KINDS, Floats, Ints, Trace, beside
from kit.trace.traffic import Phase

Row = dict[str, object]
_COLUMNS = ("step", "examples", "seconds", "bytes", "loss", "step_seconds")
_CURVES = ("run", *_COLUMNS)


@dataclass(frozen=True)
class RunSummary:
    """A run at one moment: its name, its state, and what was recorded of it.

    `step` counts the steps that are done; `error` is what the run failed with.
    `topology` and `link` are those of the job, for a run of which no epoch is known.
    """

    name: str
    trace: Trace
    state: str
    step: int
    topology: str
    link: str = ""
    error: str = ""
    earlier: Curves | None = None  # before the checkpoint that it went on from

    def curves(self) -> Curves:
        """Return the curves from the first step of all; seconds and bytes go on."""
        series = curves(self.trace)
        return series if self.earlier is None else self.earlier.followed_by(series)

    def configurations(self) -> tuple[str, str]:
        """Return the topologies and the links that it had, each in order.

        >>> from kit.trace.named_rows import EpochRow
        >>> a, b = EpochRow(0, "ps", 0, 0, ""), EpochRow(1, "ring", 9, 5, "")
        >>> RunSummary("a", Trace((), (a, b)), "done", 20, "ps").configurations()
        ('ps to ring', '')
        """
        epochs = sorted(self.trace.epochs)
        ways = [row.topology for row in epochs] or [self.topology]
        links = [row.link for row in epochs] or [self.link]
        shown = [link or "full speed" for link in dict.fromkeys(links)]
        how = " to ".join(shown) if any(links) else ""
        return " to ".join(dict.fromkeys(ways)), how


# --------------------------------------------------------------------------------------
# The curves.


@dataclass(frozen=True)
class Curves:
    """Columns with one entry for each step.

    `examples` is how many were used in the steps up to this one; `seconds` is the time
    from the start of the first step to the end of this one;
    `bytes` is what all tasks together received in the steps up to this one;
    `step_seconds` is the time from the first worker's start to the last one's end.
    `measures` has what else was measured, NaN at steps without a measurement.
    """

    step: Ints
    examples: Floats
    seconds: Floats
    bytes: Floats
    loss: Floats
    step_seconds: Floats
    measures: dict[str, Floats]

    def has(self, measure: str) -> bool:
        """Whether a measure is among them."""
        return measure == "loss" or measure in self.measures

    def points(self, measure: str, along: str) -> tuple[Floats, Floats]:
        """Return where a measure was measured, and its values.

        Raises `InvalidArgumentError` for names that are not there.
        """
        if along not in _COLUMNS[:4] or not self.has(measure):
            raise InvalidArgumentError(
                f"there is no {measure!r} along {along!r}; there are "
                f"{', '.join(['loss', *self.measures])}, along "
                f"{', '.join(_COLUMNS[:4])}."
            )
        values = self.loss if measure == "loss" else self.measures[measure]
        is_known = ~np.isnan(values)
        return getattr(self, along)[is_known].astype(float), values[is_known]

    def at_examples(self, measure: str, examples: float) -> float:
        """Return the last value of a measure that so many examples had given."""
        places, values = self.points(measure, "examples")
        n = int(np.searchsorted(places, examples, side="right"))
        return float(values[n - 1]) if n else float("nan")

    def until(self, step: int) -> Curves:
        """Return them without a step and all after it."""
        n = int(np.searchsorted(self.step, step))
        measures = {name: column[:n] for name, column in self.measures.items()}
        columns: Any = {name: getattr(self, name)[:n] for name in _COLUMNS}
        return Curves(**columns, measures=measures)

    def followed_by(self, other: Curves) -> Curves:
        """Return both; seconds and bytes of the second go on where these end."""
        ends = {
            name: float(getattr(self, name)[-1]) if len(self.step) else 0.0
            for name in ("examples", "seconds", "bytes")
        }

        def both(name: str) -> Floats:
            after = getattr(other, name) + ends.get(name, 0)
            return np.concatenate([getattr(self, name), after])

        def measure(name: str) -> Floats:
            parts = (
                curves_of.measures.get(name, np.full(len(curves_of.step), np.nan))
                for curves_of in (self, other)
            )
            return np.concatenate([*parts])

        names = sorted({*self.measures, *other.measures})
        columns: Any = {name: both(name) for name in _COLUMNS}
        return Curves(**columns, measures={name: measure(name) for name in names})


def curves(trace: Trace) -> Curves:
    """Return the curves of a run, for all steps that its trace has kept.

    Seconds are wall-clock time, with pauses and with steps that an elastic training did
    again. `bytes` is without what moves only once, at the start and at a switch.
    """
    steps, loss = trace.losses()
    table = trace.steps[trace.steps["examples"] > 0]
    rows_of = np.searchsorted(steps, table["step"])
    begin = np.full(len(steps), np.iinfo(np.int64).max)
    end = np.zeros(len(steps), np.int64)
    np.minimum.at(begin, rows_of, table["start"])
    np.maximum.at(end, rows_of, table["end"])
    # The servers number asynchronous updates, but their ends are the workers': a later
    # one may have ended earlier. A curve over time must not go back.
    reached = np.maximum.accumulate(end)
    used = np.bincount(rows_of, table["examples"], minlength=len(steps))
    # A step for which others stand, of a long training, counts for all of them.
    first = min(
        [epoch.first_step for epoch in trace.epochs] + steps[:1].tolist() or [0]
    )
    stands_for = np.diff(steps, prepend=first - 1)
    origin = int(begin.min()) if len(begin) else 0
    names = sorted({name.decode() for name in trace.measures["name"].tolist()})
    return Curves(
        step=steps,
        examples=np.cumsum(used * stands_for),
        seconds=(reached - origin) * 1e-9,
        bytes=bytes_until(trace, steps),
        loss=loss,
        step_seconds=(end - begin) * 1e-9,
        measures=beside(_CURVES, {name: _at(trace, name, steps) for name in names}),
    )


def _at(trace: Trace, name: str, steps: Ints) -> Floats:
    """Return a measure at each step, NaN where it was not measured."""
    at_steps, values = trace.measured(name)
    result = np.full(len(steps), np.nan)
    is_there = np.isin(at_steps, steps)
    result[np.searchsorted(steps, at_steps[is_there])] = values[is_there]
    return result


def bytes_until(trace: Trace, steps: Ints) -> Floats:
    """Return for each of `steps` the bytes that it and all steps before it moved.

    Exact where all transfers of an epoch are kept. Where they are not, as of a long
    training, the epoch's exact total is spread evenly over its steps, which gives the
    same if they are synchronous.

    >>> from kit.trace.log import rows
    >>> from kit.trace.named_rows import EpochRow
    >>> from kit.trace.traffic import TOTAL
    >>> total = rows(TOTAL, [(0, 1, 1, 0, 120, 3)])  # of which no transfer is kept
    >>> epoch = EpochRow(0, "ps", 0, 0, "")
    >>> trace = Trace(("ps:0", "worker:0"), (epoch,), totals=total)
    >>> bytes_until(trace, np.arange(4)).tolist()  # in four steps
    [30.0, 60.0, 90.0, 120.0]
    """
    result = np.zeros(len(steps))
    if not len(steps):
        return result
    moved = trace.transfers[np.isin(trace.transfers["kind"], STEP_KINDS)]
    totals = trace.totals[np.isin(trace.totals["kind"], STEP_KINDS)]
    last = int(steps.max()) + 1
    epochs = sorted(trace.epochs)
    for row, after in zip_longest(epochs, epochs[1:]):
        total = int(totals["bytes"][totals["epoch"] == row.number].sum())
        mine = moved[moved["epoch"] == row.number]
        if int(mine["bytes"].sum()) == total:  # none was dropped
            order = np.argsort(mine["step"], kind="stable")
            amount = np.concatenate([[0], np.cumsum(mine["bytes"][order])])
            result += amount[np.searchsorted(mine["step"][order], steps, side="right")]
            continue
        end = last if after is None else after.first_step
        length = max(1, end - row.first_step)
        result += total * np.clip((steps + 1 - row.first_step) / length, 0.0, 1.0)
    return result


# --------------------------------------------------------------------------------------
# The row.


def row(outcome: RunSummary) -> Row:
    """Return a run's row of the table; NaN for what is not known.

    `bytes_per_step` is the mean over all steps, for all tasks together; `ms_per_step`
    is the median; `steps_per_second` is the rate over the `seconds` from the start of
    the first step to the end of the last, pauses included. The milliseconds of phases
    are the workers', as in `phases`. The loss and other measures are the last ones.
    """
    trace = outcome.trace
    series, whole = curves(trace), outcome.curves()
    # Of this run alone: what a training before it did is in no total.
    n_steps = outcome.step - min(
        (epoch.first_step for epoch in trace.epochs), default=0
    )
    topology, link = outcome.configurations()
    n_bytes = sum(trace.received(task) for task in range(len(trace.tasks)))
    is_known = len(series.step) > 0
    of_phases = phases(trace).get("worker", {})
    before = {
        "run": outcome.name,
        "state": outcome.state,
        "topology": topology,
        "link": link,
        "tasks": tasks(trace),
        "steps": outcome.step,
        "examples": int(whole.examples[-1]) if len(whole.step) else 0,
        "loss": float(series.loss[-1]) if is_known else np.nan,
    }
    after = {
        "bytes_per_step": n_bytes / n_steps if n_steps > 0 else np.nan,
        "ms_per_step": 1e3 * float(np.median(series.step_seconds))
        if is_known
        else np.nan,
        "steps_per_second": trace.step_rate() if is_known else np.nan,
        "seconds": float(series.seconds[-1]) if is_known else np.nan,
        **{f"{phase.name.lower()}_ms": of_phases.get(phase, np.nan) for phase in Phase},
        "error": outcome.error,
    }
    last = {name: _last(values) for name, values in series.measures.items()}
    return before | beside([*before, *after], last) | after


def _last(values: Floats) -> float:
    """Return the last value of a measure, which is NaN at steps without one.

    >>> _last(np.array([1.0, 0.5, np.nan]))
    0.5
    """
    values_known = values[~np.isnan(values)]
    return float(values_known[-1]) if len(values_known) else float("nan")


def tasks(trace: Trace) -> str:
    """Return how many tasks of each job there are.

    >>> tasks(Trace(("ps:0", "worker:0", "worker:1")))
    '1 ps, 2 worker'
    """
    jobs = Counter(name.split(":")[0] for name in trace.names)
    return ", ".join(f"{count} {job}" for job, count in jobs.items())


def phases(trace: Trace) -> dict[str, dict[Phase, float]]:
    """Return for each job how many milliseconds of a step a task spends in each phase.

    The mean over the job's tasks and over the steps with spans in the trace; a job
    without any is left out. What a task does besides is not in any phase.
    """
    spent = trace.phase_time()
    n_tasks = len(trace.tasks)
    # A task counts the steps of which it has spans, so step and task are one number.
    pairs = np.unique(trace.spans["step"] * n_tasks + trace.spans["task"])
    n_steps = np.bincount(pairs % n_tasks, minlength=n_tasks)
    result: dict[str, dict[Phase, float]] = {}
    for job in dict.fromkeys(name.split(":")[0] for name in trace.names):
        mine = [i for i, name in enumerate(trace.names) if name.split(":")[0] == job]
        if count := int(n_steps[mine].sum()):
            total = spent[mine].sum(axis=0)
            result[job] = {phase: float(total[phase]) / count * 1e-6 for phase in Phase}
    return result
