"""The board's live figures: made once, then shown again with other columns.

Only data and plain properties change, never the set of marks. `show` draws a chart of
`widgets.drawing.curves` in a theme; nothing here knows where it comes from, or when.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.core.properties import value
from bokeh.models import (
    AdaptiveTicker,
    BasicTickFormatter,
    ColumnDataSource,
    DataRange1d,
    FixedTicker,
    HoverTool,
    LinearAxis,
    LinearScale,
    LogScale,
    NoOverlap,
    Range1d,
)
from bokeh.models.annotations import Legend, LegendItem
from bokeh.plotting import figure

from kit.trace.traffic import Phase
from widgets.drawing import curves, strips
from widgets.drawing.bokeh_figures import (
    curve,
    sources_of,
    timeline_figure,
    tint,
    tint_arrows,
    tips_of,
    under,
)
from widgets.drawing.canvas import canvas, dress, fit, legend
from widgets.drawing.curves import Chart, Series, Timeline
from widgets.drawing.figure_data import Columns
from widgets.drawing.svg_charts import Scale
from widgets.drawing.theme import ARROWS, FLIGHT, FONT, LIGHT, TEXT_PX, Theme

PANE_PX, LOSS_PX = 320, 286  # heights in a tab: all of it, and below a row of options
_OWN_SCALES = "each strip from 0 to its MB/s"
_NO_LOSS: Columns = {"step": [], "loss": [], "low": [], "high": []}
_NO_REGIONS: Columns = {"left": [], "right": [], "topology": []}


def paint(fig: Any, theme: Theme) -> None:
    """Give the frame of a figure the colours of a theme; its marks keep theirs."""
    fig.update(background_fill_color=theme.background, outline_line_color=theme.grid)
    fig.border_fill_color = theme.background
    fig.grid.grid_line_color = theme.grid
    for axis in fig.axis:
        dress(axis, theme)
    for box in fig.select({"type": Legend}):
        box.update(label_text_color=theme.ink, background_fill_color=theme.background)
        box.label_text_font_size = f"{theme.text_px}px"
        fit(box, theme)


class LossPlot:
    """Curves over the steps, on shaded regions of topologies."""

    def __init__(self) -> None:
        chart = curves.loss(_NO_LOSS, _NO_REGIONS)
        room = DataRange1d(range_padding=0.16)  # for the names of the regions
        labels = chart.x.label, chart.y.label
        self.figure: Any = canvas(LIGHT, *labels, height=LOSS_PX, y_range=room)
        self._regions = _source("left", "right", "colour", "name", "top")
        self._names = _regions(self.figure, self._regions)
        self._again = _source("left", "right")
        self._bands = self.figure.vstrip(
            "left", "right", source=self._again, fill_alpha=0.35, line_color=None
        )
        self._changes = _source("second", "label", "top", "align", "offset")
        self._sources = sources_of(chart)
        self._marks = _marks(self.figure, self._changes)
        # Below the names of the regions, and below a share of 1.
        self._marks[1].glyph.y_offset = 3 * TEXT_PX
        self.figure.xaxis.major_label_policy = NoOverlap()
        self._right = self._right_axis(chart)
        self._scales = self._linear_and_log()
        self._curves, self._dots = dict[str, Any](), dict[str, Any]()
        # Bands first, so that lines are on top of them.
        pairs = [*zip(chart.series, self._sources, strict=True)]
        for series, data in sorted(pairs, key=lambda pair: not pair[0].to):
            more: dict[str, Any] = {"visible": not (series.is_right or series.has_dots)}
            if series.is_right:
                more["y_range_name"] = "right"
            self._curves[series.label] = curve(self.figure, series, data, **more)
            if series.has_dots:
                at = (series.x, series.y)
                dots = self.figure.scatter(*at, source=data, size=7, **more)
                self._dots[series.label] = dots
        left = [line.label for line in chart.series if not line.is_right]
        drawn = {label: self._curves[label] for label in left}
        self._drawn = list(drawn.values())
        self._least = _least(self.figure, [0.0, 0.0])
        room.update(renderers=[*self._drawn, self._least])
        legend(self.figure, LIGHT, drawn)
        items: Any = self.figure.select({"type": LegendItem})
        self._items: dict[str, Any] = {item.label.value: item for item in items}
        for label in self._items.keys() & self._dots:
            self._items[label].visible = False  # until there is something to show
        self.figure.add_tools(tips_of(chart, self._curves))
        self._theme: Theme | None = None

    def _linear_and_log(self) -> tuple[Any, Any]:
        """Return a scale and a ticker for the loss, and the same for logarithms."""
        self.figure.extra_y_scales = {n: LinearScale() for n in ("frame", "right")}
        axis = self.figure.yaxis[0]
        axis.formatter = BasicTickFormatter(use_scientific=False)
        linear = self.figure.y_scale, AdaptiveTicker(mantissas=[1, 2, 5])
        axis.ticker = linear[1]
        log = LogScale(), FixedTicker()
        self.figure.tags = [*linear, *log]  # so that every page knows all of them
        return linear, log

    def scale(self, *, is_log: bool) -> None:
        """Make the loss axis logarithmic, without 0, or linear."""
        self.figure.y_scale, self.figure.yaxis[0].ticker = self._scales[is_log]
        self.figure.y_range.renderers = [*self._drawn, *[self._least] * (not is_log)]

    def _right_axis(self, chart: Chart) -> Any:
        """Add the axis at the right; it is visible once something is drawn on it."""
        assert chart.right is not None
        label, low, high = chart.right
        room = low + (high - low) * 1.16
        self.figure.extra_y_ranges["right"] = Range1d(start=low, end=room)
        axis = LinearAxis(y_range_name="right", visible=False, axis_label=label)
        axis.update(ticker=FixedTicker(ticks=[low, (low + high) / 2, high]))
        dress(axis, LIGHT)
        self.figure.add_layout(axis, "right")
        return axis

    def show(self, chart: Chart, theme: Theme) -> None:
        """Draw a chart of `curves.loss`."""
        if theme is not self._theme:
            self._theme = theme
            paint(self.figure, theme)
            size = f"{theme.text_px}px"
            self._names.glyph.update(text_color=theme.ink, text_font_size=size)
            self._bands.glyph.fill_color = theme.faint
            _tint(self._marks, theme)
            for series in chart.series:
                tint(self._curves[series.label], series, theme)
            for label, dots in self._dots.items():
                colour = self._curves[label].glyph.line_color
                dots.glyph.update(fill_color=colour, line_color=None)
        lows = [low for low in chart.series[1].data["low"] if low > 0]
        scale = Scale(min(lows, default=0.1), chart.y.high, 0, 1, is_log=True)
        self._scales[True][1].ticks = scale.ticks(5)
        _put(self._regions, strips.named(chart.regions, theme))
        _put(self._again, strips.again(chart))
        _put(self._changes, strips.marks(chart))
        # Each change is sent, so series that share their columns are set once.
        new = {}
        for series, data in zip(chart.series, self._sources, strict=True):
            is_beside = series.is_right or series.has_dots
            if not is_beside or len(series.data[series.x]):
                new[data.id] = data, series.data
                if is_beside:
                    self._show_beside(series)
        assert chart.right is not None
        self._right.axis_label = chart.right.label
        for data, columns in new.values():
            data.data = packed(columns)

    def _show_beside(self, series: Series) -> None:
        """Show a curve that is only there once it was measured."""
        label = series.label
        self._curves[label].visible = True
        if series.is_right:
            self._right.visible = True
        if label in self._dots:
            self._dots[label].visible = True
        if label in self._items:
            self._items[label].visible = True


class LinksPlot:
    """The rate of each link over time, a strip for each, with switches marked."""

    def __init__(self) -> None:
        nothing = curves.links({}, {"second": [], "label": []})
        rows = Range1d(start=1.05, end=-0.7)
        x_range = DataRange1d(range_padding=0)
        self.figure: Any = canvas(
            LIGHT, nothing.x.label, "", height=LOSS_PX, y_range=rows, x_range=x_range
        )
        self.figure.yaxis.ticker = FixedTicker(ticks=[])
        self.figure.xaxis.major_label_policy = NoOverlap()
        self._lines = _source("xs", "ys", "colour", "dash", "name")
        self._switches = _source("second", "label", "top", "align", "offset")
        fill: dict[str, Any] = {"fill_color": "colour", "fill_alpha": 0.3}
        fill["line_color"] = None
        self.figure.patches("xs", "ys", source=self._lines, **fill)
        look: dict[str, Any] = {"line_color": "colour", "line_dash": "dash"}
        look["line_width"] = 2
        lines = self.figure.multi_line("xs", "ys", source=self._lines, **look)
        x_range.renderers = [lines, _least(self.figure, [1.0, 1.0])]
        self._marks = _marks(self.figure, self._switches)
        tips = [("link", "@name")]
        self.figure.add_tools(HoverTool(renderers=[lines], tooltips=tips))
        self._theme: Theme | None = None

    def show(self, chart: Chart, theme: Theme, *, has_own_scales: bool = False) -> None:
        """Draw a chart of `curves.links`; links may have scales of their own."""
        if theme is not self._theme:
            self._theme = theme
            paint(self.figure, theme)
            _tint(self._marks, theme)
        columns = strips.strips(chart, theme, has_own_scales=has_own_scales)
        names = columns["name"]
        ticks = {index + 1: name for index, name in enumerate(names)}
        axis = self.figure.yaxis[0]
        if axis.major_label_overrides != ticks:
            axis.ticker.ticks = list(ticks)
            axis.major_label_overrides = ticks
            self.figure.y_range.start = max(1, len(names)) + 0.05
        label = _OWN_SCALES if has_own_scales else chart.y.label
        axis.axis_label = label if names else ""
        self._lines.data = columns | {
            name: [np.array(line, np.float32) for line in columns[name]]
            for name in ("xs", "ys")
        }
        _put(self._switches, strips.marks(chart))


class TimelinePlot:
    """What each task did in the steps shown."""

    def __init__(self, tasks: Sequence[str], *, has_arrows: bool = False) -> None:
        """Make it; `has_arrows`: messages from row to row may be drawn."""
        self._spans = _source("task", "phase", "left", "right")
        self._flights = _source("under", "left", "right")
        nothing: Columns = {"at": [], "step": []}
        names = ("source", "target", "sent", "arrived", "look", "told")
        self._arrows = _source(*names)
        arrows: Columns | None = {} if has_arrows else None
        chart = curves.timeline({"left": []}, nothing, tasks, arrows=arrows)
        sources = self._spans, self._flights, self._arrows
        self.figure: Any = timeline_figure(chart, LIGHT, *sources)
        self.figure.xaxis.major_label_policy = NoOverlap()  # in large type
        above: Any = self.figure.above
        self._steps: Any = next(axis for axis in above if isinstance(axis, LinearAxis))
        drawn = list[Any](self.figure.renderers)
        n_arrows = 2 * len(ARROWS) if has_arrows else 0
        self._drawn_arrows = drawn[len(drawn) - n_arrows :]
        *self._bars, self._coming = drawn[: len(drawn) - n_arrows]
        items: Any = self.figure.select({"type": LegendItem})
        self._items: dict[str, Any] = {item.label.value: item for item in items}
        _least(self.figure, [tasks[0], tasks[0]])
        self._theme: Theme | None = None

    def show(self, chart: Timeline, theme: Theme) -> None:
        """Draw a chart of `curves.timeline`."""
        if theme is not self._theme:
            self._theme = theme
            paint(self.figure, theme)
            for bars in self._bars:
                phase = Phase[bars.view.filter.group.upper()]
                looks = {"fill_color": theme.phase(phase), "hatch_color": theme.hatch}
                bars.glyph.update(**looks)
            self._coming.glyph.fill_color = theme.ink
            if self._drawn_arrows:
                tint_arrows(self._drawn_arrows, theme)
        self._steps.major_label_overrides = {at: label for at, label in chart.starts}
        self._steps.ticker.ticks = [at for at, _ in chart.starts]
        self.figure.xaxis[-1].axis_label = chart.x.label
        self._spans.data = {
            **{name: chart.spans[name] for name in ("task", "phase")},
            **packed({side: chart.spans[side] for side in ("left", "right")}),
        }
        _put(self._flights, under(chart.flights))
        shown = {*chart.spans["phase"], *[FLIGHT] * bool(len(chart.flights["task"]))}
        if chart.arrows is not None:
            _put(self._arrows, chart.arrows)
            shown |= {*chart.arrows["look"]}
        for name, item in self._items.items():
            item.visible = name in shown


def packed(columns: Columns) -> Columns:
    """Return columns of numbers in the form that is cheapest to send.

    A list is written number by number, at one to five microseconds each.
    """
    return {name: np.array(numbers, np.float32) for name, numbers in columns.items()}


def _source(*names: str) -> ColumnDataSource:
    return ColumnDataSource(data={name: [] for name in names})


def _put(source: ColumnDataSource, columns: Columns) -> None:
    """Set the columns of a source, unless it has them: each change is sent."""
    if source.data != columns:
        source.data = columns


def _least(fig: Any, ys: Sequence[Any]) -> Any:
    """Let a figure reach at least from 0 to 1: without data it has no range."""
    return fig.scatter([0.0, 1.0], ys, visible=False)


def _regions(fig: Any, source: ColumnDataSource) -> Any:
    """Shade regions of the x axis; returns their names."""
    shade = {"fill_color": "colour", "fill_alpha": 0.12, "line_color": "colour"}
    fig.vstrip("left", "right", source=source, level="underlay", **shade)
    return _words(fig, "left", "name", source)


def _marks(fig: Any, source: ColumnDataSource) -> tuple[Any, Any]:
    """Draw a dashed line at each mark; returns the lines and their words."""
    lines = fig.vspan("second", source=source, line_dash="dashed", line_width=1.6)
    labels = _words(fig, "second", "label", source)
    labels.glyph.update(text_align="align", x_offset="offset")
    return lines, labels


def _tint(marks: tuple[Any, Any], theme: Theme) -> None:
    lines, labels = marks
    lines.glyph.line_color = labels.glyph.text_color = theme.ink
    labels.glyph.text_font_size = f"{theme.text_px}px"


def _words(fig: figure, x: str, text: str, source: ColumnDataSource) -> Any:
    """Write texts at the top of the frame, each to the right of its place."""
    fig.extra_y_ranges = {"frame": Range1d(start=0, end=1)}
    return fig.text(
        x,
        "top",
        text=text,
        source=source,
        y_range_name="frame",
        x_offset=5,
        y_offset=4,
        text_font=value(FONT),
        text_font_size=f"{TEXT_PX}px",
        text_baseline="top",
    )
