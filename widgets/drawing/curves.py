"""What the curves show: each described once, as plain data, and drawn elsewhere.

Pure. `bokeh_figures` and `live_plots` draw a chart with bokeh, `svg_charts` as SVG.
They decide only on pixels: the names of the curves, their colours and dashes, the axes
and the marks of switches are decided here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kit.trace.trace import Trace
from kit.trace.traffic import Phase
from widgets.drawing import figure_data
from widgets.drawing.figure_data import Columns, TimeWindow
from widgets.drawing.theme import LIGHT, link_look, topology_hues

VALIDATION = "validation_"  # the prefix of measures on held-out data
_FEW = 3  # regions: their names have room for the step too
_FALL = 20.0  # of the loss: a linear scale would show only how it began


class Axis(NamedTuple):
    """The label of an axis, and its range."""

    label: str
    low: float
    high: float


class Series(NamedTuple):
    """One curve: two columns of `data`, or three if it is a band.

    >>> loss = {"step": [0, 1], "low": [1, 2], "high": [3, 4]}
    >>> Series("range", "faint", loss, "step", "low", to="high").points.tolist()
    [[0.0, 1.0, 3.0], [1.0, 2.0, 4.0]]
    """

    label: str
    colour: str  # a name for `Theme.colour` and the variables of `looks`
    data: Columns
    x: str
    y: str
    to: str = ""  # the upper edge of a band
    dash: str = "solid"
    is_thin: bool = False
    is_right: bool = False  # measured on the axis at the right
    has_dots: bool = False  # at each of its points, of which there are few

    @property
    def points(self) -> npt.NDArray[np.float64]:
        """Return a row for each point: x and y, of a band also the upper edge."""
        names = filter(None, (self.x, self.y, self.to))
        return np.column_stack([np.asarray(self.data[n], np.float64) for n in names])


class Region(NamedTuple):
    """A stretch of the x axis behind the curves."""

    left: float
    right: float
    label: str
    colour: str
    name: str  # the label, and where the region begins if there is room for it


class Mark(NamedTuple):
    """A place on the x axis, with what happened there."""

    at: float
    label: str


class Chart(NamedTuple):
    """Curves over one x axis: in one frame, or each in a strip with the same y axis."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    regions: tuple[Region, ...] = ()
    marks: tuple[Mark, ...] = ()
    again: tuple[tuple[float, float], ...] = ()  # stretches that were done again
    right: Axis | None = None
    is_log: bool = False  # the y axis


class Part(NamedTuple):
    """One stretch of a bar: what it is, how long, and how it looks."""

    label: str
    value: float
    colour: str  # as `Theme.colour` calls it; "" for that of the phase
    phase: Phase | None = None


class Bars(NamedTuple):
    """Bars from left to right, a row for each; the parts of a bar follow each other."""

    title: str
    x: Axis
    rows: tuple[tuple[str, tuple[Part, ...]], ...]

    @property
    def is_of_phases(self) -> bool:
        """Whether parts are phases, so that a legend is needed."""
        return any(part.phase is not None for _, parts in self.rows for part in parts)


class Timeline(NamedTuple):
    """Bars of time: a row for each task, a colour, height and hatch for each phase.

    `spans` has the columns task, phase, left and right; `flights`, when bytes were on
    their way to a task, has task, left and right.
    """

    title: str
    x: Axis
    rows: tuple[str, ...]
    spans: Columns
    starts: tuple[Mark, ...]  # of the steps
    zero: str  # what happened at 0; "" if nothing
    flights: Columns
    arrows: Columns | None = None  # messages from lane to lane; None: not of these


def loss(
    loss: Columns,
    regions: Columns,
    measures: Mapping[str, Columns] | None = None,
    changes: Columns | None = None,
) -> Chart:
    """Describe the loss of stretches of steps, and what was measured besides it.

    `loss` has the columns step, loss, low and high, `regions` left, right and topology,
    each of `measures` step and value; `changes` is that of `feed.changes_of`. Of the
    measures, accuracy from 0 to 1 is drawn, and both on held-out data.
    """

    def beside(label: str, colour: str, measure: str, dash: str) -> Series:
        columns = (measures or {}).get(measure, {"step": [], "value": []})
        return Series(
            *(label, colour, columns, "step", "value"),
            dash=dash,
            is_right=measure.endswith("accuracy"),
            has_dots=measure.startswith(VALIDATION),
        )

    mean = Series("mean", "ink", loss, "step", "loss")
    band = Series("range of the workers", "faint", loss, "step", "low", to="high")
    held_out = beside("held-out", "ink", f"{VALIDATION}loss", "dotted")
    share = beside("accuracy", "h0", "accuracy", "dashed")
    other = beside("held-out accuracy", "h0", f"{VALIDATION}accuracy", "dotted")
    values = (*loss["low"], *loss["high"], *held_out.data["value"])
    looks = ["dashed"] * bool(len(share.points))
    looks += ["held-out: dots"] * bool(len(other.points))
    right = Axis(f"accuracy ({', '.join(looks)})", 0.0, 1.0)
    chart = _loss((mean, band, held_out, share, other), regions, values, right)
    marks = changes or {"step": [], "label": [], "left": [], "right": []}
    return chart._replace(
        marks=tuple(map(Mark, marks["step"], marks["label"])),
        again=tuple(zip(marks["left"], marks["right"], strict=True)),
    )


def each_loss(loss: Columns, regions: Columns) -> Chart:
    """Describe the loss of each step, with its moving mean.

    `loss` has step, loss and mean, `regions` left, right and topology.
    """
    mean = Series("moving mean", "ink", loss, "step", "mean")
    each = Series("each step", "faint", loss, "step", "loss", is_thin=True)
    return _loss((mean, each), regions, loss["loss"], None)


def _loss(
    series: tuple[Series, ...],
    regions: Columns,
    values: Sequence[float],
    right: Axis | None,
) -> Chart:
    steps = series[0].data["step"]
    last = max([0, *regions["right"][-1:], *steps[-1:]])
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    newest = series[0].data[series[0].y][-1:]
    is_log = low > 0 and any(high > _FALL * value for value in newest)
    return Chart(
        f"Loss over {last:,.0f} steps",
        Axis("step", 0, last or 1),
        Axis("loss", low if is_log else min(0.0, low), high or 1.0),
        series,
        regions=_regions(regions),
        right=right,
        is_log=is_log,
    )


def _regions(columns: Columns) -> tuple[Region, ...]:
    names = columns["topology"]
    hues = topology_hues(names)
    return tuple(
        Region(
            left,
            right,
            name,
            f"h{hues[name] % len(LIGHT.hues)}",
            f"{name} from step {left}" if len(names) <= _FEW else name,
        )
        for left, right, name in zip(
            columns["left"], columns["right"], names, strict=True
        )
    )


def links(lines: Mapping[str, Columns], switches: Columns) -> Chart:
    """Describe the rate of each link: columns second and rate, until the next row.

    `switches` has second and label. All strips have the same scale, so that they can be
    compared. In one frame, lines would hide each other: under one topology, links often
    carry the same.
    """
    top = max((float(np.max(line["rate"])) for line in lines.values()), default=0.0)
    times = [line["second"] for line in lines.values()]
    first = min([0.0, *(float(np.min(time)) for time in times)])
    last = max((float(np.max(time)) for time in times), default=1.0)
    series = tuple(
        Series(name, colour, line, "second", "rate", dash=dash)
        for (name, line), (colour, dash) in zip(
            lines.items(), map(link_look, range(len(lines))), strict=True
        )
    )
    marks = zip(switches["second"], switches["label"], strict=True)
    return Chart(
        "Bytes on each link over time",
        Axis("time since the start [s]", first, last),
        Axis(f"each strip from 0 to {top:.3g} MB/s", 0.0, top or 1.0),
        series,
        marks=tuple(Mark(float(at), label) for at, label in marks),
    )


def timeline(
    spans: Columns,
    starts: Columns,
    tasks: Sequence[str],
    zero: str = "",
    flights: Columns | None = None,
    unit: str = "step",
    arrows: Columns | None = None,
) -> Timeline:
    """Describe what each task did: spans of `feed.timeline`, and where steps began.

    `spans` may be joined by `arrows`, those of `feed.arrows`: messages from row to row.
    `starts` has at and step, `zero` is what happened at 0 ms, `flights` are those of
    `feed.flights`. A row of the steps is called a `unit`.
    """
    has_spans = bool(len(spans["left"]))
    low = float(min(spans["left"])) if has_spans else 0.0
    high = float(max(spans["right"])) if has_spans else 1.0
    what = f"time [ms], 0 is the switch from {zero}" if zero else "time [ms]"
    begun = zip(starts["at"], starts["step"], strict=True)
    return Timeline(
        f"What each task did in the {unit}s shown",
        Axis(what, low, high),
        tuple(tasks),
        spans,
        tuple(Mark(at, f"{unit} {step}") for at, step in begun),
        zero,
        flights or {"task": [], "left": [], "right": []},
        arrows,
    )


def timeline_of(
    trace: Trace, view: TimeWindow, unit: str, tasks: Sequence[str] | None = None
) -> Timeline:
    """Describe what each task did in a window of a trace.

    `tasks` are the rows; by default those that did anything in it.
    """
    spans, coming = figure_data.timeline(trace, view), figure_data.flights(trace, view)
    starts = figure_data.step_starts(trace, view)
    more = None if trace.calls is None else figure_data.arrows(trace, view)
    if tasks is None:
        tasks = figure_data.tasks_of(trace, spans, coming, more or {})
    return timeline(spans, starts, tasks, view.label, coming, unit, more)
