"""What a comparison shows: curves of several runs laid over each other, and bars.

Pure: outcomes of runs in, charts and sentences out. `page` and `cell` draw them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kit.experiments.summary import Curves, RunSummary, phases, row
from kit.trace.trace import Floats
from kit.trace.traffic import Phase
from widgets.drawing import figure_data
from widgets.drawing.curves import VALIDATION, Axis, Bars, Chart, Part, Series
from widgets.drawing.figure_data import Columns
from widgets.drawing.theme import link_look
from widgets.drawing.words import listed

#: What curves can be laid over each other by, and how a heading says it.
ALONG = {
    "step": "by step",
    "examples": "by examples",
    "seconds": "by time",
    "bytes": "by bytes moved",
}
_FEW = 6  # runs that get a sentence each
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))


class Drawn(NamedTuple):
    """One run in all its figures: name, colour and dash, and its curves."""

    name: str
    colour: str
    dash: str
    curves: Curves
    outcome: RunSummary

    def values(self, measure: str) -> Floats:
        """Return the loss or another measure at each step; NaN where there is none."""
        if measure == "loss":
            return self.curves.loss
        nothing = np.full(len(self.curves.step), np.nan)
        return self.curves.measures.get(measure, nothing)


def drawn(outcomes: Sequence[RunSummary]) -> list[Drawn]:
    """Return the runs with their looks; the first six differ in colour and dash."""
    return [
        Drawn(outcome.name, *link_look(number), outcome.curves(), outcome)
        for number, outcome in enumerate(outcomes)
    ]


def measures(runs: Sequence[Drawn]) -> list[str]:
    """Return what there is to draw: the loss, and what else the steps measured.

    A measure on held-out data is drawn with the one on the training data, if any.
    """
    names = sorted({name for run in runs for name in run.curves.measures})
    plain = [name for name in names if not name.startswith(VALIDATION)]
    alone = [name for name in names if name.startswith(VALIDATION)]
    with_twin = {"loss", *plain}
    return [
        "loss",
        *plain,
        *(
            measure
            for measure in alone
            if measure.removeprefix(VALIDATION) not in with_twin
        ),
    ]


def overlay(
    runs: Sequence[Drawn],
    measure: str = "loss",
    along: str = "step",
    *,
    is_log: bool = False,
    smoothing: float = 0.025,
) -> Chart:
    """Describe a measure of all runs, with its moving mean.

    `smoothing` is the window of the mean as a share of the run's steps; with 0 only the
    steps are drawn. What was measured on held-out data is a curve with dots.
    """
    scale, unit = unit_of(max((_end(run.curves.bytes) for run in runs), default=0.0))
    series: list[Series] = []
    for run in runs:
        # Odd, so that the mean has as many steps on each side.
        width = 1 + 2 * round(smoothing * len(run.curves.step) / 2)
        columns = _columns(run, measure, width, scale)
        look = (run.name, run.colour, columns, along)
        line = Series(*look, "mean", dash=run.dash)
        if width > 1:
            series.append(Series(*look, "value", is_thin=True))
        series.append(line)
        held_out = _columns(run, VALIDATION + measure, 1, scale)
        if len(held_out["step"]):
            look = (run.name, run.colour, held_out, along)
            series.append(Series(*look, "value", dash="dotted", has_dots=True))
    labels = {
        "step": "step",
        "examples": "examples used by all workers",
        "seconds": "time since the first step began [s]",
        "bytes": f"moved by all tasks together [{unit}]",
    }
    name = measure.replace("_", " ")
    return Chart(
        f"{name.capitalize()} {ALONG[along]}",
        _extent(labels[along], [item.points[:, 0] for item in series]),
        _extent(name, [item.points[:, 1] for item in series], is_log=is_log),
        tuple(series),
        is_log=is_log,
    )


def _columns(run: Drawn, measure: str, width: int, scale: float) -> Columns:
    """Return the steps with this measure, few enough to draw."""
    series, values = run.curves, run.values(measure)
    # A NaN among the values of training steps shows as a gap. Values on held-out data
    # are there only now and then, and are joined.
    is_there = ~np.isnan(values) if measure.startswith(VALIDATION) else slice(None)
    values = values[is_there]
    keep = figure_data.extremes(values)
    return {
        "step": series.step[is_there][keep],
        "examples": series.examples[is_there][keep],
        "seconds": series.seconds[is_there][keep],
        "bytes": series.bytes[is_there][keep] / scale,
        # Not by the name of the measure, which anybody chose: bokeh reads the names of
        # columns as templates.
        "value": values[keep],
        "mean": figure_data.moving_mean(values, width)[keep],
    }


def _extent(label: str, columns: Sequence[Floats], *, is_log: bool = False) -> Axis:
    """Return an axis over all values; a linear one includes 0."""
    values = np.concatenate([*columns, np.zeros(0)])
    values = values[np.isfinite(values)]
    if not is_log:
        values = np.append(values, 0.0)
        low, high = float(values.min()), float(values.max())
        return Axis(label, low, high if high > low else low + 1.0)
    values = values[values > 0]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.1, 1)
    return Axis(label, low, high if high > low else 10 * low)


def unit_of(n_bytes: float) -> tuple[float, str]:
    """Return a suitable unit for so many bytes: its size and its name.

    >>> unit_of(2_500_000), unit_of(0)
    ((1000000.0, 'MB'), (1.0, 'bytes'))
    """
    return next((unit for unit in _UNITS if n_bytes >= unit[0]), _UNITS[-1])


def _end(values: Floats) -> float:
    return float(values[-1]) if len(values) else 0.0


# --------------------------------------------------------------------------------------
# Bars.


def bytes_bars(runs: Sequence[Drawn]) -> Bars:
    """Describe the bytes of a step, of all tasks together."""
    amounts = [_number(row(run.outcome)["bytes_per_step"]) for run in runs]
    scale, unit = unit_of(max(amounts, default=0.0))
    scaled = [value / scale for value in amounts]
    return _bars("Bytes a step", f"moved in a step [{unit}]", runs, scaled)


def time_bars(runs: Sequence[Drawn]) -> Bars:
    """Describe the median time of a step."""
    amounts = [_number(row(run.outcome)["ms_per_step"]) for run in runs]
    return _bars("Time of a step", "median time of a step [ms]", runs, amounts)


def _bars(
    title: str, label: str, runs: Sequence[Drawn], values: Sequence[float]
) -> Bars:
    rows = tuple(
        (run.name, (Part("", value, run.colour),))
        for run, value in zip(runs, values, strict=True)
    )
    return Bars(title, Axis(label, 0.0, max(values, default=0.0) or 1.0), rows)


def phase_bars(runs: Sequence[Drawn]) -> Bars:
    """Describe how the tasks of each job spend a step, a bar for each run and job.

    A job that only receives and waits is left out, such as servers during a ring.
    """
    rows = []
    for run in runs:
        spent = phases(run.outcome.trace)
        works = (Phase.COMPUTE, Phase.SEND, Phase.APPLY)
        works_of = {
            job: times for job, times in spent.items() if any(times[p] for p in works)
        }
        for job in sorted(works_of, key=lambda job: (job != "worker", job)):
            name = f"{run.name}: {job}" if len(works_of) > 1 else run.name
            parts = [
                Part(phase.name.lower(), works_of[job][phase], "", phase)
                for phase in Phase
                if works_of[job][phase] > 0
            ]
            rows.append((name, tuple(parts)))
    longest = max((sum(part.value for part in parts) for _, parts in rows), default=0.0)
    label = "mean time of a task in a step [ms]"
    return Bars("Time by phase", Axis(label, 0.0, longest or 1.0), tuple(rows))


def _number(value: object) -> float:
    """Return a number to draw; an unknown one has no length."""
    number = float(value) if isinstance(value, float | int) else 0.0
    return number if math.isfinite(number) else 0.0


# --------------------------------------------------------------------------------------
# In words.


def overlay_words(runs: Sequence[Drawn], measure: str, along: str) -> str:
    """Say how far each run has come."""
    ends: list[tuple[float, str, str]] = []
    scale, unit = unit_of(max((_end(run.curves.bytes) for run in runs), default=0.0))
    for run in runs:
        values = run.values(measure)
        finite = np.flatnonzero(np.isfinite(values))
        if not len(finite):
            continue
        last, series = finite[-1], run.curves
        where = {
            "step": f"at step {series.step[last]:,}",
            "examples": f"after {series.examples[last]:,.0f} examples",
            "seconds": f"after {series.seconds[last]:.3g} s",
            "bytes": f"after {series.bytes[last] / scale:.3g} {unit}",
        }
        text = f"{values[last]:.3g} {where[along]}"
        ends.append((float(values[last]), run.name, text))
    name = measure.replace("_", " ")
    if not ends:
        return f"No {name} is known yet."
    if len(ends) > _FEW:
        low, high = (f"{text} ({who})" for _, who, text in (min(ends), max(ends)))
        said = f"The last {name} is from {low} to {high}."
    else:
        each = "; ".join(f"{who} {text}" for _, who, text in ends)
        said = f"The last {name}: {each}."
    if any(VALIDATION + measure in run.curves.measures for run in runs):
        said += " Dots were measured on held-out data."
    for names in _equal(runs, measure) if along == "step" else ():
        said += f" {listed(names)} agree in each step that they share, bit for bit."
    return said


def _equal(runs: Sequence[Drawn], measure: str) -> list[list[str]]:
    """Return the names of runs whose values agree at all steps that they share."""
    groups: list[list[Drawn]] = []
    for run in runs:
        for group in groups:
            first, own = group[0].curves.step, run.curves.step
            _, theirs, mine = np.intersect1d(first, own, return_indices=True)
            ours = group[0].values(measure)[theirs], run.values(measure)[mine]
            if len(mine) and np.array_equal(*ours):
                group.append(run)
                break
        else:
            groups.append([run])
    return [[run.name for run in group] for group in groups if len(group) > 1]


def bars_words(chart: Bars) -> str:
    """Say how long each bar is."""
    if not chart.rows:
        return "Nothing was recorded for this figure."
    said = []
    for label, parts in chart.rows:
        total = sum(part.value for part in parts)
        most = max(parts, key=lambda part: part.value, default=None)
        inner = f" (most of it {most.label})" if most and most.label else ""
        said.append((total, f"{label} {total:.3g}{inner}"))
    what = f"{chart.x.label[:1].upper()}{chart.x.label[1:]}"
    if len(said) > 2 * _FEW:
        return f"{what}: from {min(said)[1]} to {max(said)[1]}."
    return f"{what}: {'; '.join(text for _, text in said)}."
