"""The board on the screen: widgets that draw each beat, and the figures among them.

It lives while somebody looks: the count of its views comes from the page. A view that
begins later (a reload, a second one) gets everything again.
"""

from __future__ import annotations

import gzip
import threading
from base64 import b64encode
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import ipywidgets as ipw
from bokeh.core.serialization import BytesRep, Serializer
from bokeh.document import Document
from bokeh.document.events import ModelChangedEvent
from bokeh.document.json import PatchJson
from bokeh.models import CustomJS
from bokeh.protocol.messages.patch_doc import patch_doc
from jupyter_bokeh import BokehModel

from kit.trace.trace import Trace
from widgets.board import sentences
from widgets.board.scene import scene
from widgets.board.snapshot import rates_table
from widgets.board.watcher import Beat
from widgets.drawing import curves, feed, strips
from widgets.drawing.front_end import TELL
from widgets.drawing.looks import style
from widgets.drawing.plots import LinksPlot, LossPlot, TimelinePlot
from widgets.drawing.theme import DARK, LIGHT, Theme

CURVES_S, TIMELINE_S = 1.0, 2.0  # sending a figure costs as much as all else
_TWIN = "Rates of the links, as a table"


class _Told(BokehModel):  # type: ignore[misc]  # it has no types
    """A figure that takes nothing from the page but its own new name.

    The page tells of every colour that it has set, in a form that bokeh then refuses;
    and an error in such a message makes the cell that runs meanwhile a failed one.

    What changes goes to the page when `tell` is called, all together: a change alone
    takes three messages, and each wakes threads here and in the page's server.
    """

    def __init__(self, model: Any) -> None:
        self._events: list[Any] = []
        super().__init__(model)

    def _document_patched(self, event: Any) -> None:
        if event.setter is not self:
            self._events.append(event)

    def tell(self) -> None:
        """Send what has changed."""
        events, self._events = self._events, []
        if not events:
            return
        # As Protocol.create does, but with the numbers in the text: each buffer would
        # be two more messages.
        models = events[0].document.models
        writer = _Writer(references=models.synced_references)
        content = PatchJson(events=writer.encode(events))
        models.flush_synced(lambda model: not writer.has_ref(model))
        patch = patch_doc(patch_doc.create_header(), {}, content)
        for part in (patch.header_json, patch.metadata_json, patch.content_json):
            self.send({"msg": "patch", "payload": part})

    def _sync_model(self, model: Any, content: dict[str, Any], buffers: Any) -> None:
        if content.get("attr") == "name":
            super()._sync_model(model, content, buffers)


class _Writer(Serializer):
    """Writes arrays into the text of a patch; one that was just written costs little.

    All links of a figure have the same times, and bokeh's own way asks for two settings
    and a number for each array.
    """

    def _encode_bytes(self, obj: bytes | memoryview) -> BytesRep:
        return BytesRep(type="bytes", data=_text(bytes(obj)))


@lru_cache(64)
def _text(raw: bytes) -> str:
    """Return bytes as bokeh's page reads them, with the least of compression."""
    return b64encode(gzip.compress(raw, compresslevel=1, mtime=1)).decode()


class LiveView:
    """The widgets of one board; `root` is what is displayed."""

    def __init__(
        self,
        tasks: tuple[str, ...],
        controls: Any | None,
        *,
        shown: Callable[[bool], None],
        clock: Callable[[], float],
    ) -> None:
        """Make them; `shown` is called when the first view appears or the last goes."""
        self._clock, self._shown = clock, shown
        self._theme: Theme = LIGHT
        self._due = {"curves": 0.0, "timeline": 0.0}
        self._drawn: dict[str, tuple[int, int]] = {}  # what was known then
        self._beat: Beat | None = None
        self._changed: dict[tuple[Any, str], None] = {}
        self.status = ipw.HTML()
        self.status.add_class("ps-status")
        self.status.layout.min_height = "56px"  # for a request, so that nothing jumps
        self.picture, self.numbers = ipw.HTML(), ipw.HTML()
        self.twin, self.tables = ipw.HTML(), ipw.HTML()
        self._texts = [self.status, self.picture, self.numbers, self.twin, self.tables]
        self._drawing = threading.RLock()  # the page's word comes on another thread
        self.loss, self.links = LossPlot(), LinksPlot()
        self._tasks = Trace(tasks).names
        self.timeline = TimelinePlot(self._tasks)
        self._figures: list[Any] = [self.loss, self.links, self.timeline]
        self._models = [self._wrap(plot.figure) for plot in self._figures]
        for model, plot in zip(self._models, self._figures, strict=True):
            model.layout.min_height = f"{plot.figure.height}px"
        self.picture.layout.min_height = "340px"
        head = [ipw.HTML(f"<style>{style()}</style>"), self.status]
        top = _side_by_side(self.picture, self._models[0])
        rest = _side_by_side(*self._models[1:])
        middle = [controls] if controls is not None else []
        self._words = ipw.Accordion([self.twin], titles=[_TWIN])
        self._words.observe(self._on_opened, "selected_index")
        self.root = ipw.VBox(
            [*head, *middle, self.numbers, top, rest, self._words, self.tables]
        )
        self.root.add_class("ps-live")
        self.root._view_count = 0  # from now on the page counts
        self.root.observe(self._on_views, "_view_count")

    def _wrap(self, figure: Any) -> Any:
        figure.on_change("name", self._on_told)
        document = Document()
        document.add_root(figure)
        told = CustomJS(args={"figure": figure}, code=TELL)
        document.js_on_event("document_ready", told)
        document.on_change(self._on_change)
        return _Told(figure)

    def _on_views(self, change: Any) -> None:
        if bool(change["new"]) != bool(change["old"]):
            self._shown(bool(change["new"]))

    def _on_told(self, _: str, __: Any, new: str) -> None:
        """Take the page's word on its theme, and draw everything for the new view."""
        with self._drawing:
            self._theme = DARK if str(new).startswith("dark") else LIGHT
            for model, attr in list(self._changed):
                value = getattr(model, attr)
                model.trigger(attr, value, value)
            if self._beat is not None:
                self._curves(self._beat)
                self._spans(self._beat)
            self._tell()

    def _on_opened(self, _: Any) -> None:
        """Fill the table: nothing is sent for it while it is closed."""
        with self._drawing:
            if self._beat is not None:
                self._rates(self._beat)

    def _on_change(self, event: Any) -> None:
        """Remember what is not as a new view has it: all but the data of figures."""
        if isinstance(event, ModelChangedEvent) and event.attr not in ("name", "data"):
            self._changed[event.model, event.attr] = None

    def draw(self, beat: Beat, tables: str = "") -> None:
        """Show a beat: the picture at once, the figures when they are due.

        `tables` is HTML that is shown below them.
        """
        with self._drawing:
            self._beat = beat
            _put(self.status, sentences.status(beat.moment))
            _put(self.picture, f'<div class="ps-board">{scene(beat.moment)}</div>')
            _put(self.numbers, sentences.numbers(beat.moment))
            if beat.is_last or self._words.selected_index is not None:
                self._rates(beat)
            _put(self.tables, f'<div class="ps-board">{tables}</div>')
            if self._is_due("curves", CURVES_S, beat):
                self._curves(beat)
            if self._is_due("timeline", TIMELINE_S, beat):
                self._spans(beat)
            self._tell()
            if beat.is_last:
                self._rest()

    def _is_due(self, what: str, every_s: float, beat: Beat) -> bool:
        """Whether it is time to draw something again, and there is anything new."""
        now, known = self._clock(), (beat.n_rows, len(beat.history.epochs))
        is_early = now < self._due[what] or known == self._drawn.get(what)
        if is_early and not beat.is_last:
            return False
        self._due[what], self._drawn[what] = now + every_s, known
        return True

    def _tell(self) -> None:
        for model in self._models:
            model.tell()

    def _rates(self, beat: Beat) -> None:
        _put(self.twin, f'<div class="ps-board">{rates_table(beat)}</div>')

    def _curves(self, beat: Beat) -> None:
        history = beat.history
        changes, shares = beat.moment.changes, history.measure("accuracy")
        again, switches = history.changes(changes), history.switches(changes)
        loss = curves.loss(history.loss(), history.regions(), shares, again)
        links = curves.links(strips.thinned(history.links()), switches)
        self.loss.show(loss, self._theme)
        self.links.show(links, self._theme)

    def _spans(self, beat: Beat) -> None:
        window = sentences.newest_steps(beat.recent)
        spans = feed.timeline(beat.recent, window)
        starts = feed.step_starts(beat.recent, window)
        chart = curves.timeline(spans, starts, self._tasks, window.label)
        self.timeline.show(chart, self._theme)

    def _rest(self) -> None:
        """Let a view that begins later start from what is drawn now."""
        for plot, model in zip(self._figures, self._models, strict=True):
            model.update_from_model(plot.figure)

    def close(self) -> None:
        """Take the board off the screen."""
        self.root.unobserve_all()
        for widget in (*self._models, *self._texts, self.root):
            widget.close()
        for plot in self._figures:  # they are closed again when they are collected
            plot.figure.document.remove_root(plot.figure)


def _put(place: Any, text: str) -> None:
    if place.value != text:
        place.value = text


def _side_by_side(*widgets: Any) -> Any:
    """Return widgets in one row where there is room, else below each other."""
    for widget in widgets:
        widget.layout.flex, widget.layout.min_width = "1 1 600px", "0"
    return ipw.HBox(
        list(widgets), layout=ipw.Layout(flex_flow="row wrap", grid_gap="8px")
    )
