"""The board's live figures: made once, then shown again with other columns.

What changes is data and plain properties, never the set of marks. `show` draws columns
in a theme; nothing here knows where they come from or when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bokeh.core.properties import value
from bokeh.models import (
    ColumnDataSource,
    DataRange1d,
    FixedTicker,
    HoverTool,
    LinearAxis,
    Range1d,
)
from bokeh.models.annotations import Legend
from bokeh.plotting import figure

from kit.trace.traffic import Phase
from widgets import strips
from widgets.canvas import canvas, dress, legend
from widgets.feed import Columns
from widgets.figures import timeline_figure
from widgets.theme import FONT, LIGHT, TEXT_PX, Theme


def paint(fig: Any, theme: Theme) -> None:
    """Give a figure's frame the colours of a theme; marks keep theirs."""
    fig.update(background_fill_color=theme.background, outline_line_color=theme.grid)
    fig.border_fill_color = theme.background
    fig.grid.grid_line_color = theme.grid
    for axis in fig.axis:
        dress(axis, theme)
    for box in fig.select({"type": Legend}):
        box.label_text_color = theme.ink
        box.background_fill_color = theme.background


class LossPlot:
    """The loss over the steps: mean and range, on shaded regions of topologies."""

    def __init__(self, theme: Theme = LIGHT) -> None:
        """Draw it without any data."""
        room = DataRange1d(range_padding=0.16)  # for the names of the regions
        self.figure: Any = canvas(theme, "step", "loss", height=280, y_range=room)
        self._loss = _source("step", "loss", "low", "high")
        self._regions = _source("left", "right", "colour", "name", "top")
        self._names = _regions(self.figure, self._regions)
        self._band = self.figure.varea(
            "step", "low", "high", source=self._loss, fill_alpha=0.25
        )
        self._mean = self.figure.line("step", "loss", source=self._loss, line_width=2.5)
        least = _least(self.figure, [0.0, 0.0])
        room.update(renderers=[self._band, self._mean, least])
        self._shares = _source("step", "value")
        self.figure.extra_y_ranges["share"] = Range1d(start=0, end=1.16)
        self._share = self.figure.line(
            "step", "value", source=self._shares, y_range_name="share",
            line_width=2.5, line_dash="dashed", visible=False,
        )  # fmt: skip
        self._right = LinearAxis(y_range_name="share", visible=False)
        ticker = FixedTicker(ticks=[0, 0.5, 1])
        self._right.update(axis_label="accuracy (dashed)", ticker=ticker)
        dress(self._right, theme)
        self.figure.add_layout(self._right, "right")
        entries = {"mean": self._mean, "least to greatest of the workers": self._band}
        legend(self.figure, theme, entries, "above")
        tips = [("step", "@step{0}"), ("loss", "@loss{0.0000}")]
        self.figure.add_tools(
            HoverTool(renderers=[self._mean], tooltips=tips, mode="vline")
        )
        self._theme: Theme | None = None

    def show(
        self,
        loss: Columns,
        regions: Columns,
        theme: Theme,
        shares: Columns | None = None,
    ) -> None:
        """Draw `History.loss` and `History.regions`, and the accuracy if there is."""
        if theme is not self._theme:
            self._theme = theme
            paint(self.figure, theme)
            self._mean.glyph.line_color = theme.ink
            self._band.glyph.fill_color = theme.faint
            self._names.glyph.text_color = theme.ink
            self._share.glyph.line_color = theme.hues[0]
        if shares and shares["step"]:
            self._shares.data = packed(shares)
            self._share.visible = self._right.visible = True
        _put(self._regions, strips.named(regions, theme))
        self._loss.data = packed(loss)


class LinksPlot:
    """The rate of each link over time, a strip for each, with switches marked."""

    def __init__(self, theme: Theme = LIGHT) -> None:
        """Draw it without any data."""
        rows = Range1d(start=1.05, end=-0.7)
        x_range = DataRange1d(range_padding=0)
        self.figure: Any = canvas(
            theme, "time since the start [s]", "", height=330, y_range=rows,
            x_range=x_range,
        )  # fmt: skip
        self.figure.yaxis.ticker = FixedTicker(ticks=[])
        self._lines = _source("xs", "ys", "colour", "dash", "name")
        self._switches = _source("second", "label", "top", "align", "offset")
        fill: dict[str, Any] = {"fill_color": "colour", "fill_alpha": 0.3}
        fill["line_color"] = None
        self.figure.patches("xs", "ys", source=self._lines, **fill)
        look: dict[str, Any] = {"line_color": "colour", "line_dash": "dash"}
        look["line_width"] = 2
        lines = self.figure.multi_line("xs", "ys", source=self._lines, **look)
        x_range.renderers = [lines, _least(self.figure, [1.0, 1.0])]
        self._marks = self.figure.vspan(
            "second", source=self._switches, line_dash="dashed", line_width=1.6
        )
        self._labels = _words(self.figure, "second", "label", self._switches)
        self._labels.glyph.update(text_align="align", x_offset="offset")
        tips = [("link", "@name")]
        self.figure.add_tools(HoverTool(renderers=[lines], tooltips=tips))
        self._theme: Theme | None = None

    def show(
        self, links: Mapping[str, Columns], switches: Columns, theme: Theme
    ) -> None:
        """Draw `History.links` and `History.switches`."""
        if theme is not self._theme:
            self._theme = theme
            paint(self.figure, theme)
            self._marks.glyph.line_color = theme.ink
            self._labels.glyph.text_color = theme.ink
        links = strips.thinned(links)
        columns = strips.strips(links, theme)
        names = columns["name"]
        ticks = {place + 1: name for place, name in enumerate(names)}
        axis = self.figure.yaxis[0]
        if axis.major_label_overrides != ticks:
            axis.ticker.ticks = list(ticks)
            axis.major_label_overrides = ticks
            self.figure.y_range.start = max(1, len(names)) + 0.05
        top = strips.peak(links)
        axis.axis_label = f"each from 0 to {top:.3g} MB/s" if names else ""
        self._lines.data = columns | {
            name: [np.array(line, np.float32) for line in columns[name]]
            for name in ("xs", "ys")
        }
        _put(self._switches, strips.marks(switches, links))


class TimelinePlot:
    """What each task did in the steps shown."""

    def __init__(self, tasks: Sequence[str], theme: Theme = LIGHT) -> None:
        """Draw it without any data."""
        self._spans = _source("task", "phase", "left", "right")
        nothing: Columns = {"at": [], "step": []}
        self.figure: Any = timeline_figure(self._spans, tasks, nothing, theme)
        above: Any = self.figure.above
        self._steps: Any = next(one for one in above if isinstance(one, LinearAxis))
        self._bars: list[Any] = list(self.figure.renderers)
        self._tasks = tuple(tasks)
        _least(self.figure, [tasks[0], tasks[0]])
        self._theme: Theme | None = None

    def show(self, spans: Columns, starts: Columns, label: str, theme: Theme) -> None:
        """Draw `feed.timeline` and `feed.step_starts`; `label` happened at 0 ms."""
        if theme is not self._theme:
            self._theme = theme
            paint(self.figure, theme)
            for bars in self._bars:
                phase = Phase[bars.view.filter.group.upper()]
                looks = {"fill_color": theme.phase(phase), "hatch_color": theme.hatch}
                bars.glyph.update(**looks)
        names = zip(starts["at"], starts["step"], strict=True)
        self._steps.major_label_overrides = {at: f"step {step}" for at, step in names}
        self._steps.ticker.ticks = list(starts["at"])
        what = f"time [ms], 0 is the switch from {label}" if label else "time [ms]"
        self.figure.xaxis[-1].axis_label = what
        # Of a phase without a bar, even one of no length, the legend has no sample.
        missing = [
            p.name.lower() for p in Phase if p.name.lower() not in spans["phase"]
        ]
        none = np.full(len(missing), np.nan)
        self._spans.data = {
            "task": [*spans["task"], *[self._tasks[0]] * len(missing)],
            "phase": [*spans["phase"], *missing],
            **packed({side: [*spans[side], *none] for side in ("left", "right")}),
        }


def packed(columns: Columns) -> Columns:
    """Return columns of numbers in the form that costs least to send.

    A list is written number by number, a microsecond or five each.
    """
    return {name: np.array(numbers, np.float32) for name, numbers in columns.items()}


def _source(*names: str) -> ColumnDataSource:
    return ColumnDataSource(data={name: [] for name in names})


def _put(source: ColumnDataSource, columns: Columns) -> None:
    """Give a source its columns, unless it has them: a page is told of any."""
    if source.data != columns:
        source.data = columns


def _least(fig: Any, ys: Sequence[Any]) -> Any:
    """Let a figure reach from 0 to 1 at least: of no data no range can be made."""
    return fig.scatter([0.0, 1.0], ys, visible=False)


def _regions(fig: Any, source: ColumnDataSource) -> Any:
    """Shade regions of the x axis; returns their names."""
    shade = {"fill_color": "colour", "fill_alpha": 0.12, "line_color": "colour"}
    fig.vstrip("left", "right", source=source, level="underlay", **shade)
    return _words(fig, "left", "name", source)


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
