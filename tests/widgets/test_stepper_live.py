"""The stepper in a cell: its widgets follow the reader and the reader's code."""

from __future__ import annotations

from typing import Any

import pytest

from tests.widgets.insides import view_of
from widgets import RingStepper
from widgets.drawing import front_end


@pytest.fixture
def stepper(monkeypatch: pytest.MonkeyPatch) -> RingStepper:
    """Give a stepper that was displayed in what it takes for a notebook."""
    made = RingStepper(n=3)
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr(front_end, "kernel", object)
    monkeypatch.setattr(front_end, "show_bundle", shown.append)
    made._ipython_display_()
    widget, script, kept = shown
    assert list(script) == ["application/javascript"]
    assert list(widget) == ["application/vnd.jupyter.widget-view+json"]
    assert sorted(kept) == ["text/html", "text/plain"]
    return made


def test_buttons_turn_the_pages_and_rest_at_the_ends(stepper: RingStepper) -> None:
    view = view_of(stepper)

    assert view.back.disabled
    view.next.click()
    view.next.click()
    view.back.click()

    assert stepper.position == view.slider.value == 1
    assert "Message 1 of 12" in view.said.value
    assert not view.back.disabled
    stepper.position = stepper.last
    assert view.next.disabled


def test_the_slider_moves_what_is_drawn(stepper: RingStepper) -> None:
    view = view_of(stepper)
    before = view.state.value

    view.slider.value = 7

    assert stepper.position == 7
    assert "Message 7 of 12" in view.said.value
    assert view.state.value != before
    assert view.slider.max == view.play.max == 12


def test_code_moves_the_slider_and_a_closed_stepper_too(stepper: RingStepper) -> None:
    stepper.position = 3
    stepper.next()
    assert view_of(stepper).slider.value == 4
    assert "Message 4 of 12" in view_of(stepper).said.value

    stepper.close()
    stepper.next()
    assert stepper.position == 5
    assert "Message 5 of 12" in repr(stepper)
