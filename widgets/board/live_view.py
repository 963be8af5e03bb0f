"""The board on the screen: widgets that draw each beat, and figures among them.

It fits one screen: the picture of the traffic is beside tabs of one height, the first
of which has the loss. It is drawn while somebody looks: the page counts its views, and
reports when it is hidden or closed. A view that begins later (after a reload, or a
second one) gets everything again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import ipywidgets as ipw

from kit.markup import NO_HTML, Html, markup
from kit.trace.trace import Trace
from widgets.board import snapshot
from widgets.board.follower import Beat
from widgets.board.live_figure import LiveFigure
from widgets.board.scene import scene
from widgets.board.sentences import numbers, status
from widgets.board.snapshot import commands, kept, rates_table, window_of
from widgets.drawing import curves, front_end, strips, words
from widgets.drawing.html_view import HtmlView
from widgets.drawing.live_plots import PANE_PX, LinksPlot, LossPlot, TimelinePlot
from widgets.drawing.looks import style
from widgets.drawing.theme import DARK, LIGHT, PROJECTED, Theme
from widgets.stepping.calls import LiveCalls

CURVES_S, TIMELINE_S = 1.0, 2.0  # sending a figure costs as much as all else
BEAT_S = 1.0  # between two heartbeats for the page
_TABS = ("Loss", "Timeline", "Links", "Table", "Commands")
_GROUP_TABS = ("Calls", *_TABS[1:])  # a group has no loss
_STEP = "Step through the messages of a call"
_MEANS = (("off", 0.0), ("2 %", 0.02), ("10 %", 0.1))  # of the steps so far


class LiveView:
    """The widgets of one board; `root` is what is displayed.

    Each widget is an attribute: they share one screen and one theme, and are drawn in
    one beat, so parts with widgets of their own would need each other's.
    """

    def __init__(
        self,
        tasks: tuple[str, ...],
        controls: Any | None,
        *,
        shown: Callable[[bool], None],
        clock: Callable[[], float],
        is_of_group: bool = False,
        first: str = "",
    ) -> None:
        """Make them; `shown` is called when the first view appears or the last goes.

        `first` is the name of the tab that is open in the beginning.
        """
        self._is_of_group = is_of_group
        self._clock, self._shown = clock, shown
        self._is_shown = False
        self._seen_on: set[str] = set()  # pages that report that they are visible
        self._theme: Theme = LIGHT
        self._due = {"curves": 0.0, "timeline": 0.0, "beat": 0.0}
        self._n_beats = 0
        # For each figure what was known when it was drawn: rows and epochs.
        self._drawn: dict[str, tuple[int, int]] = {}
        self._beat: Beat | None = None
        # What the page reports comes on the kernel's thread, beats on the follower's. A
        # report may come while a beat is drawn that it would change, so it waits.
        self._drawing = threading.RLock()
        self.loss, self.links = LossPlot(), LinksPlot()
        self._tasks = Trace(tasks).names
        self.timeline = TimelinePlot(self._tasks, has_arrows=is_of_group)
        self._figures: list[Any] = [self.loss, self.links, self.timeline]
        self._models = [
            LiveFigure(plot.figure, self._drawing, self._on_told)
            for plot in self._figures
        ]
        for model, name in zip(
            self._models, ("loss", "links", "timeline"), strict=True
        ):
            model.layout.min_height = f"{model._model.height}px"
            model.add_class(f"ps-figure-{name}")
        self._make_texts()
        self._make_options()
        self.stepping = LiveCalls()
        self.root = self._arranged(controls)
        if first:
            self.tabs.selected_index = _TABS.index(first)
        self.root.add_class("ps-live")
        self.root._view_count = 0  # from now on the page counts
        self.root.observe(self._on_views, "_view_count")

    def _make_texts(self) -> None:
        self.sign = HtmlView()  # the heartbeat, and what the page says if it stops
        self.status, self.picture, self.numbers = HtmlView(), HtmlView(), HtmlView()
        self.twin, self.tables, self.commands = HtmlView(), HtmlView(), HtmlView()
        self.said, self.mean, self.calls = HtmlView(), HtmlView(), HtmlView()
        self._texts = [self.status, self.picture, self.numbers, self.twin]
        self._texts += [self.tables, self.commands, self.said, self.mean, self.calls]
        self.status.add_class("ps-status")
        self.mean.add_class("ps-mean")
        self.status.layout = ipw.Layout(flex="1 1 0", min_height="46px")
        self.picture.layout = ipw.Layout(
            flex="1 1 0",
            min_width="min(416px, 100% - 4px)",
            height=f"{PANE_PX + 36}px",
            overflow="auto",
        )

    def _make_options(self) -> None:
        """Make the controls of how the board looks; they do not change the training."""
        plain, wide = {"description_width": "initial"}, ipw.Layout(width="auto")
        self.log = ipw.Checkbox(description="log scale", indent=False, layout=wide)
        self.smooth = ipw.Dropdown(
            options=_MEANS, description="smooth over", style=plain, layout=wide
        )
        self.large = ipw.Checkbox(description="large type", indent=False, layout=wide)
        self.own_scales = ipw.Checkbox(
            description="a scale for each link", indent=False, layout=wide
        )
        self._has_fallen = False
        self.log.observe(self._on_scale, "value")
        self.smooth.observe(self._on_looks, "value")
        self.own_scales.observe(self._on_looks, "value")
        self.large.observe(self._on_size, "value")

    def _arranged(self, controls: Any | None) -> Any:
        row = ipw.Layout(align_items="center", grid_gap="16px", overflow="hidden")
        options = ipw.HBox([self.log, self.smooth, self.mean], layout=row)
        head = ipw.HBox([self.status, self.large], layout=row)
        scales = ipw.HBox([self.own_scales], layout=row)
        for box in (options, head, scales):
            box.add_class("ps-controls")
        loss, links, timeline = self._models
        first = [self.calls] if self._is_of_group else [options, loss]
        panes = [first, [timeline, self.said], [scales, links]]
        panes += [[self.twin, self.tables], [self.commands]]
        pane = ipw.Layout(
            height=f"{PANE_PX}px", overflow="hidden auto", display="block"
        )
        self.tabs = ipw.Tab(
            [ipw.VBox(parts, layout=pane) for parts in panes],
            titles=_GROUP_TABS if self._is_of_group else _TABS,
            selected_index=0,
            layout=ipw.Layout(flex="1.15 1 0", min_width="min(400px, 100% - 4px)"),
        )
        self.tabs.observe(self._on_opened, "selected_index")
        both = ipw.HBox(
            [self.picture, self.tabs],
            layout=ipw.Layout(flex_flow="row wrap", grid_gap="8px"),
        )
        middle = [controls] if controls is not None else []
        below = []
        if self._is_of_group:
            below = [ipw.Accordion([self.stepping.root], titles=[_STEP])]
        looks = HtmlView(markup("<style>{}</style>", style()))
        return ipw.VBox([looks, self.sign, head, *middle, self.numbers, both, *below])

    def _on_views(self, change: Any) -> None:
        if change["new"] > change["old"]:
            self._show(True)
        elif not change["new"]:
            self._show(False)

    def _show(self, is_shown: bool) -> None:
        with self._drawing:
            if is_shown != self._is_shown:
                self._is_shown = is_shown
                self._shown(is_shown)

    def _on_told(self, model: LiveFigure, said: str) -> None:
        """Note what a page reports: whether it is visible, or a new view's theme."""
        word, _, rest = said.partition(" ")
        page = rest.partition(" ")[0]
        with self._drawing:
            if word == "hidden":
                self._on_hidden(page)
                return
            self._seen_on.add(page)
            self._show(True)
            if word in ("dark", "light"):
                self._on_theme(model, word)

    def _on_hidden(self, page: str) -> None:
        self._seen_on.discard(page)
        if self._seen_on or not self._is_shown:
            return
        self._show(False)
        if threading.current_thread() is threading.main_thread():
            # Reports come on the main thread here, so none comes while a cell computes,
            # also none that the page is visible again. So when a cell begins, any board
            # with a view counts as visible.
            front_end.at_next_cell(lambda: self._show(bool(self.root._view_count)))

    def _on_theme(self, model: LiveFigure, name: str) -> None:
        """Draw everything for the new view, in its theme."""
        # All views of a board share its figures, so all get the newest view's theme.
        theme = self._named(name)
        if theme is not self._theme:
            self._theme = theme
            self._draw_anew()
        model.repeat()
        self._tell()

    def _named(self, name: str) -> Theme:
        if self.large.value:
            return PROJECTED[name]
        return DARK if name == "dark" else LIGHT

    def _on_size(self, _: Any) -> None:
        """Make everything larger, or normal again."""
        with self._drawing:
            self._theme = self._named(self._theme.name)
            if self.large.value:
                self.root.add_class("ps-large")
            else:
                self.root.remove_class("ps-large")
            self._draw_anew()
            self._tell()

    def _on_scale(self, change: Any) -> None:
        with self._drawing:
            self.loss.scale(is_log=change["new"])
            self._tell()

    def _on_looks(self, _: Any) -> None:
        with self._drawing:
            self._draw_anew()
            self._tell()

    def _draw_anew(self) -> None:
        if self._beat is not None:
            self._curves(self._beat)
            self._spans(self._beat)

    def _on_opened(self, _: Any) -> None:
        """Fill the tables: while they are hidden, nothing is sent for them."""
        with self._drawing:
            if self._beat is not None:
                self._tell_tables(self._beat)

    def draw(self, beat: Beat, tables: Html = NO_HTML) -> None:
        """Show a beat: the picture at once, the figures when they are due.

        `tables` is HTML to show below the table of the links.
        """
        with self._drawing:
            self._beat = beat
            self._sign(beat)
            _put(self.status, status(beat.moment))
            _put(
                self.picture,
                markup('<div class="ps-board">{}</div>', scene(beat.moment)),
            )
            _put(self.numbers, numbers(beat.moment))
            self._tell_tables(beat)
            _put(self.tables, markup('<div class="ps-board">{}</div>', tables))
            if self._is_due("curves", CURVES_S, beat):
                self._curves(beat)
            if self._is_due("timeline", TIMELINE_S, beat):
                self._spans(beat)
            self._tell()

    def _sign(self, beat: Beat) -> None:
        """Send the page a heartbeat, also if nothing has changed."""
        now = self._clock()
        if now >= self._due["beat"] or beat.is_last:
            self._due["beat"], self._n_beats = now + BEAT_S, self._n_beats + 1
            count = "over" if beat.is_last else str(self._n_beats)
            self.sign.value = markup(
                '<div class="ps-board ps-beat" data-beat="{}">'
                '<p class="ps-silence" role="alert"></p></div>',
                count,
            )

    def _is_due(self, what: str, every_s: float, beat: Beat) -> bool:
        """Whether it is time to draw something again, and there is anything new."""
        now, state = self._clock(), (beat.n_rows, len(beat.history.epochs))
        is_early = now < self._due[what] or state == self._drawn.get(what)
        if is_early and not beat.is_last:
            return False
        self._due[what], self._drawn[what] = now + every_s, state
        return True

    def _tell(self) -> None:
        for model in self._models:
            model.tell()

    def _tell_tables(self, beat: Beat) -> None:
        names = _TABS
        if self._is_of_group:
            names, tables = _GROUP_TABS, snapshot.calls(beat)
            _put(self.calls, markup('<div class="ps-board">{}</div>', tables))
            if beat.calls:
                self.stepping.show(beat.calls)
        shown = names[self.tabs.selected_index or 0]
        if shown == "Table" or beat.is_last:
            tables = rates_table(beat) + kept(beat)
            _put(self.twin, markup('<div class="ps-board">{}</div>', tables))
        if shown == "Commands":
            _put(
                self.commands, markup('<div class="ps-board">{}</div>', commands(beat))
            )

    def _curves(self, beat: Beat) -> None:
        history = beat.history
        changes, measures = beat.moment.changes, history.measures()
        again, switches = history.changes(changes), history.switches(changes)
        drawn, width = strips.smoothed(history.loss(), self.smooth.value)
        loss = curves.loss(drawn, history.regions(), measures, again)
        links = curves.links(strips.thinned(history.links()), switches)
        if not self._is_of_group:
            self.loss.show(loss, self._theme)
            if loss.is_log and not self._has_fallen:
                self._has_fallen = self.log.value = True  # once: a reader may uncheck
        has_own_scales = self.own_scales.value
        self.links.show(links, self._theme, has_own_scales=has_own_scales)
        width *= history.width
        caption = "each step" if width == 1 else f"mean of {width:,} steps"
        _put(self.mean, markup('<div class="ps-board ps-line">{}</div>', caption))

    def _spans(self, beat: Beat) -> None:
        window, unit = window_of(beat), beat.moment.unit
        chart = curves.timeline_of(beat.recent, window, unit, self._tasks)
        self.timeline.show(chart, self._theme)
        caption = words.timeline(beat.recent, window, unit)
        waits = snapshot.waits(beat)
        _put(
            self.said, markup('<div class="ps-board"><p>{}</p>{}</div>', caption, waits)
        )

    def close(self) -> None:
        """Take the board off the screen."""
        self.root.unobserve_all()
        self.stepping.close()
        for widget in (*self._models, *self._texts, self.root):
            widget.close()
        for plot in self._figures:  # they are closed again when they are collected
            plot.figure.document.remove_root(plot.figure)


def _put(widget: Any, text: Html) -> None:
    if widget.value != text:
        widget.value = text
