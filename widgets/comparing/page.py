"""A comparison as one HTML file: its table, curves and bars."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bokeh.plotting import figure

from kit.errors import InvalidArgumentError
from kit.experiments import words
from kit.experiments.comparison import Comparison
from kit.experiments.results import Sweep
from kit.experiments.summary import Row
from kit.markup import Html, markup
from widgets.comparing import figure as figures
from widgets.comparing import overlays
from widgets.comparing.overlays import ALONG, Drawn
from widgets.drawing import page
from widgets.drawing.bokeh_figures import bars_figure, overlay_figure, sources_of
from widgets.drawing.curves import Bars, Chart
from widgets.drawing.document import Drawing, both, embedded
from widgets.drawing.document import write as write_page
from widgets.drawing.theme import THEMES

# A choice without a script: the other scale is hidden by the style sheet.
_SCALE = Html("""
<style>
main:has(#scale-log:checked) .linear, main:not(:has(#scale-log:checked)) .log
  { display: none; }
.runs td { white-space: nowrap; }
.runs th, .runs td { padding: 6px 9px; }
fieldset { border: 0; margin: 14px 0 0; padding: 0; display: flex; gap: 18px; }
legend { float: left; }
</style>
<fieldset><legend>Vertical scale of the loss</legend>
<label><input type="radio" name="scale" id="scale-linear" checked> linear</label>
<label><input type="radio" name="scale" id="scale-log"> logarithmic</label>
</fieldset>
""")
_NOTES = (
    "Thick lines are moving means over a fortieth of the steps, thin ones each step; a "
    "name in the legend hides its curves when it is clicked.",
    "Bytes are what all tasks together have received in the steps; what moves once, at "
    "the start and when the topology changes, is not among them.",
    "Seconds begin with the first step of each run, and pauses count.",
    "Times by phase are the mean over the tasks of a job and over the steps of which "
    "they are kept.",
)


def write(
    comparison: Comparison | Sweep,
    path: str | os.PathLike[str],
    measure: str = "loss",
    along: str = "step",
) -> None:
    """Write the file; this is the view called `comparison_page`.

    A name that ends in .svg, .pdf or .png gets a figure. It appears whole or not at
    all. Raises `InvalidArgumentError` for any other name but that of a page, and
    `OSError` as the file system gives it.
    """
    suffix = Path(path).suffix.lower()
    if suffix in figures.SUFFIXES:
        figures.write(comparison, path, measure, along)
        return
    if isinstance(comparison, Sweep) or suffix not in (".html", ".htm"):
        page_too = "" if isinstance(comparison, Sweep) else ", or .html for a page"
        raise InvalidArgumentError(
            f"{str(path)!r} cannot be written; give a name that ends in "
            f"{', '.join(figures.SUFFIXES)}{page_too}."
        )
    outcomes = comparison.outcomes()
    runs = overlays.drawn(outcomes)
    curves = [
        _curves(runs, measure, along)
        for measure in overlays.measures(runs)
        for along in ALONG
    ]
    bars = [
        _bars(overlays.time_bars(runs), wide=False),
        _bars(overlays.bytes_bars(runs), wide=False),
        _bars(overlays.phase_bars(runs), wide=True),
    ]
    scripts, (above, below) = embedded([curves, bars])
    body = [
        markup('<div class="runs">{}</div>', _tables(comparison.rows())),
        markup("<section><h2>Curves</h2>{}{}</section>", _SCALE, above),
        markup("<section><h2>What a step takes</h2>{}</section>", below),
    ]
    kept = [
        f"{outcome.name}: {outcome.trace.kept}."
        for outcome in outcomes
        if str(outcome.trace.kept)
    ]
    title = f"Comparison of {len(runs)} runs"
    write_page(path, title, Html("\n").join(body), [*_NOTES, *kept], scripts)


def _tables(rows: Sequence[Row]) -> Html:
    """Return the results and their cost, as two tables, which fit side by side."""
    costs = [name for name in words.HEADS if name != "loss"]
    out = [{k: v for k, v in row.items() if k not in costs} for row in rows]
    took = [{k: v for k, v in row.items() if k in ("run", *costs)} for row in rows]
    return page.table(words.headed(out), "Runs") + page.table(
        words.headed(took), "Cost"
    )


def _curves(runs: Sequence[Drawn], measure: str, along: str) -> Drawing:
    """Draw a measure in both themes, the loss on both scales."""
    by_class: dict[str, figure] = {}
    shared = None
    for is_log in (False, True) if measure == "loss" else (False,):
        chart: Chart = overlays.overlay(runs, measure, along, is_log=is_log)
        shared = shared or sources_of(chart)
        for theme in THEMES if _has_points(chart) else ():
            scale = "log" if is_log else "linear"
            name = f"{theme.name} {scale}" if measure == "loss" else theme.name
            by_class[name] = overlay_figure(chart, theme, shared)
    said = overlays.overlay_words(runs, measure, along)
    return Drawing(chart.title, said, by_class, wide=along == "step")


def _has_points(chart: Chart) -> bool:
    return any(len(series.points) for series in chart.series)


def _bars(chart: Bars, *, wide: bool) -> Drawing:
    drawn = both(lambda theme: bars_figure(chart, theme), chart.rows)
    return Drawing(chart.title, overlays.bars_words(chart), drawn, wide=wide)
