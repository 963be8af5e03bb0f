"""Figures of a training: columns in, bokeh figure out.

One function for each figure. They take what `widgets.feed` makes, or a
`ColumnDataSource` of it where a figure should share or stream its data, and a theme.
Titles and explanations are the page's business: here are only axes, marks and legends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bokeh.models import (
    CDSView,
    ColumnDataSource,
    DataRange1d,
    FactorRange,
    FixedTicker,
    Grid,
    GroupFilter,
    HoverTool,
    LinearAxis,
    Range1d,
)
from bokeh.models.annotations import BoxAnnotation
from bokeh.plotting import figure

from kit.trace.traffic import Phase
from widgets.canvas import Data, canvas, dress, legend, mark, source
from widgets.feed import Columns
from widgets.theme import (
    PHASE_HATCH,
    PHASE_HEIGHT,
    Theme,
    link_style,
)

_ROW_PX = 44  # of a task in the timeline
_LETTERS = 56  # more than fit side by side into half a page
_STRIP_PX = 34  # of a link


def loss_figure(loss: Data, regions: Columns, theme: Theme) -> figure:
    """Draw the loss over the steps on shaded regions of topologies.

    `loss` has the columns step, loss and mean, `regions` left, right and topology.
    """
    room = DataRange1d(range_padding=0.16)  # for the names of the regions
    fig = canvas(theme, "step", "loss", height=330, y_range=room)
    data = source(loss)
    _shade(fig, regions, theme)
    every = fig.line("step", "loss", source=data, color=theme.faint, alpha=0.6)
    mean = fig.line("step", "mean", source=data, color=theme.ink, line_width=2.5)
    legend(fig, theme, {"moving mean": mean, "each step": every}, "above")
    tips = [("step", "@step"), ("loss", "@loss{0.0000}"), ("mean", "@mean{0.0000}")]
    fig.add_tools(HoverTool(renderers=[mean], tooltips=tips, mode="vline"))
    return fig


def links_figure(links: Mapping[str, Data], switches: Columns, theme: Theme) -> figure:
    """Draw the rate of each link over time, each link in a strip of its own.

    `links` gives each name its columns second and rate (MB/s), which holds until the
    next row; `switches` has second and label. All strips have one scale, so that they
    compare; lines in one frame would hide each other, as links of one topology often
    carry the same.
    """
    n = len(links)
    sources = {name: source(data) for name, data in links.items()}
    peak = max((float(np.max(one.data["rate"])) for one in sources.values()), default=0)
    what = f"each strip from 0 to {peak:.3g} MB/s"
    rows = Range1d(start=n + 0.05, end=-0.7)  # downwards, with room for labels
    size = {"height": 120 + _STRIP_PX * n, "y_range": rows, "x_range": _extent(sources)}
    fig = canvas(theme, "time since the start [s]", what, **size)
    for place, (name, one) in enumerate(sources.items()):
        strip = fig.subplot(
            x_source=fig.x_range,
            x_target=fig.x_range,
            y_source=Range1d(start=0, end=peak or 1),
            y_target=Range1d(start=place + 1, end=place + 0.12),
        )
        _strip(strip, one, name, link_style(theme, place))
    names = {place + 1: name for place, name in enumerate(links)}
    fig.yaxis.update(ticker=FixedTicker(ticks=list(names)), major_label_overrides=names)
    mark(fig, switches["second"], switches["label"], theme)
    tips = [("link", "$name"), ("time", "@second{0.00} s"), ("MB/s", "@rate{0.0}")]
    fig.add_tools(HoverTool(tooltips=tips))
    return fig


def _extent(sources: Mapping[str, ColumnDataSource]) -> Range1d:
    """Return the time that the sources cover; strips need it as plain numbers."""
    times = [one.data["second"] for one in sources.values()]
    first = min([0.0, *(float(np.min(time)) for time in times)])
    last = max((float(np.max(time)) for time in times), default=1)
    return Range1d(start=first, end=last)


def _strip(
    strip: Any, data: ColumnDataSource, name: str, look: tuple[str, str]
) -> None:
    """Draw one link's rate as a line over a tinted area."""
    colour, dash = look
    both = {"x": "second", "source": data, "name": name}
    area = {"fill_color": colour, "fill_alpha": 0.3, "step_mode": "after"}
    strip.varea_step(y1=0, y2="rate", **area, **both)
    line = {"color": colour, "line_dash": dash, "line_width": 2, "mode": "after"}
    strip.step(y="rate", **line, **both)


def timeline_figure(
    spans: Data,
    tasks: Sequence[str],
    starts: Columns,
    theme: Theme,
    *,
    label: str = "",
) -> figure:
    """Draw what each task did: one row per task, a coloured bar per stretch of time.

    `spans` has task, phase, left and right (ms), `starts` at and step: where the steps
    began. `label` is what happened at 0 ms. Phases differ in colour, thickness and
    hatch.
    """
    rows = FactorRange(factors=list(reversed(tasks)), range_padding=0.1)
    height = 130 + _ROW_PX * max(1, len(tasks))
    what = f"time [ms], 0 is the switch from {label}" if label else "time [ms]"
    fig = canvas(theme, what, None, height=height, y_range=rows)
    _step_axis(fig, starts, theme)
    data = source(spans)
    drawn = {phase: _stretches(fig, data, phase, theme) for phase in PHASE_HEIGHT}
    entries = {phase.name.lower(): drawn[phase] for phase in Phase}
    legend(fig, theme, entries, "above")
    mark(fig, [0.0] if label else [], [""] if label else [], theme)
    tips = [("task", "@task"), ("phase", "@phase"), ("from", "@left{0.000} ms")]
    fig.add_tools(HoverTool(tooltips=[*tips, ("to", "@right{0.000} ms")]))
    fig.ygrid.grid_line_color = None
    return fig


def volume_figure(volume: Data, theme: Theme) -> figure:
    """Draw measured MB per step as bars, the formula's values as diamonds on them.

    `volume` has place (topology, task), sent, received, formula_sent and
    formula_received.
    """
    columns: Any = volume.data if isinstance(volume, ColumnDataSource) else volume
    places = FactorRange(factors=list(columns["place"]), group_padding=0.8)
    room = DataRange1d(start=0, range_padding=0.1)
    what = "moved per step [MB]"
    fig = canvas(theme, None, what, height=360, x_range=places, y_range=room)
    entries: dict[str, Any] = {}
    for word, phase, shift in (
        ("sent", Phase.SEND, -0.21),
        ("received", Phase.RECEIVE, 0.21),
    ):
        beside = [(*place, shift) for place in columns["place"]]
        data = source({"x": beside} | {k: columns[k] for k in columns})
        entries[f"{word}, measured"] = _bars(fig, data, word, phase, theme)
        if np.isnan(columns[f"formula_{word}"]).all():
            continue
        style = {"fill_color": theme.ink, "line_color": theme.background, "size": 14}
        point = fig.scatter("x", f"formula_{word}", source=data, marker="diamond")
        point.glyph.update(line_width=1.5, **style)
        entries["formula"] = entries.pop("formula", point)  # always the last
    legend(fig, theme, entries, "above")
    fig.xgrid.grid_line_color = None
    if sum(len(task) + 2 for _, task in columns["place"]) > _LETTERS:
        fig.xaxis.major_label_orientation = "vertical"
    return fig


def _shade(fig: figure, regions: Columns, theme: Theme) -> None:
    """Shade each topology's steps; name it at the top, with a line where it begins."""
    known = tuple(dict.fromkeys(regions["topology"]))
    names = regions["topology"]
    for left, right, name in zip(regions["left"], regions["right"], names, strict=True):
        colour = theme.topology(name, known)
        box = BoxAnnotation(left=left, right=right, fill_color=colour, fill_alpha=0.12)
        box.update(line_color=None, level="underlay")
        fig.add_layout(box)
    labels = list(names)
    if len(labels) <= 3:  # more have room for their names only
        labels = [
            f"{n} from step {at}" for n, at in zip(names, regions["left"], strict=True)
        ]
    mark(fig, regions["left"], labels, theme, is_first_bare=True)


def _step_axis(fig: figure, starts: Columns, theme: Theme) -> None:
    """Name the steps on an upper axis, with a thin line where each one begins."""
    ticker = FixedTicker(ticks=list(starts["at"]))
    names = zip(starts["at"], starts["step"], strict=True)
    axis = LinearAxis(major_label_overrides={at: f"step {step}" for at, step in names})
    axis.update(ticker=ticker)
    dress(axis, theme)
    fig.add_layout(axis, "above")
    fig.add_layout(Grid(dimension=0, ticker=ticker, grid_line_color=theme.faint))


def _stretches(fig: figure, data: ColumnDataSource, phase: Phase, theme: Theme) -> Any:
    """Draw the stretches of one phase."""
    name = phase.name.lower()
    return fig.hbar(
        y="task",
        left="left",
        right="right",
        height=PHASE_HEIGHT[phase],
        source=data,
        view=CDSView(filter=GroupFilter(column_name="phase", group=name)),
        fill_color=theme.phase(phase),
        line_color=None,
        **_hatch(phase, theme),
    )


def _bars(
    fig: figure, data: ColumnDataSource, top: str, phase: Phase, theme: Theme
) -> Any:
    """Draw the measured bars of one direction."""
    return fig.vbar(
        x="x",
        top=top,
        width=0.36,
        source=data,
        fill_color=theme.phase(phase),
        line_color=None,
        **_hatch(phase, theme),
    )


def _hatch(phase: Phase, theme: Theme) -> dict[str, Any]:
    return {
        "hatch_pattern": PHASE_HATCH[phase],
        "hatch_color": theme.hatch,
        "hatch_alpha": 0.7,
        "hatch_scale": 11,
        "hatch_weight": 1.2,
    }
