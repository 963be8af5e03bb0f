"""Names and texts of strangers on every page: shown letter for letter, never run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page

from tests.browser import hostile
from tests.browser.hostile import SEEN, TEXT
from tests.browser.lab import (
    ALL_HIGH,
    IN_A_BROWSER,
    Lab,
    complaints,
    open_notebook,
    page_of,
    resize,
    run_all,
)
from tests.browser.lesson import Lesson
from widgets import Prediction, TrafficBoard, write_report
from widgets.comparing import page as comparison_page

pytestmark = [*IN_A_BROWSER, pytest.mark.timeout(240)]
# What a page has of the images and formulas that the texts would become.
RAN = (
    "() => [window.ran, document.querySelectorAll('img[src=x], mjx-container').length]"
)
# Which parts of a page have a text as a text, or in a label.
SAYS = """([part, text]) => [...document.querySelectorAll(part)].filter(
    one => [one, ...one.querySelectorAll('*')].some(inner =>
        inner.textContent.includes(text)
        || [...inner.attributes].some(({value}) => value.includes(text)))
).map(one => one.title)"""


@contextmanager
def nothing_runs(page: Page) -> Iterator[None]:
    """Find at the end that no text has become a part of the page, and no error."""
    errors, dialogs = complaints(page), list[str]()

    def dismiss(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    try:
        yield
    finally:
        page.remove_listener("dialog", dismiss)
    assert page.evaluate(RAN) == [None, 0]
    assert dialogs == []
    assert errors == []


def says(page: Page, part: str = "body") -> list[str]:
    result: list[str] = page.evaluate(SAYS, [part, SEEN])
    return result


def test_a_text_that_becomes_a_part_of_a_page_is_noticed(
    page: Page, tmp_path: Path
) -> None:
    (tmp_path / "page.html").write_text(f"<p>{TEXT}</p>")
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_function("() => window.ran === 1")

    assert page.evaluate(RAN) == [1, 1]
    assert says(page) == []


def test_what_cells_show_has_the_names_as_text(page: Page, tmp_path: Path) -> None:
    shown = hostile.pieces()
    (tmp_path / "page.html").write_text(hostile.in_one_page(shown), "utf-8")
    with nothing_runs(page):
        page.goto((tmp_path / "page.html").as_uri())

        assert page.title() == TEXT
        assert says(page, "section") == list(shown)


def test_pages_that_are_saved_have_the_names_as_text(
    browser: Browser, tmp_path: Path
) -> None:
    trace = hostile.trace()
    comparison_page.write(hostile.runs(), tmp_path / "comparison.html")
    TrafficBoard(trace).save(tmp_path / "board.html")
    table = [{TEXT: TEXT, f"{TEXT} [{TEXT}]": 1.5}]
    about = [(TEXT, f"{TEXT}\n\n{TEXT}", trace)]
    write_report(tmp_path / "report.html", about, table, [TEXT], title=TEXT)
    for name in ("comparison", "board", "report"):
        with page_of(browser) as page, nothing_runs(page):
            page.goto((tmp_path / f"{name}.html").as_uri())
            drawn = ".ps-chart" if name == "board" else ".bk-Figure"
            page.locator(f"{drawn}:visible").first.wait_for()
            if name == "board":
                page.get_by_role("slider").first.press("Home")
            assert len(says(page)) == 1


def test_a_shared_board_has_the_question_and_the_answers_as_text(page: Page) -> None:
    board = TrafficBoard(hostile.trace())
    share = board.share()
    share.ask(Prediction(TEXT, choices=(TEXT, f"{TEXT}2")), TEXT)
    with nothing_runs(page):
        share.start()
        page.goto(share.url)
        page.locator("input[type=radio]").first.check()
        page.get_by_role("button", name="Lock in").click()
        page.get_by_text("Locked in:").wait_for()
        share.reveal()
        page.locator(".ps-answers svg").wait_for()

        for position in ("question", "status", "scene"):
            assert len(says(page, f"[data-place={position}]")) == 1, position
        board.close()
        page.get_by_text("Disconnected").wait_for()


LIVE = {
    "board": "from tests.browser import hostile\nfrom widgets import Prediction, "
    "TrafficBoard\nTrafficBoard(hostile.trace())",
    "comparison": "from widgets.comparing.cell import show\nshow(hostile.runs())",
    "question": "question = Prediction(hostile.TEXT, "
    "choices=(hostile.TEXT, hostile.TEXT + '2'))\nquestion",
    "answer": "question.lock(hostile.TEXT).reveal('yes')",
    "graph": "hostile.graph()",
    "table": "from kit.demo.verdict import AnswerVerdict\n"
    "AnswerVerdict(True, hostile.TEXT)",
    "error": "from kit.errors import KitError\nraise KitError(hostile.TEXT)",
}


def test_what_lives_in_jupyterlab_has_the_names_as_text(lab: Lab, desk: Page) -> None:
    lesson = Lesson.of(lab.folder, LIVE)
    parts = (
        ".ps-live",
        ".ps-prediction",
        ".kit-graph",
        ".jp-RenderedText",
        "[role=status]",
    )
    with nothing_runs(desk):
        resize(desk, 1024, ALL_HIGH)
        open_notebook(desk, lab, lesson.path.name)
        run_all(desk)
        desk.wait_for_selector(".jp-OutputArea-output:has-text('KitError')")
        desk.locator(".ps-live .bk-Figure:visible").first.wait_for()

        for part in parts:
            assert says(desk, part), part
