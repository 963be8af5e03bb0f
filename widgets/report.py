"""A report of trainings: one HTML file with figures, a table and text.

The file is self-contained: it needs no network, no server and no notebook. It is light
or dark, as the reader's system or its button says. It only shows traces; what to
measure and compare is up to the caller.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from kit.errors import InvalidArgumentError
from kit.markup import Html, joined, markup
from kit.settings import INSECURE
from kit.trace.trace import Trace
from widgets.board import call_tables, group_moment
from widgets.drawing import curves, figure_data, page, words
from widgets.drawing.bokeh_figures import (
    curves_figure,
    links_figure,
    sources_of,
    timeline_figure,
    volume_figure,
)
from widgets.drawing.canvas import source
from widgets.drawing.document import Drawing, both, embedded, write
from widgets.drawing.figure_data import Formula


@dataclass(frozen=True)
class Section:
    """One training in a report: a heading, some text, and the trace to draw.

    Parameters
    ----------
    title : str
        The heading.
    text : str
        Paragraphs, separated by empty lines.
    trace : Trace
        What was recorded of the training.
    formula : dict, optional
        The bytes that each task should send and receive in a step, such as
        `{"worker:0": (48, 48)}`. For a trace with switches, a dict of such dicts by
        topology.

    Raises
    ------
    InvalidArgumentError
        There is one formula, but the trace has several topologies.
    """

    title: str
    text: str
    trace: Trace
    formula: Formula | Mapping[str, Formula] | None = None

    def __post_init__(self) -> None:
        self.formulas()

    def formulas(self) -> Mapping[str, Formula]:
        """Return the formulas by topology."""
        formula = self.formula or {}
        if all(isinstance(value, Mapping) for value in formula.values()):
            return cast("Mapping[str, Formula]", formula)
        topologies = sorted({row.topology for row in self.trace.epochs})
        if len(topologies) != 1:
            raise InvalidArgumentError(
                f"section {self.title!r} has one formula, but its trace has the "
                f"topologies {', '.join(topologies) or '(none)'}; give a mapping "
                f"topology -> task -> (sent, received)."
            )
        return {topologies[0]: cast("Formula", formula)}


def write_report(
    path: str | os.PathLike[str],
    sections: Sequence[Section | tuple[Any, ...]],
    table: Sequence[Mapping[str, object]] = (),
    notes: Sequence[str] = (),
    *,
    title: str = "Training over parameter server and ring",
    made_at: datetime | None = None,
) -> None:
    """Write an HTML file: a table of results, then each section with its figures.

    Parameters
    ----------
    path : str or PathLike
        The file. It appears whole or not at all.
    sections : sequence of Section or tuple
        The trainings. A tuple has the fields of a `Section` in their order.
    table : sequence of dict, optional
        The rows of the table; their keys are its headings. Write a unit like this:
        "rate [steps/s]".
    notes : sequence of str, optional
        Sentences below the sections.
    title : str
        The heading of the page.
    made_at : datetime, optional
        When the report was made, by default now.

    Raises
    ------
    OSError
        The file cannot be written.

    Notes
    -----
    The file needs no network. Its size is about 1.2 MB, and 200 kB for each section.

    Examples
    --------
    Write a report of a finished training::

        write_report("report.html", [("On a ring", "Four workers.", run.trace)])
    """
    whole = [
        section if isinstance(section, Section) else Section(*section)
        for section in sections
    ]
    drawings = [_drawings(section) for section in whole]
    scripts, figures = embedded(drawings)
    parts = [page.table(table, "Results"), *map(_section, whole, figures)]
    write(path, title, Html("\n").join(parts), notes, scripts, made_at)


def _section(section: Section, figures: Html) -> Html:
    said = [words.PREDICTED] if section.trace.predicted else []
    if section.trace.insecure:
        said.append(f"The links of this training had {INSECURE}.")
    parts = [*said, *section.text.split("\n\n")]
    if section.trace.calls is None:
        parts.append(words.bottleneck(section.trace))
    text = joined(markup("<p>{}</p>", part) for part in parts)
    if section.trace.calls:
        text += call_tables.calls(section.trace)
    if len(section.trace.receipts):
        text += call_tables.waits(section.trace)
    return markup("<section><h2>{}</h2>{}\n{}</section>", section.title, text, figures)


def _drawings(section: Section) -> list[Drawing]:
    """Draw a section."""
    trace, formulas = section.trace, section.formulas()
    if trace.calls is not None:  # of a group: it has no steps, and no loss
        return [_links(trace), _timeline(trace)]
    volume, links, timeline = _volume(trace, formulas), _links(trace), _timeline(trace)
    if not trace.predicted:
        return [_loss(trace), volume, links, timeline]
    return [volume, *(_predicted(drawing) for drawing in (links, timeline))]


def _predicted(drawing: Drawing) -> Drawing:
    """Mark a figure as predicted: nothing in it was measured."""
    heading = f"{drawing.heading}, predicted"
    return replace(drawing, heading=heading, words=f"{words.PREDICTED} {drawing.words}")


def _loss(trace: Trace) -> Drawing:
    columns = figure_data.loss(trace)
    chart = curves.each_loss(columns, figure_data.regions(trace))
    shared = sources_of(chart)
    drawn = both(lambda theme: curves_figure(chart, theme, shared), columns["step"])
    return Drawing("Loss", words.loss(trace), drawn, wide=False)


def _volume(trace: Trace, formulas: Mapping[str, Formula]) -> Drawing:
    columns = figure_data.volume(trace, formulas)
    drawn = both(lambda theme: volume_figure(columns, theme), columns["place"])
    said = words.volume(columns, "planned" if trace.predicted else "measured")
    return Drawing("Bytes per task and step", said, drawn, wide=False)


def _links(trace: Trace) -> Drawing:
    lines = figure_data.links(trace)
    chart = curves.links(lines, figure_data.switches(trace))
    shared = sources_of(chart)
    drawn = both(lambda theme: links_figure(chart, theme, shared), lines)
    return Drawing("Traffic on each link", words.links(lines), drawn)


def _timeline(trace: Trace) -> Drawing:
    is_of_group = trace.calls is not None
    view = group_moment.window(trace) if is_of_group else figure_data.window(trace)
    unit = "call" if is_of_group else "step"
    chart = curves.timeline_of(trace, view, unit)
    shared = source(chart.spans)
    drawn = both(lambda theme: timeline_figure(chart, theme, shared), chart.rows)
    return Drawing("What each task did", words.timeline(trace, view, unit), drawn)
