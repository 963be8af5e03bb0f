"""The newest calls of a group in a cell: one is chosen, and stepped through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets as ipw

from kit.groups.replay import ReplayedCall
from kit.markup import markup
from widgets.drawing.html_view import HtmlView
from widgets.stepping.live import LiveStepper
from widgets.stepping.participants import formula_of

_NONE = (
    "Nothing to step through yet. When the cell is over, its newest calls are here: "
    "those of at most 8 tasks that gave arrays of one dtype, at most 1 kB on each."
)


class LiveCalls:
    """The widgets; `root` is what is displayed."""

    def __init__(self) -> None:
        self._calls: Sequence[ReplayedCall] = ()
        self._stepper: LiveStepper | None = None
        self.choice = ipw.Dropdown(
            description="call", style={"description_width": "initial"},
            layout=ipw.Layout(width="auto", max_width="100%"),
        )  # fmt: skip
        self.none = HtmlView(markup('<div class="ps-board"><p>{}</p></div>', _NONE))
        self.root = ipw.VBox([self.none])
        self.choice.observe(self._on_chosen, "value")

    def show(self, calls: Sequence[ReplayedCall]) -> None:
        """Offer these calls, the newest first."""
        if [call.number for call in calls] == [call.number for call in self._calls]:
            return
        self._calls = calls
        newest = calls[::-1]
        self.choice.options = [(call.recording.title, call.number) for call in newest]
        self.choice.value = newest[0].number

    def _on_chosen(self, change: Any) -> None:
        chosen = [call for call in self._calls if call.number == change["new"]]
        if not chosen:
            return
        self._let_go()
        self._stepper = LiveStepper(
            *(chosen[0].recording, formula_of(chosen[0]), 0, lambda _: None)
        )
        # The board around it has that class: arrow keys would be taken twice.
        self._stepper.root.remove_class("ps-live")
        self.root.children = [self.choice, self._stepper.root]

    def _let_go(self) -> None:
        if self._stepper is not None:
            self._stepper.close()

    def close(self) -> None:
        """Take the widgets off the screen."""
        self.choice.unobserve_all()
        self._let_go()
        for widget in (self.choice, self.none, self.root):
            widget.close()
