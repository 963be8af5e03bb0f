"""Draw the results of the benchmarks into one HTML file that needs no other.

    python -m benchmarks.page [FOLDER]

Reads the JSON files that `benchmarks.run` wrote and writes `index.html` beside them:
for each benchmark its table, and what `benchmarks.curves` finds worth drawing.
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path
from typing import Any

from bokeh.embed import file_html
from bokeh.layouts import column, gridplot
from bokeh.models.annotations import Legend, LegendItem
from bokeh.models.ui import UIElement
from bokeh.models.widgets import Div
from bokeh.plotting import figure
from bokeh.resources import INLINE

from benchmarks.curves import Chart, charts
from benchmarks.results import FOLDER, Table
from widgets.drawing.theme import FONT, LIGHT

_WIDTH, _HEIGHT, _COLUMNS = 620, 430, 2
_STYLE = (
    f"<style>table {{border-collapse: collapse; font: 14px {FONT}}} "
    "td, th {padding: 4px 12px; text-align: right; border-bottom: 1px solid "
    f"{LIGHT.grid}}} h1, h2, p {{font-family: {FONT}; max-width: 90ch}}</style>"
)


def _html(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.head)
    rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in table.rows)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    notes = "".join(f"<p>{escape(note)}</p>" for note in table.notes)
    return (
        f"{_STYLE}<h2>{escape(table.title)}</h2>{notes}"
        f"<table><tr>{head}</tr>{body}</table>"
    )


def _div(html: str) -> Div:
    # Formulas would be typeset by a script from another host.
    return Div(text=html, width=2 * _WIDTH, disable_math=True)


def draw(chart: Chart) -> figure:
    """Return a figure of the lines, both axes logarithmic."""
    plot = figure(
        title=chart.title,
        x_axis_type="log",
        y_axis_type="log",
        x_axis_label=chart.x,
        y_axis_label=chart.y,
        width=_WIDTH,
        height=_HEIGHT,
        tools="pan,wheel_zoom,box_zoom,reset,hover",
        tooltips=[("", "$name"), (chart.x, "@x{0,0}"), (chart.y, "@y{0,0.0}")],
    )
    labels = list(dict.fromkeys(line.label for line in chart.lines))
    items: list[LegendItem] = []
    for line in chart.lines:
        colour = LIGHT.hue(labels.index(line.label))
        name = f"{line.label}{', model' if line.is_model else ''}"
        style: dict[str, Any] = {"color": colour, "name": name}
        drawn: Any = plot.line(
            line.xs,
            line.ys,
            line_width=1 if line.is_model else 2,
            line_dash="dashed" if line.is_model else "solid",
            **style,
        )
        if not line.is_model:
            plot.scatter(line.xs, line.ys, size=6, **style)
            items.append(LegendItem(label=line.label, renderers=[drawn]))
    plot.add_layout(Legend(items=items, label_text_font_size="12px"), "right")
    return plot


def write(folder: Path) -> Path:
    """Write `index.html` of all results in a folder; returns its path."""
    parts: list[UIElement] = []
    facts = ""
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text("utf-8"))
        facts = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
        parts.append(_div(_html(Table(**result["table"]))))
        drawn: list[Any] = [
            draw(chart) for chart in charts(path.stem, result["figures"])
        ]
        if drawn:
            parts.append(gridplot(drawn, ncols=_COLUMNS))
    head = f"{_STYLE}<h1>Benchmarks</h1><p>{escape(facts or 'No results yet.')}</p>"
    whole = column(_div(head), *parts)
    target = folder / "index.html"
    target.write_text(file_html(whole, INLINE, "Benchmarks"), "utf-8")
    return target


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    print(f"All tables and plots: {write(folder)}")


if __name__ == "__main__":
    main()
