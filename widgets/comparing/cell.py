"""A comparison in a cell: with controls if ipywidgets is there, else a still picture.

The controls choose what is drawn, along which axis, and how smooth. The kernel draws a
change as one picture, from the runs as they are then.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kit.experiments.comparison import Comparison
from kit.markup import Html, in_cell, joined, markup
from widgets.board.snapshot import ONE_OF_BOTH
from widgets.comparing import overlays
from widgets.comparing.overlays import ALONG, Drawn
from widgets.drawing import front_end, svg_charts
from widgets.drawing.looks import style

_AXES = {"step": "step", "time": "seconds", "bytes": "bytes"}
_SCALES = {"linear": False, "log": True}
_WIDE = {"description_width": "initial"}


def show(comparison: Comparison) -> None:
    """Display a comparison in a notebook; this is the view called `comparison`.

    Raises `NotImplementedError` elsewhere: the caller has another way to show it.
    """
    if front_end.kernel() is None:
        raise NotImplementedError
    with suppress(ImportError):  # without ipywidgets: the still picture alone
        front_end.display_widget(LiveComparison(comparison).root)
    front_end.show_bundle(
        {"text/plain": repr(comparison), "text/html": in_cell(still(comparison))}
    )


class LiveComparison:
    """The widgets of one comparison; `root` is what is displayed."""

    def __init__(self, comparison: Comparison) -> None:
        """Make them; raises `ImportError` without ipywidgets."""
        import ipywidgets as ipw

        from widgets.drawing.html_view import HtmlView

        self._comparison = comparison
        self._runs = overlays.drawn(comparison.outcomes())
        names = overlays.measures(self._runs)
        self.measure = ipw.Dropdown(
            options=[(name.replace("_", " "), name) for name in names],
            description="curve", style=_WIDE, layout=ipw.Layout(width="220px"),
        )  # fmt: skip
        self.along = _choice("by", _AXES)
        self.scale = _choice("scale", _SCALES)
        self.smoothing = ipw.FloatSlider(
            value=2.5, min=0.0, max=20.0, step=0.5,
            description="smoothing (% of steps)", readout_format=".1f",
            style=_WIDE, continuous_update=False,
            layout=ipw.Layout(flex="1 1 300px", max_width="420px"),
        )  # fmt: skip
        self.again = front_end.button(
            "Look again", "refresh", "Draw the runs as they are now"
        )
        self.again.layout.width = "120px"
        self.curve, self.rest = HtmlView(), HtmlView()
        for control in (self.measure, self.along, self.scale, self.smoothing):
            control.observe(lambda _: self._draw(), "value")
        self.again.on_click(lambda _: self.look())
        controls = ipw.HBox(
            [self.measure, self.along, self.scale, self.smoothing, self.again],
            layout=ipw.Layout(flex_flow="row wrap", align_items="center"),
        )
        head = HtmlView(markup("<style>{}</style>", style()))
        self.root = ipw.VBox([head, controls, self.curve, self.rest])
        self.root.add_class("ps-live")
        self._draw()
        self._draw_rest()

    def look(self) -> None:
        """Draw all runs as they are now."""
        self._runs = overlays.drawn(self._comparison.outcomes())
        self._draw()
        self._draw_rest()

    def _draw(self) -> None:
        measure, along = self.measure.value, self.along.value
        chart = overlays.overlay(
            self._runs,
            measure,
            along,
            is_log=self.scale.value,
            smoothing=self.smoothing.value / 100,
        )
        said = overlays.overlay_words(self._runs, measure, along)
        drawn = pictures([(svg_charts.curves_chart(chart), said)])
        self.curve.value = markup(
            '<div class="ps-board ps-alone">{}{}</div>', key(self._runs), drawn
        )

    def _draw_rest(self) -> None:
        table = self._comparison._repr_html_()
        self.rest.value = markup(
            '<div class="ps-board">{}<div class="ps-wide">{}</div></div>',
            pictures(bars(self._runs)),
            table,
        )
        is_over = all(run.outcome.state in ("done", "failed") for run in self._runs)
        self.again.layout.display = "none" if is_over else None


def _choice(label: str, options: dict[str, Any]) -> Any:
    import ipywidgets as ipw

    return ipw.ToggleButtons(
        options=list(options.items()),
        description=label,
        style=_WIDE | {"button_width": "70px"},
        layout=ipw.Layout(width=f"{60 + 78 * len(options)}px"),
    )


# --------------------------------------------------------------------------------------
# The still picture, and its parts, which are in the live one too.


def still(comparison: Comparison) -> Html:
    """Return the comparison as a notebook keeps it: all curves and bars, no script."""
    runs = overlays.drawn(comparison.outcomes())
    figures = [
        (
            svg_charts.curves_chart(overlays.overlay(runs, measure, along)),
            overlays.overlay_words(runs, measure, along),
        )
        for measure in overlays.measures(runs)
        for along in (ALONG if measure == "loss" else ("step",))
    ]
    return markup(
        '<style>{}{}</style><div class="ps-snapshot ps-board">'
        "{}{}"
        '<div class="ps-wide">{}</div></div>',
        style(),
        ONE_OF_BOTH,
        key(runs),
        pictures([*figures, *bars(runs)]),
        comparison._repr_html_(),
    )


def bars(runs: Sequence[Drawn]) -> list[tuple[Html, str]]:
    """Return the bars, each as a picture and what it shows in words."""
    described = (overlays.time_bars, overlays.bytes_bars, overlays.phase_bars)
    charts = [describe(runs) for describe in described]
    return [
        (svg_charts.bars_chart(chart), overlays.bars_words(chart)) for chart in charts
    ]


def pictures(drawn: Sequence[tuple[Html, str]]) -> Html:
    """Return pictures side by side, each with its words; those that have data."""
    figures = joined(
        markup("<figure>{}<figcaption>{}</figcaption></figure>", picture, said)
        for picture, said in drawn
        if picture
    )
    return markup('<div class="ps-pictures">{}</div>', figures)


def key(runs: Sequence[Drawn]) -> Html:
    """Return the legend: a sample of each run's line beside its name."""
    samples = joined(
        markup("<span>{} {}</span>", svg_charts.sample(run.colour, run.dash), run.name)
        for run in runs
    )
    return markup('<p class="ps-key">{}</p>', samples)
