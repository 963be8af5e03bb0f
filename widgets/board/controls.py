"""The board's controls: ipywidgets that send requests and show the present settings.

A handler only notes a request; the board's thread sends it, and the training acts on it
between two steps. Until then the control shows the request, and the status line says
"switching". A change made elsewhere, in a cell or on another board, moves the control,
and so does a refusal: the status line then says why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as ipw

from kit.markup import markup
from kit.training.client.run import Run
from kit.wire.shaping import LinkSettings
from widgets.board.choices import (
    LATENCIES,
    PACES,
    SPEEDS,
    formable,
    latency_name,
    speed_name,
    why_always_synchronous,
)
from widgets.board.run_state import Moment
from widgets.drawing.front_end import button
from widgets.drawing.html_view import HtmlView

Ask = Callable[[Callable[[Run], None]], None]


class Controls:
    """The controls of one training; `box` holds them."""

    def __init__(self, run: Run, ask: Ask) -> None:
        """Make them; `ask` takes a request and returns at once."""
        self._ask = ask
        # The thread that is moving controls: its changes are not requests of the user.
        self._follower = 0
        self._has_asked = False
        why = why_always_synchronous(run)
        self._can_choose_pace = not why
        self.topology = _radio(
            "Topology", formable(run), "How the gradients of the workers meet"
        )
        self.pace = _radio(
            "Steps", PACES, why or "Whether a step waits for all workers' gradients"
        )
        self.pace.disabled = bool(why)
        self.speed = _menu("Link speed", SPEEDS, speed_name, "", "Of every link")
        self.latency = _menu(
            "Latency", LATENCIES, latency_name, 0.0, "Added to each message"
        )
        self.pause = button("Pause", "pause", "Stop between two steps")
        self.advance = button("Step", "step-forward", "Do one step, then pause")
        self.resume = button("Resume", "play", "Go on after a pause")
        self.stop = button("Stop", "stop", "End the training; parameters stay")
        self.reason = HtmlView(markup("<small>{}</small>", why) if why else "")
        self.box = _rows(
            [self.topology, self.pace],
            [
                *(self.speed, self.latency),
                *(self.pause, self.advance, self.resume, self.stop),
            ],
            [self.reason][: bool(why)],
        )
        self.box.add_class("ps-controls")
        plain = run.topology.removesuffix("-async")
        self._seen = (plain, run.synchronous, run.link)
        self._show(*self._seen)
        self._connect()

    def all(self) -> list[Any]:
        """Return every control, in the order of the keyboard."""
        return [
            *(self.topology, self.pace, self.speed, self.latency),
            *(self.pause, self.advance, self.resume, self.stop),
        ]

    def _connect(self) -> None:
        self.topology.observe(self._on_topology, "value")
        self.pace.observe(self._on_pace, "value")
        self.speed.observe(self._on_link, "value")
        self.latency.observe(self._on_link, "value")
        self.pause.on_click(lambda _: self._request(lambda run: run.pause()))
        self.advance.on_click(lambda _: self._request(lambda run: run.advance(1)))
        self.resume.on_click(lambda _: self._request(lambda run: run.resume()))
        self.stop.on_click(lambda _: self._request(lambda run: run.stop()))

    def _request(self, request: Callable[[Run], None]) -> None:
        if self._follower != threading.get_ident():
            self._has_asked = True
            self._ask(request)

    def _on_topology(self, change: Any) -> None:
        name = change["new"]
        self._request(lambda run: setattr(run, "topology", name))

    def _on_pace(self, change: Any) -> None:
        synchronous = change["new"] == PACES[0]
        self._request(lambda run: setattr(run, "synchronous", synchronous))

    def _on_link(self, _: Any) -> None:
        bandwidth = LinkSettings.parse(self.speed.value).bandwidth
        text = str(LinkSettings(bandwidth, self.latency.value))
        self._request(lambda run: setattr(run, "link", text))

    def follow(self, moment: Moment) -> None:
        """Show the present settings, unless a request is on its way."""
        paused, over = moment.state == "paused", moment.is_over
        for control in (self.topology, self.speed, self.latency, self.stop):
            _set(control, "disabled", over)
        _set(self.pace, "disabled", over or not self._can_choose_pace)
        _set(self.pause, "disabled", over or paused)
        _set(self.advance, "disabled", over)
        _set(self.resume, "disabled", over or not paused)
        holds = (moment.plain_topology, moment.is_synchronous, moment.link)
        # Nothing has changed, so a control that differs shows a request. A refused one
        # will never come true: the control goes back.
        is_refused = self._has_asked and bool(moment.refused)
        if moment.switching or (holds == self._seen and not is_refused):
            return
        self._seen, self._has_asked = holds, False
        self._follower = threading.get_ident()
        try:
            self._show(*holds)
        finally:
            self._follower = 0

    def _show(self, topology: str, synchronous: bool, link: str) -> None:
        if topology in self.topology.options:
            _set(self.topology, "value", topology)
        _set(self.pace, "value", PACES[not synchronous])
        settings = LinkSettings.parse(link)
        plain = str(LinkSettings(settings.bandwidth))
        _choose(self.speed, plain, speed_name)
        _choose(self.latency, settings.latency, latency_name)


def _set(control: Any, name: str, value: Any) -> None:
    if getattr(control, name) != value:
        setattr(control, name, value)


def _choose(menu: Any, value: Any, name: Callable[[Any], str]) -> None:
    """Set a menu; the value is added to its options if it is not among them."""
    options = [option for _, option in menu.options]
    if value not in options:
        menu.options = [*menu.options, (name(value), value)]
    _set(menu, "value", value)


def _radio(label: str, options: Sequence[str], tooltip: str) -> Any:
    return ipw.RadioButtons(
        options=options,
        value=options[0],
        description=label,
        orientation="horizontal",
        layout=ipw.Layout(width="auto"),
        style={"description_width": "initial"},
        tooltip=tooltip,
    )


def _menu(
    label: str,
    values: Sequence[Any],
    name: Callable[[Any], str],
    start: Any,
    tooltip: str,
) -> Any:
    # Not a slider: it takes more room, and a screen reader would say only its position.
    return ipw.Dropdown(
        options=[(name(value), value) for value in values],
        value=start,
        description=label,
        layout=ipw.Layout(width="auto"),
        style={"description_width": "initial"},
        tooltip=tooltip,
    )


def _rows(*rows: Sequence[Any]) -> Any:
    layout = ipw.Layout(flex_flow="row wrap", grid_gap="0 14px", align_items="center")
    return ipw.VBox([ipw.HBox(list(row), layout=layout) for row in rows if row])
