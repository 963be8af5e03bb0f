"""A recording in a cell: a slider, buttons, and the state that they choose.

The player moves the slider within the page; only what is drawn comes from the kernel. A
stepper that is moved by code moves in all its views.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as ipw

from kit.exchange.stepping.stepped_exchange import SteppedExchange
from kit.markup import markup
from widgets.drawing.front_end import button
from widgets.drawing.html_view import HtmlView
from widgets.stepping import drawing, words
from widgets.stepping.drawing import style
from widgets.stepping.participants import Formula

_INTERVAL_MS = 1500


class LiveStepper:
    """The widgets of one stepper; `root` is what is displayed."""

    def __init__(
        self,
        recording: SteppedExchange,
        formula: Formula,
        position: int,
        moved: Callable[[int], None],
    ) -> None:
        """Make them; `moved` is called with every position that the reader chooses."""
        self._recording, self._formula, self._moved = recording, formula, moved
        last = len(recording.states) - 1
        self.slider = ipw.IntSlider(
            value=position, min=0, max=last, description="messages arrived",
            style={"description_width": "initial"},
            layout=ipw.Layout(flex="1 1 260px", max_width="460px"),
        )  # fmt: skip
        self.back = button("Back", "step-backward", "Take the last message back")
        self.next = button("Next", "step-forward", "Let one more message arrive")
        self.back.add_class("ps-back")
        self.next.add_class("ps-next")
        self.play = ipw.Play(
            value=position, min=0, max=last, interval=_INTERVAL_MS, show_repeat=False
        )
        self._link = ipw.jslink((self.play, "value"), (self.slider, "value"))
        self.said, self.state = HtmlView(), HtmlView()
        self.said.add_class("ps-saying")
        head = markup(
            '<style>{}</style><div class="ps-board ps-stepper">'
            '<p class="ps-head">{}</p></div>',
            style(),
            words.title(recording),
        )
        # Shown only at the end: it gives the answer that the reader is looking for.
        self.foot = HtmlView(
            markup('<div class="ps-board ps-stepper">{}</div>', drawing.foot(formula))
        )
        buttons = ipw.HBox(
            [self.back, self.next, self.play, self.slider],
            layout=ipw.Layout(flex_flow="row wrap", align_items="center"),
        )
        texts = [HtmlView(head), buttons, self.said, self.state, self.foot]
        self.root = ipw.VBox(texts)
        self.root.add_class("ps-live")
        self.back.on_click(lambda _: self._turn(-1))
        self.next.on_click(lambda _: self._turn(1))
        self.slider.observe(self._on_slider, "value")
        self._draw(position)

    def show(self, position: int) -> None:
        """Show a position."""
        self.slider.value = position

    def _turn(self, by: int) -> None:
        self.slider.value = max(0, min(self.slider.max, self.slider.value + by))

    def _on_slider(self, change: Any) -> None:
        self._draw(change["new"])
        self._moved(change["new"])

    def _draw(self, position: int) -> None:
        recording = self._recording
        said = drawing.sentence(recording, position)
        drawn = drawing.state(recording, self._formula, position)
        self.said.value = markup('<div class="ps-board ps-stepper">{}</div>', said)
        self.state.value = markup('<div class="ps-board ps-stepper">{}</div>', drawn)
        self.back.disabled = position == 0
        self.next.disabled = position == self.slider.max
        self.foot.layout.display = "" if position == self.slider.max else "none"

    def close(self) -> None:
        """Take the widgets off the screen."""
        self.slider.unobserve_all()
        self._link.unlink()
        for widget in (self.slider, self.said, self.state, self.root):
            widget.close()
