"""A shared board in real browsers: a class is asked, and its teacher."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import Any

from playwright.sync_api import Browser

from tests.browser.axe import serious
from tests.browser.lab import IN_A_BROWSER, page_of, screenshot
from tests.widgets.traces import toggled
from widgets import Prediction, TrafficBoard

pytestmark = IN_A_BROWSER
LEFTMOST = """one => Math.min(...[...one.querySelectorAll('text')]
    .map(text => text.getBBox().x))"""


def opened(page: Any, url: str) -> Any:
    """Show an address on a page that shares nothing, as another person would."""
    page.set_viewport_size({"width": 1280, "height": 1000})
    page.goto(url)
    page.locator("[data-place=status] .ps-head").wait_for()
    return page


def test_a_class_is_asked_and_sees_its_answers_at_the_reveal(browser: Browser) -> None:
    board = TrafficBoard(toggled(("ps", "ring"), steps=20))
    share = board.share()
    asked = Prediction("How many bytes does a worker send in a step?", "bytes", low=0)
    share.ask(asked, 800_000)
    with closing(board), ExitStack() as pages:
        errors: list[str] = []
        teacher, anna, ben = (
            opened(pages.enter_context(page_of(browser)), url)
            for url in (share.teacher_url, share.url, share.url)
        )
        for item in (teacher, anna, ben):
            item.on("pageerror", lambda error: errors.append(str(error)))
        assert anna.locator(".ps-scene").is_visible()
        ben.set_viewport_size({"width": 390, "height": 844})

        teacher.get_by_role("button", name="Start").click()

        for item, answer in ((anna, "790 kB"), (ben, "1.2 MB")):
            field = item.get_by_role("textbox", name="How many bytes")
            field.fill(answer)
            assert not item.locator(".ps-scene").is_visible()  # it would tell
            item.get_by_role("button", name="Lock in").click()
            item.get_by_text("Locked in:").wait_for()
            assert field.is_disabled()
        ben.reload()
        ben.get_by_text("Locked in: 1,200,000").wait_for()
        ben.locator("[data-place=form] input:disabled").wait_for()
        teacher.get_by_text("2 answered.").wait_for()
        assert teacher.locator(".ps-answers svg").count() == 1
        assert anna.locator(".ps-answers").count() == 0
        screenshot(teacher.locator("body"), "shared-teacher")
        assert serious(anna, "body") == []
        teacher.get_by_role("button", name="Reveal").click()
        said = "Measured: 800,000 bytes. 1 of 2 guesses are within a fifth of it."
        anna.locator(".ps-answers svg").wait_for()
        anna.get_by_text(said).wait_for()
        anna.get_by_text("you guessed 790,000").wait_for()
        assert ben.evaluate("document.documentElement.scrollWidth") <= 390
        assert ben.locator(".ps-answers").evaluate(LEFTMOST) >= 0
        assert anna.locator(".ps-scene").is_visible()
        assert anna.get_by_role("button", name="Lock in").count() == 0
        screenshot(anna.locator("body"), "shared-revealed")
        board.close()
        anna.get_by_text("Disconnected").wait_for()
        assert errors == []
