"""Figures of a training: a chart in, a bokeh figure out.

One function for each kind of chart in `curves`, in the look of a theme. `sources` has
the data of the series if several figures share it. Titles and explanations are up to
the page: here are only axes, marks and legends.
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
    NoOverlap,
    Range1d,
)
from bokeh.models.annotations import BoxAnnotation
from bokeh.plotting import figure

from kit.trace.traffic import Phase
from widgets.drawing.canvas import Data, canvas, dress, legend, mark, source
from widgets.drawing.curves import Bars, Chart, Mark, Region, Series, Timeline
from widgets.drawing.figure_data import Columns
from widgets.drawing.theme import (
    ARROWS,
    FLIGHT,
    FLIGHT_HEIGHT,
    FLIGHT_OFF,
    GROUP_PHASES,
    PHASE_HATCH,
    PHASE_HEIGHT,
    Theme,
)

_ROW_PX = 34  # of a task in the timeline
_LETTERS = 56  # so many fit side by side into half a page
_STRIP_PX = 34  # of a link
_BAR_PX = 34
_HALF_PX = 540  # the width of a figure's frame in half a page


def sources_of(chart: Chart) -> list[ColumnDataSource]:
    """Return the data of each series; series with the same columns share it."""
    made: dict[int, ColumnDataSource] = {}
    for series in chart.series:
        made.setdefault(id(series.data), source(series.data))
    return [made[id(series.data)] for series in chart.series]


def curves_figure(
    chart: Chart, theme: Theme, sources: Sequence[ColumnDataSource] | None = None
) -> figure:
    """Draw curves in one frame, on the shaded regions behind them."""
    room = DataRange1d(range_padding=0.16)  # for the names of the regions
    kind = "log" if chart.is_log else "linear"
    size = {"height": 330, "y_range": room, "y_axis_type": kind}
    fig = canvas(theme, chart.x.label, chart.y.label, **size)
    _shade(fig, chart.regions, theme)
    pairs = zip(chart.series, sources or sources_of(chart), strict=True)
    drawn = {item.label: curve(fig, item, data) for item, data in reversed([*pairs])}
    for line in chart.series:
        tint(drawn[line.label], line, theme)
    legend(fig, theme, {item.label: drawn[item.label] for item in chart.series})
    fig.add_tools(tips_of(chart, drawn))
    return fig


def curve(fig: Any, series: Series, data: ColumnDataSource, **more: Any) -> Any:
    """Draw one line or band, without its colour; return what is drawn."""
    if series.to:
        edges = {"y1": series.y, "y2": series.to, "fill_alpha": 0.25}
        return fig.varea(series.x, source=data, **edges, **more)
    thin = {"line_width": 1, "alpha": 0.6} if series.is_thin else {"line_width": 2.5}
    return fig.line(
        series.x, series.y, source=data, line_dash=series.dash, **thin, **more
    )


def tint(drawn: Any, series: Series, theme: Theme) -> None:
    """Give what `curve` has drawn the colour of a theme."""
    name = "fill_color" if series.to else "line_color"
    drawn.glyph.update(**{name: theme.colour(series.colour)})


def tips_of(chart: Chart, drawn: Mapping[str, Any]) -> HoverTool:
    """Return what the pointer shows: the first series' columns at its place."""
    first = chart.series[0]
    tips = [
        (name, f"@{name}{{0}}" if name == first.x else f"@{name}{{0.0000}}")
        for name in first.data
    ]
    return HoverTool(renderers=[drawn[first.label]], tooltips=tips, mode="vline")


def overlay_figure(
    chart: Chart, theme: Theme, sources: Sequence[ColumnDataSource] | None = None
) -> figure:
    """Draw curves of several runs over each other, with one legend entry for a name.

    The pointer shows the columns of the curve that it is on.
    """
    labels = dict.fromkeys(item.label for item in chart.series)
    # Names of runs may be long: the legend has as many columns as there is room for.
    n_columns = max(1, int(_HALF_PX // (48 + 6.5 * max(map(len, labels), default=0))))
    n_rows = -(-len(labels) // n_columns)
    kind = "log" if chart.is_log else "linear"
    size = {"height": 320 + 28 * n_rows, "y_axis_type": kind}
    fig = canvas(theme, chart.x.label, chart.y.label, **size)
    drawn: dict[str, list[Any]] = {}
    for line, data in zip(chart.series, sources or sources_of(chart), strict=True):
        glyph = curve(fig, line, data, name=line.label)
        tint(glyph, line, theme)
        drawn.setdefault(line.label, []).append(glyph)
        if line.has_dots:
            dots = fig.scatter(line.x, line.y, source=data, name=line.label, size=7)
            dots.glyph.update(fill_color=theme.colour(line.colour), line_color=None)
            drawn[line.label].append(dots)
    legend(fig, theme, drawn, min(n_columns, len(labels)) or None)
    shown = [glyphs[0] for glyphs in drawn.values()]
    columns = chart.series[0].data if chart.series else ()
    tips = [("run", "$name")]
    for name in columns:
        tips.append((chart.y.label if name == "value" else name, f"@{name}"))
    fig.add_tools(HoverTool(renderers=shown, tooltips=tips))
    return fig


def bars_figure(chart: Bars, theme: Theme) -> figure:
    """Draw a bar for each row from left to right; its parts follow each other."""
    rows = FactorRange(factors=[label for label, _ in reversed(chart.rows)])
    room = Range1d(start=0, end=chart.x.high * 1.04)
    height = (120 if chart.is_of_phases else 84) + _BAR_PX * len(chart.rows)
    size = {"height": height, "y_range": rows, "x_range": room}
    fig = canvas(theme, chart.x.label, None, **size)
    kinds: dict[Phase | None, Columns] = {}
    for label, parts in chart.rows:
        left = 0.0
        for part in parts:
            names = ("row", "name", "left", "right", "value", "colour")
            columns = kinds.setdefault(part.phase, {name: [] for name in names})
            colour = theme.colour(part.colour) if part.phase is None else ""
            values = (label, part.label, left, left + part.value, part.value, colour)
            for name, value in zip(names, values, strict=True):
                columns[name].append(value)
            left += part.value
    entries = {}
    for phase, columns in kinds.items():
        look: dict[str, Any] = {"fill_color": "colour", "line_color": None}
        if phase is not None:
            look |= {"fill_color": theme.phase(phase)} | _hatch(phase, theme)
        look |= {"left": "left", "right": "right", "height": 0.72}
        glyph = fig.hbar(y="row", source=source(columns), **look)
        if phase is not None:
            entries[phase.name.lower()] = glyph
    if entries:
        legend(fig, theme, entries)
    tips = [("", "@row @name"), (chart.x.label, "@value{0,0.000}")]
    fig.add_tools(HoverTool(tooltips=tips))
    fig.ygrid.grid_line_color = None
    return fig


def links_figure(
    chart: Chart, theme: Theme, sources: Sequence[ColumnDataSource] | None = None
) -> figure:
    """Draw each series in a separate strip; a value is valid until the next row."""
    n = len(chart.series)
    rows = Range1d(start=n + 0.05, end=-0.7)  # downwards, with room for labels
    extent = Range1d(start=chart.x.low, end=chart.x.high)  # strips need plain numbers
    size = {"height": 120 + _STRIP_PX * n, "y_range": rows, "x_range": extent}
    fig = canvas(theme, chart.x.label, chart.y.label, **size)
    pairs = zip(chart.series, sources or sources_of(chart), strict=True)
    for index, (series, data) in enumerate(pairs):
        strip = fig.subplot(
            x_source=fig.x_range,
            x_target=fig.x_range,
            y_source=Range1d(start=0, end=chart.y.high),
            y_target=Range1d(start=index + 1, end=index + 0.12),
        )
        _strip(strip, series, data, theme)
    names = {item + 1: line.label for item, line in enumerate(chart.series)}
    fig.yaxis.update(ticker=FixedTicker(ticks=list(names)), major_label_overrides=names)
    labels = [at.label for at in chart.marks]
    mark(fig, [at.at for at in chart.marks], labels, theme)
    tips = [("link", "$name"), ("time", "@second{0.00} s"), ("MB/s", "@rate{0.0}")]
    fig.add_tools(HoverTool(tooltips=tips))
    return fig


def _strip(strip: Any, series: Series, data: ColumnDataSource, theme: Theme) -> None:
    """Draw one link's rate as a line over a tinted area."""
    colour = theme.colour(series.colour)
    both = {"x": series.x, "source": data, "name": series.label}
    area = {"fill_color": colour, "fill_alpha": 0.3, "step_mode": "after"}
    strip.varea_step(y1=0, y2=series.y, **area, **both)
    line = {"color": colour, "line_dash": series.dash, "line_width": 2, "mode": "after"}
    strip.step(y=series.y, **line, **both)


def timeline_figure(
    chart: Timeline,
    theme: Theme,
    spans: ColumnDataSource | None = None,
    flights: ColumnDataSource | None = None,
    arrows: ColumnDataSource | None = None,
) -> figure:
    """Draw what each task did: one row per task, a coloured bar per stretch of time.

    `spans`, `flights` and `arrows` are sources if figures share them. Phases differ in
    colour, thickness and hatch; a thin bar below them shows bytes on their way, and an
    arrow a message from one task to another.
    """
    rows = FactorRange(factors=list(reversed(chart.rows)), range_padding=0.1)
    height = 128 + _ROW_PX * max(1, len(chart.rows))
    fig = canvas(theme, chart.x.label, None, height=height, y_range=rows)
    _step_axis(fig, chart.starts, theme)
    data = source(chart.spans) if spans is None else spans
    drawn = {phase: _stretches(fig, data, phase, theme) for phase in PHASE_HEIGHT}
    shown = [phase for phase in Phase if chart.arrows is None or phase in GROUP_PHASES]
    entries = {phase.name.lower(): drawn[phase] for phase in shown}
    coming = source(under(chart.flights)) if flights is None else flights
    entries[FLIGHT] = fig.hbar(
        y="under",
        left="left",
        right="right",
        height=FLIGHT_HEIGHT,
        source=coming,
        fill_color=theme.ink,
        line_color=None,
    )
    if chart.arrows is not None:
        entries |= _arrows(
            fig, source(chart.arrows) if arrows is None else arrows, theme
        )
    legend(fig, theme, entries, is_row=True)
    mark(fig, [0.0] if chart.zero else [], [""] if chart.zero else [], theme)
    tips = [("task", "@task"), ("phase", "@phase"), ("from", "@left{0.000} ms")]
    tips.append(("to", "@right{0.000} ms"))
    bars = [entry for entry in entries.values() if not isinstance(entry, list)]
    fig.add_tools(HoverTool(renderers=bars, tooltips=tips))
    fig.ygrid.grid_line_color = None
    return fig


def _arrows(fig: figure, data: ColumnDataSource, theme: Theme) -> dict[str, list[Any]]:
    """Draw messages from row to row, and a cross where one did not come."""
    glyphs: dict[str, list[Any]] = {}
    for look, dash, mark_ in ARROWS:
        view = CDSView(filter=GroupFilter(column_name="look", group=look))
        both: dict[str, Any] = {"source": data, "view": view}
        ends: dict[str, Any] = {
            "x0": "sent",
            "y0": "source",
            "x1": "arrived",
            "y1": "target",
        }
        line = fig.segment(**ends, **both, line_dash=dash, line_width=1.8)
        head = fig.scatter("arrived", "target", **both, marker=mark_, size=10)
        colour = theme.colour(_arrow_hue(look))
        line.glyph.line_color = colour
        head.glyph.update(fill_color=colour, line_color=colour)
        glyphs[look] = [line, head]
    drawn = [glyph for some in glyphs.values() for glyph in some]
    tips = [("", "@told"), ("sent at", "@sent{0.000} ms")]
    tips.append(("there at", "@arrived{0.000} ms"))
    fig.add_tools(HoverTool(renderers=drawn, tooltips=tips))
    return glyphs


def _arrow_hue(look: str) -> str:
    return "h4" if look == "missing" else "ink"


def tint_arrows(drawn: Sequence[Any], theme: Theme) -> None:
    """Give what `timeline_figure` has drawn for arrows the colours of a theme."""
    pairs = zip(drawn[::2], drawn[1::2], strict=True)
    for (line, head), (look, *_) in zip(pairs, ARROWS, strict=True):
        colour = theme.colour(_arrow_hue(look))
        line.glyph.line_color = colour
        head.glyph.update(fill_color=colour, line_color=colour)


def under(flights: Columns) -> Columns:
    """Return stretches of time with their places: below the middle of a task's row."""
    places = [(task, FLIGHT_OFF) for task in flights["task"]]
    return {"under": places, "left": flights["left"], "right": flights["right"]}


def volume_figure(volume: Data, theme: Theme) -> figure:
    """Draw measured MB per step as bars, and the formula's values as diamonds.

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
        beside = [(*column, shift) for column in columns["place"]]
        data = source({"x": beside} | {k: columns[k] for k in columns})
        entries[f"{word}, measured"] = _bars(fig, data, word, phase, theme)
        if np.isnan(columns[f"formula_{word}"]).all():
            continue
        style = {"fill_color": theme.ink, "line_color": theme.background, "size": 14}
        point = fig.scatter("x", f"formula_{word}", source=data, marker="diamond")
        point.glyph.update(line_width=1.5, **style)
        entries["formula"] = entries.pop("formula", point)  # always the last
    legend(fig, theme, entries)
    fig.xgrid.grid_line_color = None
    if sum(len(task) + 2 for _, task in columns["place"]) > _LETTERS:
        fig.xaxis.major_label_orientation = "vertical"
    return fig


def _shade(fig: figure, regions: Sequence[Region], theme: Theme) -> None:
    """Shade the regions; name each at the top, with a line where it begins."""
    for region in regions:
        colour = theme.colour(region.colour)
        box = BoxAnnotation(left=region.left, right=region.right, fill_color=colour)
        box.update(fill_alpha=0.12, line_color=None, level="underlay")
        fig.add_layout(box)
    places, names = [item.left for item in regions], [item.name for item in regions]
    mark(fig, places, names, theme, is_first_bare=True)


def _step_axis(fig: figure, starts: Sequence[Mark], theme: Theme) -> None:
    """Name the steps on an upper axis, with a thin line where each one begins."""
    ticker = FixedTicker(ticks=[start.at for start in starts])
    axis = LinearAxis(major_label_overrides={start.at: start.label for start in starts})
    axis.update(ticker=ticker, major_label_policy=NoOverlap())  # of short steps
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
