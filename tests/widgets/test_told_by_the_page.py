"""What a figure of the live board takes from its page, and what it does not."""

from __future__ import annotations

import time
from typing import Any

import pytest

from widgets.board.live_view import LiveView

TASKS = ("/job:ps/task:0", "/job:worker/task:0")


def live_view() -> LiveView:
    return LiveView(TASKS, None, shown=lambda is_shown: None, clock=time.monotonic)


def tell(widget: Any, model: Any, attr: str, new: object) -> None:
    """Hand a message to the widget as its page sends it."""
    change = {"kind": "ModelChanged", "model": {"id": model.id}, "attr": attr}
    widget._handle_custom_msg({"event": "jsevent", **change, "new": new}, [])


@pytest.mark.slow
def test_colour_that_the_page_tells_of_is_neither_taken_nor_an_error() -> None:
    view = live_view()
    line = view.loss._curves["mean"].glyph
    before = line.line_color

    tell(view._models[0], line, "line_color", {"type": "value", "value": "#ff0000"})

    assert line.line_color == before
    view.close()


@pytest.mark.slow
def test_theme_that_the_page_tells_of_is_taken() -> None:
    view = live_view()

    tell(view._models[0], view.loss.figure, "name", "dark 0.5")

    assert view._theme.name == "dark"
    view.close()
