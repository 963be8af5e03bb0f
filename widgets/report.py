"""A report of trainings: one HTML file with figures, table and words.

The file is complete in itself: it needs no network, no server and no notebook, and it
shows the figures in light or dark, as the reader's system or the button says. It only
shows traces; what to measure and compare is the caller's business.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

from bokeh.document import Document
from bokeh.embed import components
from bokeh.plotting import figure
from bokeh.resources import Resources

from kit.errors import InvalidArgumentError
from kit.trace.file import write_atomically
from kit.trace.trace import Trace
from widgets.drawing import curves, feed, page, words
from widgets.drawing.canvas import source
from widgets.drawing.feed import Formula
from widgets.drawing.figures import (
    curves_figure,
    links_figure,
    sources_of,
    timeline_figure,
    volume_figure,
)
from widgets.drawing.theme import THEMES, Theme


@dataclass(frozen=True)
class Section:
    """One training in the report: a heading, a few words, and the trace to draw.

    Parameters
    ----------
    title : str
        The heading.
    text : str
        Paragraphs, with empty lines between them.
    trace : Trace
        What to draw.
    formula : dict, optional
        Bytes that each task should send and receive in a step, such as
        `{"worker:0": (48, 48)}`. For a trace with switches, such a dict for each
        topology by name.

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


@dataclass(frozen=True)
class _Drawing:
    """One figure by theme (or none), with its heading and its twin in words."""

    heading: str
    words: str
    by_theme: Mapping[str, figure]
    wide: bool = True


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
    sections : sequence of Section
        Or of tuples of a section's fields.
    table : sequence of dict, optional
        The rows; their keys are the heads. Write units as "rate [steps/s]".
    notes : sequence of str, optional
        Sentences below the sections.
    title : str
        The heading of the page.
    made_at : datetime, optional
        By default now.

    Raises
    ------
    OSError
        The file cannot be written.

    Notes
    -----
    The file needs no network. It has about 1.2 MB, and 200 kB more for each section.

    Examples
    --------
    Show a training that is over::

        write_report("report.html", [("On a ring", "Four workers.", run.trace)])
    """
    whole = [one if isinstance(one, Section) else Section(*one) for one in sections]
    drawings = [_drawings(section) for section in whole]
    scripts, divs = _embedded(drawings)
    parts = [page.table(table, "Results")]
    for section, drawn, shown in zip(whole, drawings, divs, strict=True):
        parts.append(_section(section, drawn, shown))
    moment = (made_at or datetime.now(UTC)).astimezone(UTC)
    made = f"Made {moment:%Y-%m-%d %H:%M} UTC with {_versions()}."
    document = page.page(title, made, "\n".join(parts), notes, scripts)
    write_atomically(path, [document])


def _drawings(section: Section) -> list[_Drawing]:
    """Draw a section."""
    trace, formulas = section.trace, section.formulas()
    return [_loss(trace), _volume(trace, formulas), _links(trace), _timeline(trace)]


def _loss(trace: Trace) -> _Drawing:
    columns = feed.loss(trace)
    chart = curves.each_loss(columns, feed.regions(trace))
    shared = sources_of(chart)
    drawn = _both(lambda theme: curves_figure(chart, theme, shared), columns["step"])
    return _Drawing("Loss", words.loss(trace), drawn, wide=False)


def _volume(trace: Trace, formulas: Mapping[str, Formula]) -> _Drawing:
    columns = feed.volume(trace, formulas)
    drawn = _both(lambda theme: volume_figure(columns, theme), columns["place"])
    said = words.volume(columns)
    return _Drawing("Bytes per task and step", said, drawn, wide=False)


def _links(trace: Trace) -> _Drawing:
    lines = feed.links(trace)
    chart = curves.links(lines, feed.switches(trace))
    shared = sources_of(chart)
    drawn = _both(lambda theme: links_figure(chart, theme, shared), lines)
    return _Drawing("Traffic on each link", words.links(lines), drawn)


def _timeline(trace: Trace) -> _Drawing:
    view = feed.window(trace)
    columns, starts = feed.timeline(trace, view), feed.step_starts(trace, view)
    active = [name for name in trace.names if name in set(columns["task"])]
    coming = feed.flights(trace, view)
    chart = curves.timeline(columns, starts, active, view.label, coming)
    shared = source(columns)

    def draw(theme: Theme) -> figure:
        return timeline_figure(chart, theme, shared)

    said = words.timeline(trace, view)
    return _Drawing("What each task did", said, _both(draw, active))


def _both(draw: Callable[[Theme], figure], data: Sized) -> dict[str, figure]:
    """Draw in both themes; nothing without data, as the words say so already."""
    return {theme.name: draw(theme) for theme in THEMES} if len(data) else {}


def _embedded(drawings: Sequence[Sequence[_Drawing]]) -> tuple[str, list[list[str]]]:
    """Return the scripts of the page and, for each drawing, its places in HTML."""
    models = [f for some in drawings for d in some for f in d.by_theme.values()]
    script, divs = _components(models) if models else ("", ())
    following = iter(divs)
    places = [
        [
            "".join(
                f'<div class="{name}">{next(following)}</div>' for name in d.by_theme
            )
            for d in some
        ]
        for some in drawings
    ]
    return script, places


def _components(models: Sequence[figure]) -> tuple[str, Sequence[str]]:
    """Return bokeh itself with the script of the figures, and a place for each."""
    document = Document()
    with document.models.freeze():  # else every root is a walk over all of them
        for model in models:
            document.add_root(model)
    script, divs = components(models)
    library = Resources(mode="inline", components=["bokeh"]).render_js()
    return library + script, divs


def _section(
    section: Section, drawings: Sequence[_Drawing], shown: Sequence[str]
) -> str:
    figures = "".join(
        f"<figure{' class=wide' if drawing.wide else ''}>"
        f"<h3>{escape(drawing.heading)}</h3>\n"
        f'<div role="group" aria-label="{escape(drawing.heading)}: '
        f'{escape(drawing.words)}">{places}</div>\n'
        f"<figcaption>{escape(drawing.words)}</figcaption></figure>\n"
        for drawing, places in zip(drawings, shown, strict=True)
    )
    text = "".join(f"<p>{escape(part)}</p>" for part in section.text.split("\n\n"))
    return (
        f"<section><h2>{escape(section.title)}</h2>{text}\n"
        f'<div class="figures">{figures}</div></section>'
    )


def _versions() -> str:
    """Return the versions of what made the report."""
    names = []
    for package in ("psring", "numpy", "bokeh"):
        try:
            names.append(f"{package} {version(package)}")
        except PackageNotFoundError:  # run from a checkout
            names.append(f"{package} (not installed)")
    python = f"Python {platform.python_version()}"
    return ", ".join([*names, python]) + f" on {platform.system()}"
