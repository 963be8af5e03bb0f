"""The board below a cell that used a group, as a reader of JupyterLab sees it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.board import LIVE, cut_off, live_board, small_texts, text_of
from tests.browser.lab import (
    IN_A_BROWSER,
    Lab,
    complaints,
    open_notebook,
    page_of,
    resize,
    run_all,
)
from tests.browser.lesson import Lesson

pytestmark = [*IN_A_BROWSER, pytest.mark.engines]

CELLS = [
    "%load_ext kit",
    "%%cluster --ps 1 --worker 3",
    "%%on worker\nimport kit, numpy as np\ngroup = kit.group()\n"
    "group.all_reduce(np.arange(6.0) + group.rank)",
    "%%on worker --trace\ngroup.send(1.0, to=(group.rank + 1) % 3)\ngroup.receive()",
    "from widgets import TrafficBoard, write_report\nboard = TrafficBoard()\n"
    "write_report('mine.html', [('Mine', 'As sent.', board.trace)])\n"
    "print('at', board.share().url)",
    "%cluster stop",
]
RING = 2 * (3 - 1) * 6 * 8


@pytest.mark.timeout(200)
def test_cell_with_a_group_has_its_board_with_messages_and_a_stepper(
    lab: Lab, desk: Page, browser: Browser
) -> None:
    cells = {f"cell-{number}": code for number, code in enumerate(CELLS)}
    lesson = Lesson.of(lab.folder, cells)
    wrong = complaints(desk)
    resize(desk, 1024, 3600)
    open_notebook(desk, lab, lesson.path.name)
    run_all(desk)
    desk.wait_for_selector(".jp-OutputArea-output:has-text('Cluster stopped')")
    first, second = live_board(desk), live_board(desk, 1)
    second.locator(".ps-head").first.wait_for()

    assert desk.locator(LIVE).count() == 2
    assert "1 call; the newest is all_reduce(float64[6])" in text_of(first)
    row = text_of(first.locator(".ps-calls tbody tr"))
    assert row.count(str(RING)) == 2, row
    assert small_texts(first) == []
    assert cut_off(first) == []

    first.locator(".jupyter-widget-Collapse-header").click()
    first.locator(".ps-next").click()
    first.locator("text=Message 1 of 12").wait_for()
    assert "0  1" in text_of(first.locator(".ps-matrix tbody tr").first)

    assert "1 call and 3 messages" in text_of(second.locator(".ps-head").first)
    assert "Who waited for whom" in text_of(second)
    assert "all_reduce(float64[6])" in (lab.folder / "mine.html").read_text()
    assert wrong == []

    address = desk.locator("text=at http").inner_text().split()[1]
    with page_of(browser) as page:
        page.goto(address)
        page.locator(".ps-calls tbody tr:has-text('all_reduce')").wait_for()
