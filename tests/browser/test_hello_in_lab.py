"""The first notebook in JupyterLab, run whole, and what of it can be kept."""

from __future__ import annotations

from operator import eq
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser import board as boards
from tests.browser.lab import (
    ALL_HIGH,
    IN_A_BROWSER,
    Lab,
    change_theme,
    complaints,
    open_notebook,
    opened,
    resize,
    run_all,
    save,
    screenshot,
)
from tests.browser.lesson import Lesson

pytestmark = [
    *IN_A_BROWSER,
    pytest.mark.engines,
    pytest.mark.timeout(600),
    # nbconvert of live outputs; what it shows in their place is what is tested
    pytest.mark.filterwarnings("ignore:Your element with mimetype:UserWarning"),
]
RUN_MS = 300_000
SAVE = "from widgets import TrafficBoard\nTrafficBoard(run).save('board.html')"


def test_hello_notebook_runs_whole_and_its_pictures_outlive_kernel_and_network(
    lab: Lab, page: Page
) -> None:
    lesson = Lesson.copied(lab.folder)
    lesson.add("keep", SAVE, after="finish")
    errors = complaints(page)
    open_notebook(page, lab, lesson.path.name)
    run_all(page)
    it_waits_for_predictions(page)
    lesson.run(page, "train", "stop")
    ended = ".jp-OutputArea-output:has-text('Cluster stopped')"
    page.wait_for_selector(ended, timeout=RUN_MS)
    the_boards_tell_how_it_ended(page)
    it_is_readable_in_both_themes(page)
    save(page, lesson.path)
    a_page_that_is_loaded_again_draws_the_end(page)
    page.goto("about:blank")
    assert errors == []

    page.context.set_offline(True)
    what_nbconvert_makes_is_complete(page, lesson.path)
    a_saved_board_asks_for_nothing_else(page, lab.folder / "board.html")


def it_waits_for_predictions(page: Page) -> None:
    """Lock the answers in, which the cell that would give them away has asked for."""
    asked = "FailedPreconditionError: predict first: What will ps:0 do?"
    page.wait_for_selector(f".jp-OutputArea-output:has-text('{asked}')")
    forms = page.locator(".ps-prediction:visible")
    assert forms.count() == 3
    for number, choice in enumerate(("the same", "more", "goes on")):
        form = forms.nth(number)
        form.locator(f"label:has-text('{choice}')").last.click()
        form.get_by_role("button", name="Lock in", exact=True).click()
        form.locator("text=Locked in:").wait_for()
        assert form.locator("input").first.is_disabled()
    screenshot(forms.first.locator("xpath=ancestor::*[@class][5]"), "predictions")


def the_boards_tell_how_it_ended(page: Page) -> None:
    first, second = boards.live_board(page, 0), boards.live_board(page, 1)
    boards.wait_for_head(first, "Stopped after step")
    boards.wait_for_head(second, "Failed at step")

    said = boards.headline(first)
    assert "ring at 100mbit" in said, said
    assert first.locator("caption:has-text('Gradient traffic in bytes')").count() == 1
    assert "worker:2 is gone" in boards.scene(second)["places"]
    assert "/job:worker/task:2 is gone" in boards.text_of(
        second.locator(".ps-alarm").first
    )
    assert page.locator(".jp-OutputArea-output:has-text('Traceback')").count() == 0
    assert page.locator("text=It is: nothing. You guessed: the same.").count() == 1


def it_is_readable_in_both_themes(page: Page) -> None:
    seen = []
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        change_theme(page, theme)
        page.wait_for_timeout(1000)  # figures get other colours
        for text in ("caption", ".ps-head", ".ps-live .ps-name", ".ps-alarm"):
            seen.append(page.locator(text).first.evaluate(COLOURS))
            assert readable(seen[-1]), (text, theme)
        resize(page, 1024, ALL_HIGH)
        notebook = page.locator(".jp-NotebookPanel-notebook")
        screenshot(notebook, f"hello-{theme.split()[1].lower()}")
        lost = boards.live_board(page, 1)
        screenshot(lost, f"board-lost-{theme.split()[1].lower()}")
    assert not any(map(eq, seen[:4], seen[4:]))


def a_page_that_is_loaded_again_draws_the_end(page: Page) -> None:
    page.reload()
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    first = boards.live_board(page)
    boards.wait_for_head(first, "Stopped after step")
    assert first.locator(".ps-scene:visible").count() == 1
    for name in ("Timeline", "Links", "Loss"):
        boards.open_tab(first, name)
        first.locator(".bk-Figure:visible").first.wait_for()


def what_nbconvert_makes_is_complete(page: Page, notebook: Path) -> None:
    """Open the page without kernel and network: the last pictures are there."""
    import nbformat  # these load for seconds, and whoever collects the tests loads us
    from nbconvert import HTMLExporter

    stored = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    exporter = HTMLExporter()  # type: ignore[no-untyped-call]
    html, _ = exporter.from_notebook_node(stored)
    path = notebook.with_suffix(".html")
    path.write_text(html, "utf-8")
    resize(page, 1024, 1600)
    page.goto(path.as_uri(), wait_until="domcontentloaded")

    assert page.locator(".ps-scene:visible").count() == 2
    heads = page.locator(".ps-head:visible").all_inner_texts()
    assert [head.split(" at step")[0].split(" after")[0] for head in heads] == [
        "Stopped",
        "Failed",
    ]
    complaint = "text=/model not found|error displaying/i >> visible=true"
    assert page.locator(complaint).count() == 0
    screenshot(page.locator(".ps-snapshot").first, "board-nbconvert")


def a_saved_board_asks_for_nothing_else(page: Page, path: Path) -> None:
    with opened(page, path):
        idle = page.locator(".ps-scene:visible .ps-idle .ps-name")
        assert idle.text_content() == "ps:0"
        assert page.locator(".ps-chart:visible").count() == 3
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert readable(page.locator(".ps-head").first.evaluate(COLOURS))
        screenshot(page.locator("body"), f"board-saved-{scheme}")


# The colour of an element's text, and of the first ground behind it that has one.
COLOURS = """element => {
    const style = getComputedStyle(element);
    const colour = element.closest('svg') ? style.fill : style.color;
    while (element.parentElement
           && getComputedStyle(element).backgroundColor === 'rgba(0, 0, 0, 0)')
        element = element.parentElement;
    return [colour, getComputedStyle(element).backgroundColor];
}"""


def readable(colours: list[str]) -> bool:
    """Whether text and ground are far apart in brightness, of 255."""
    text, ground = (
        sum(float(part.strip()) for part in colour.strip("rgba()").split(",")[:3]) / 3
        for colour in colours
    )
    return abs(text - ground) > 100
