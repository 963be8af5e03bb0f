"""A reader switches a running training on the board, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page

from tests.browser import board as boards
from tests.browser.lab import (
    IN_A_BROWSER,
    Lab,
    change_theme,
    command,
    complaints,
    open_notebook,
    resize,
    save,
    screenshot,
)
from tests.browser.lesson import Lesson

pytestmark = [
    *IN_A_BROWSER,
    pytest.mark.engines,
    pytest.mark.timeout(600),
]


# As fast as they can, the tasks would leave the page half of the cores.
SLOWLY = """import time
as_it_is = model.step
def slowly(params, batch):
    time.sleep(0.02)
    return as_it_is(params, batch)
model.step = slowly"""
GUESSES = "server.lock('more'), pace.lock('more'), loss.lock('goes on')"


def test_reader_switches_steers_and_stops_a_training_and_finds_it_after_a_reload(
    lab: Lab, page: Page
) -> None:
    lesson = Lesson.copied(lab.folder)
    lesson.add("second", "run", after="train")
    lesson.add("slow", SLOWLY, after="start")
    lesson.add("locked", GUESSES, after="guess")
    errors = complaints(page)
    open_notebook(page, lab, lesson.path.name)
    lesson.run(page, "what", "train")
    page.wait_for_selector("caption:has-text('Cluster ready: ps=1 worker=3')")
    board = boards.live_board(page)
    boards.wait_for_bytes(board)

    look(page, board, "board-ps", "JupyterLab Dark")
    switch_to_the_ring(board)
    look(page, board, "board-ring", "JupyterLab Light")
    second = a_second_board_agrees_and_outlives_the_first(page, lesson)
    steer(second)
    end = stop(second)
    assert errors == []  # the first board took BokehJS with it when it was cleared
    the_picture_is_there_after_a_reload(page, lesson, end)
    lesson.run(page, "stop")
    page.wait_for_selector(".jp-OutputArea-output:has-text('Cluster stopped')")


PRINTED = """
from kit.progress import Line, output_for

output = output_for(None)
for n in range(300):
    output.add([Line(f"worker:0 │ {n}")])
"""
# Where the last line ends below the top of its output, and how high that output is.
LAST_LINE = """pre => {
    const lines = document.createRange();
    lines.selectNodeContents(pre);
    const output = pre.closest('.jp-OutputArea-output').getBoundingClientRect();
    const {bottom, height} = lines.getBoundingClientRect();
    return [bottom - output.top, output.height, height];
}"""


def test_lines_of_a_step_take_little_room_and_the_newest_is_in_sight(
    lab: Lab, desk: Page
) -> None:
    lesson = Lesson.of(lab.folder, {"printed": PRINTED})
    open_notebook(desk, lab, lesson.path.name)
    lesson.run(desk, "printed")
    lines = desk.locator(".jp-OutputArea-output pre:has-text('worker:0 │ 299')")

    end, room, height = lines.evaluate(LAST_LINE)

    assert height > 2000
    assert 0 < end <= room < 400


def look(page: Page, board: Locator, name: str, theme: str) -> None:
    """Take pictures at two widths; nothing is small or cut off."""
    change_theme(page, theme)
    for width in (1024, 1440):
        resize(page, width, 2400)
        page.wait_for_timeout(1000)  # figures are laid out anew, and drawn
        assert boards.cut_off(board) == []
        assert boards.small_texts(board) == []
        screenshot(board, f"{name}-{theme.split()[1].lower()}-{width}")
    resize(page, 1024)


def switch_to_the_ring(board: Locator) -> None:
    """Press the switch: the picture is another one, nothing jumps, the loss goes on."""
    before, places = boards.scene(board), boards.tops(board)
    step, loss = boards.number(board, "step"), boards.number(board, "loss")

    boards.press_topology(board, "ring")
    boards.wait_for_head(board, "ring at 100mbit")
    # The server's last bytes are on the picture for a second.
    board.locator(".ps-arrow[data-link='0-1']").wait_for(state="detached")

    after = boards.scene(board)
    assert after["places"] != before["places"]
    assert set(before["rates"]) >= {"0-1", "1-0"}  # to the server and back
    assert set(after["rates"]) == {"1-2", "2-3", "3-1"}
    assert boards.tops(board) == places
    assert boards.number(board, "step") > step
    assert 0 < boards.number(board, "loss") < max(2 * loss, 0.1)


def a_second_board_agrees_and_outlives_the_first(page: Page, lesson: Lesson) -> Locator:
    lesson.run(page, "second")
    second = boards.live_board(page, 1)
    boards.wait_for_head(second, "ring at 100mbit")
    boards.wait_for_bytes(second)

    lesson.select(page, "train")
    command(page, "notebook:clear-cell-output")

    page.wait_for_function("document.querySelectorAll('.ps-live').length === 1")
    remaining = boards.live_board(page)
    boards.wait_for_more_steps(remaining)
    return remaining


def steer(board: Locator) -> None:
    """Make the links fast, pause, do one step, go on."""
    boards.choose(board, "Link speed", "full speed")
    boards.wait_for_head(board, "steps: ring.")
    boards.press(board, "Pause")
    boards.wait_for_head(board, "Paused at step")
    paused = boards.settled_headline(board)
    boards.press(board, "Step")
    following = paused.replace(step_of(paused), f"{number_of(paused) + 1:,}")
    boards.wait_for_head(board, following)
    boards.press(board, "Resume")
    boards.wait_for_head(board, "Training")


def step_of(headline: str) -> str:
    return headline.split(" at step ")[1].split(" of ")[0]


def number_of(headline: str) -> int:
    return int(step_of(headline).replace(",", ""))


def stop(board: Locator) -> str:
    boards.press(board, "Stop")
    boards.wait_for_head(board, "Stopped after step")
    return boards.headline(board)


def the_picture_is_there_after_a_reload(page: Page, lesson: Lesson, end: str) -> None:
    save(page, lesson.path)
    page.reload()
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.wait_for_selector(f".ps-head:visible:has-text({end!r})")
    picture = page.locator(".ps-scene:visible").first
    picture.wait_for()
    screenshot(page.locator(".jp-NotebookPanel-notebook"), "board-reloaded")
    assert picture.locator(".ps-idle .ps-name").all_text_contents() == ["ps:0"]
