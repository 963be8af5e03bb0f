"""A comparison with controls: what is drawn, along which axis, and how smooth.

A change is drawn by the kernel as one picture, from the runs as they are then.
"""

from __future__ import annotations

from typing import Any

import ipywidgets as ipw

from kit.experiments.comparison import Comparison
from widgets.comparing import overlays
from widgets.comparing.still import bars, key, pictures
from widgets.drawing import charts
from widgets.drawing.front_end import button
from widgets.drawing.looks import style

_ALONG = {"step": "step", "time": "seconds", "bytes": "bytes"}
_SCALES = {"linear": False, "log": True}
_WIDE = {"description_width": "initial"}


class LiveComparison:
    """The widgets of one comparison; `root` is what is displayed."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison
        self._runs = overlays.drawn(comparison.outcomes())
        names = overlays.measures(self._runs)
        self.measure = ipw.Dropdown(
            options=[(name.replace("_", " "), name) for name in names],
            description="curve", style=_WIDE, layout=ipw.Layout(width="220px"),
        )  # fmt: skip
        self.along = _choice("by", _ALONG)
        self.scale = _choice("scale", _SCALES)
        self.smoothing = ipw.FloatSlider(
            value=2.5, min=0.0, max=20.0, step=0.5,
            description="smoothing (% of steps)", readout_format=".1f",
            style=_WIDE, continuous_update=False,
            layout=ipw.Layout(flex="1 1 300px", max_width="420px"),
        )  # fmt: skip
        self.again = button("Look again", "refresh", "Draw the runs as they are now")
        self.again.layout.width = "120px"
        self.curve, self.rest = ipw.HTML(), ipw.HTML()
        for control in (self.measure, self.along, self.scale, self.smoothing):
            control.observe(lambda _: self._draw(), "value")
        self.again.on_click(lambda _: self.look())
        controls = ipw.HBox(
            [self.measure, self.along, self.scale, self.smoothing, self.again],
            layout=ipw.Layout(flex_flow="row wrap", align_items="center"),
        )
        head = ipw.HTML(f"<style>{style()}</style>")
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
        drawn = pictures([(charts.curves_chart(chart), said)])
        self.curve.value = (
            f'<div class="ps-board ps-alone">{key(self._runs)}{drawn}</div>'
        )

    def _draw_rest(self) -> None:
        table = self._comparison._repr_html_()
        self.rest.value = (
            f'<div class="ps-board">{pictures(bars(self._runs))}'
            f'<div class="ps-wide">{table}</div></div>'
        )
        is_over = all(run.outcome.state in ("done", "failed") for run in self._runs)
        self.again.layout.display = "none" if is_over else None


def _choice(label: str, options: dict[str, Any]) -> Any:
    return ipw.ToggleButtons(
        options=list(options.items()),
        description=label,
        style=_WIDE | {"button_width": "70px"},
        layout=ipw.Layout(width=f"{60 + 78 * len(options)}px"),
    )
