"""A saved board in a real browser: it plays from a file, without kernel or network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.axe import serious
from tests.browser.lab import IN_A_BROWSER, opened, page_of, screenshot
from tests.widgets.traces import toggled
from widgets import TrafficBoard

pytestmark = IN_A_BROWSER
STEPS = 300  # of each topology


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "board.html"
    TrafficBoard(toggled(("ps", "ring"), steps=STEPS)).save(path)
    return path


@pytest.fixture
def board(saved: Path, page: Page) -> Iterator[Any]:  # playwright's Page
    with opened(page, saved) as board:
        board.locator(".ps-buttons:visible").wait_for()
        yield board


def line_at(page: Any) -> float:
    """Return where the line in the loss curve is, from 0 to 1 of the picture."""
    box = page.locator("path.ps-pointer").first.bounding_box()
    around = page.locator(".ps-chart").first.bounding_box()
    return float((box["x"] - around["x"]) / around["width"])


def test_the_slider_moves_traffic_numbers_and_the_line_in_the_loss(board: Any) -> None:
    slider = board.get_by_role("slider", name="Step")
    said = board.locator("[role=status]")
    servers = board.locator("[data-link='1-0'], [data-link='0-1']")
    ring = board.locator("[data-link='1-2']")
    assert said.inner_text() == f"Step {2 * STEPS} of {2 * STEPS}: ring."
    assert (servers.count(), ring.count()) == (0, 1)
    end = line_at(board)
    slider.focus()

    board.keyboard.press("Home")

    assert said.inner_text() == f"Step 3 of {2 * STEPS}: ps."
    assert slider.get_attribute("aria-valuetext") == f"step 3 of {2 * STEPS}"
    assert (servers.count(), ring.count()) == (2, 0)
    assert line_at(board) < end - 0.5
    assert board.locator(".ps-numbers b").first.inner_text() == "3"
    for _ in range(99):  # of 3 steps each: the last one with the server
        board.keyboard.press("ArrowRight")
    assert said.inner_text() == f"Step {STEPS} of {2 * STEPS}: ps."
    board.locator("summary").click()
    assert "worker:0 to ps:0" in board.locator("details table").inner_text()
    screenshot(board.locator("body"), "saved-board-light")
    board.keyboard.press("ArrowRight")  # wherever the focus is
    assert said.inner_text() == f"Step {STEPS + 3} of {2 * STEPS}: ring."
    assert "worker:0 to worker:1" in board.locator("details table").inner_text()
    board.locator("#theme").click()
    screenshot(board.locator("body"), "saved-board-dark")
    assert serious(board, "body") == []


def test_play_begins_again_and_can_be_stopped(board: Any) -> None:
    play = board.get_by_role("button", name="Play", exact=True)
    play.click()  # at the end: from the beginning
    said = ".ps-frame:not([aria-valuetext='step {} of 600'])"
    board.locator(said.format(600)).wait_for()
    board.locator(said.format(3)).wait_for()
    board.get_by_role("button", name="Pause", exact=True).click()

    assert board.get_by_role("button", name="Play", exact=True).is_visible()
    assert board.locator("[role=status]").get_attribute("aria-live") == "polite"


def test_without_scripts_the_page_shows_the_end(saved: Path, browser: Browser) -> None:
    with page_of(browser, java_script_enabled=False) as still:
        still.goto(f"file://{saved}")

        assert still.locator("[role=status]").inner_text() == "Step 600 of 600: ring."
        assert still.locator(".ps-scene").count() == 1
        assert still.get_by_role("slider").count() == 0
