"""The stepper in a real browser: as a page, and in JupyterLab."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.lab import (
    IN_A_BROWSER,
    Lab,
    open_notebook,
    opened,
    run_all,
    screenshot,
)
from tests.browser.lesson import Lesson
from widgets import RingStepper

pytestmark = [*IN_A_BROWSER, pytest.mark.timeout(240)]
SHOWN = ".ps-state"
# The smallest text that is seen, in pixels of the screen; SVG text is scaled.
SMALLEST = """() => Math.min(
    ...[...document.querySelectorAll('.ps-player *')]
        .filter((e) => e.getClientRects().length
            && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
        .map((e) => parseFloat(getComputedStyle(e).fontSize)
            * (e.ownerSVGElement ? e.getScreenCTM().a : 1)))"""
TOO_WIDE = """() =>
    [document.documentElement, ...document.querySelectorAll('.ps-both > div')]
        .filter((e) => e.scrollWidth > e.clientWidth).length"""
CELL = "from widgets import RingStepper\nstepper = RingStepper(n=4)\nstepper"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "ring.html"
    RingStepper(n=4, size=8).save(path)
    return path


@pytest.fixture
def ring(page: Page, saved: Path) -> Iterator[Any]:  # playwright's Page
    with opened(page, saved) as ring:
        yield ring


def test_buttons_and_keys_turn_the_states_of_a_saved_page(ring: Any) -> None:
    said = ring.locator("[role=status]")

    def number() -> str:
        assert ring.locator(SHOWN).count() == 1
        return str(said.inner_text()).split(",")[0].split(".")[0]

    assert number() == "Before the first message"
    ring.get_by_role("button", name="Next", exact=True).click()
    ring.get_by_role("button", name="Next", exact=True).click()
    ring.get_by_role("button", name="Back", exact=True).click()
    assert number() == "Message 1 of 24"
    ring.keyboard.press("ArrowRight")  # the focus is on a button
    assert number() == "Message 2 of 24"
    ring.get_by_role("slider", name="Messages").focus()
    ring.keyboard.press("ArrowRight")
    ring.keyboard.press("ArrowRight")
    assert number() == "Message 4 of 24"
    ring.keyboard.press("End")
    assert number() == "Message 24 of 24"
    assert ring.get_by_role("button", name="Next", exact=True).is_disabled()
    ring.get_by_role("button", name="Play", exact=True).click()  # from the beginning
    ring.get_by_text("Message 1 of 24").first.wait_for()
    ring.get_by_role("button", name="Pause", exact=True).click()
    assert ring.get_by_role("button", name="Play", exact=True).is_visible()


def test_nothing_is_small_or_cut_and_a_slider_chooses_the_number_of_workers(
    ring: Any,
) -> None:
    for _ in range(12):
        ring.keyboard.press("ArrowRight")
    assert ring.evaluate(SMALLEST) >= 12
    assert ring.evaluate(TOO_WIDE) == 0
    ground = "getComputedStyle(document.body).backgroundColor"
    light = ring.evaluate(ground)
    ring.locator("#theme").click()
    assert ring.evaluate(ground) != light

    workers = ring.get_by_role("slider", name="Number of workers")
    messages = ring.get_by_role("slider", name="Messages")
    messages.focus()
    ring.keyboard.press("End")
    workers.focus()

    ring.keyboard.press("End")

    assert workers.get_attribute("aria-valuetext") == "8 workers"
    assert "Message 112 of 112" in messages.get_attribute("aria-valuetext")
    assert ring.locator(".ps-matrix tbody tr").count() == 8
    screenshot(ring.locator("body"), "saved-stepper-eight")


def test_a_stepper_in_a_notebook_is_turned_by_mouse_and_keys(
    lab: Lab, desk: Page
) -> None:
    lesson = Lesson.of(lab.folder, {"ring": CELL})
    open_notebook(desk, lab, lesson.path.name)
    run_all(desk)
    live = desk.locator(".ps-live")
    live.get_by_text("Before the first message").wait_for()
    live.get_by_role("button", name="Next", exact=True).click()
    live.get_by_text("Message 1 of 24").wait_for()
    live.get_by_role("slider", name="messages arrived", exact=True).focus()
    desk.keyboard.press("ArrowRight")
    live.get_by_text("Message 2 of 24").wait_for()
    live.locator("[role=slider][aria-valuetext='2 of 24']").wait_for()

    live.get_by_role("button", name="Play or pause", exact=True).click()
    live.get_by_text("Message 4 of 24").wait_for()
    stop = "Stop, and go to the beginning"
    live.get_by_role("button", name=stop, exact=True).click()
    live.get_by_text("Before the first message").wait_for()
    said = re.findall(r'- button "(.*?)"', live.aria_snapshot())
    assert said == ["Back", "Next", "Play or pause", stop]

    # What the notebook keeps is hidden beside it; the sentence is read aloud.
    assert desk.locator(".ps-snapshot").count() == 1
    assert desk.locator(".ps-snapshot:visible").count() == 0
    desk.locator(".ps-saying [aria-live=polite]").wait_for()
