"""What a notebook keeps of a comparison, and its parts, as the live one has them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from kit.experiments.comparison import Comparison
from widgets.board.snapshot import ONE_OF_BOTH
from widgets.comparing import overlays
from widgets.comparing.overlays import ALONG, Drawn
from widgets.drawing import charts
from widgets.drawing.looks import style


def still(comparison: Comparison) -> str:
    """Return what a notebook keeps: all curves and bars, without any script."""
    runs = overlays.drawn(comparison.outcomes())
    figures = [
        (
            charts.curves_chart(overlays.overlay(runs, measure, along)),
            overlays.overlay_words(runs, measure, along),
        )
        for measure in overlays.measures(runs)
        for along in (ALONG if measure == "loss" else ("step",))
    ]
    return (
        f'<style>{style()}{ONE_OF_BOTH}</style><div class="ps-snapshot ps-board">'
        f"{key(runs)}{pictures([*figures, *bars(runs)])}"
        f'<div class="ps-wide">{comparison._repr_html_()}</div></div>'
    )


def bars(runs: Sequence[Drawn]) -> list[tuple[str, str]]:
    """Return the bars, each as a picture and what it shows in words."""
    described = (overlays.time_bars, overlays.bytes_bars, overlays.phase_bars)
    found = [describe(runs) for describe in described]
    return [(charts.bars_chart(one), overlays.bars_words(one)) for one in found]


def pictures(drawn: Sequence[tuple[str, str]]) -> str:
    """Return pictures side by side, each with its words; those with data only."""
    figures = "".join(
        f"<figure>{picture}<figcaption>{escape(said)}</figcaption></figure>"
        for picture, said in drawn
        if picture
    )
    return f'<div class="ps-pictures">{figures}</div>'


def key(runs: Sequence[Drawn]) -> str:
    """Return the legend: a sample of each run's line beside its name."""
    samples = "".join(
        f"<span>{charts.sample(run.colour, run.dash)} {escape(run.name)}</span>"
        for run in runs
    )
    return f'<p class="ps-key">{samples}</p>'
