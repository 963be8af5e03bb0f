"""What a figure of the live board takes from its page, and what it does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.events import EventManager, available_events

from tests.widgets.live import figures, tell
from tests.widgets.traces import toggled
from widgets.board.live_view import LiveView
from widgets.board.watcher import beat_of
from widgets.drawing import front_end
from widgets.drawing.theme import DARK

TASKS = ("/job:ps/task:0", "/job:worker/task:0")


def live_view() -> LiveView:
    return LiveView(TASKS, None, shown=lambda is_shown: None, clock=time.monotonic)


class Pages:
    """A view, what its pages say of themselves, and whether it was shown each time."""

    def __init__(self) -> None:
        self.shown: list[bool] = []
        self.view = LiveView(TASKS, None, shown=self.shown.append, clock=time.monotonic)
        self.views(1)
        self._n = 0

    def views(self, n: int) -> None:
        """Let the page have so many views of the board."""
        self.view.root.set_state({"_view_count": n})

    def say(self, word: str, page: str = "0.1") -> None:
        """Say a word as a page does, on the thread that also hears during a cell."""
        thread = threading.Thread(target=self.say_here, args=(word, page))
        thread.start()
        thread.join()

    def say_here(self, word: str, page: str = "0.1") -> None:
        self._n += 1
        name = f"{word} {page} 0.{self._n}"
        tell(figures(self.view.root)[0], self.view.loss.figure, "name", name)


@pytest.fixture(scope="module")
def _pages() -> Iterator[Pages]:
    result = Pages()
    yield result
    result.view.close()


@pytest.fixture
def pages(_pages: Pages) -> Pages:
    """A board that one page shows and sees."""
    _pages.say("light")
    _pages.say("hidden", "0.2")
    _pages.shown.clear()
    return _pages


@pytest.mark.slow
def test_nothing_is_drawn_for_a_page_that_is_hidden(pages: Pages) -> None:
    pages.say("hidden")
    pages.say("seen")

    assert pages.shown == [False, True]


@pytest.mark.slow
def test_a_page_that_is_hidden_hides_nothing_from_another_one(pages: Pages) -> None:
    pages.say("light", "0.2")
    pages.say("hidden")
    assert pages.shown == []

    pages.say("hidden", "0.2")

    assert pages.shown == [False]


def test_a_page_that_is_loaded_again_is_drawn_for(pages: Pages) -> None:
    pages.say("hidden")  # as it goes
    pages.views(2)

    assert pages.shown == [False, True]


def test_a_page_that_is_not_heard_during_cells_is_drawn_for_when_one_begins(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody: Any = None
    events = EventManager(nobody, available_events)
    shell = SimpleNamespace(events=events)
    kernel = SimpleNamespace(shell=shell, get_parent=lambda: {})
    monkeypatch.setattr(front_end, "kernel", lambda: kernel)

    pages.say_here("hidden")
    assert pages.shown == [False]
    for _ in range(2):
        events.trigger("pre_run_cell", None)

    assert pages.shown == [False, True]


@pytest.mark.slow
def test_colour_that_the_page_tells_of_is_neither_taken_nor_an_error() -> None:
    view = live_view()
    glyphs = [part.glyph for part in view.loss.figure.renderers]
    line = next(glyph for glyph in glyphs if getattr(glyph, "y", "") == "loss")
    before = line.line_color

    tell(
        figures(view.root)[0], line, "line_color", {"type": "value", "value": "#ff0000"}
    )

    assert line.line_color == before
    view.close()


@pytest.mark.slow
def test_theme_that_the_page_tells_of_is_taken() -> None:
    view = live_view()

    tell(figures(view.root)[0], view.loss.figure, "name", "dark 0.5")
    view.draw(beat_of(toggled(("ps",), steps=3)))

    assert view.loss.figure.background_fill_color == DARK.background
    view.close()
