"""A board after a reload, with a kernel that is busy or gone; its size and keys.

All of one training on one page, as it costs seconds to begin it.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Locator, Page

from tests.browser import axe
from tests.browser import board as boards
from tests.browser.lab import (
    IN_A_BROWSER,
    Lab,
    change_theme,
    command,
    frozen,
    heard_by_kernel,
    hidden,
    load_again,
    open_notebook,
    page_of,
    printed_by_kernel,
    resize,
    screenshot,
)
from tests.browser.lesson import Lesson

pytestmark = [
    *IN_A_BROWSER,
    pytest.mark.engines,
    pytest.mark.timeout(600),
    pytest.mark.lasting("thread", "descriptor", "process"),  # of browser and server
]
MOST_PX = 650
IS_GIVEN_UP = "document.body.textContent.includes('model not found')"
IS_THERE = f"""document.querySelectorAll('.ps-live .bk-Figure').length >= 3
    || {IS_GIVEN_UP}"""
IS_SAVED = "() => !jupyterapp.shell.currentWidget.context.model.dirty"
SCREENS = (
    (1920, 1080, "JupyterLab Light", ["Loss"]),
    (1280, 720, "JupyterLab Light", ["Loss"]),
    (1024, 768, "JupyterLab Dark", ["Timeline", "Links", "Table", "Commands", "Loss"]),
)
CELLS = {
    "load": "%load_ext kit\nimport os\nopen('pid', 'w').write(str(os.getpid()))",
    "start": "%%cluster --ps 1 --worker 2\nimport kit, time\n"
    "from kit.demo.digits import digits_mlp\nmodel = digits_mlp(seed=0)\n"
    # As fast as they can, the tasks would leave the page half of the cores.
    "def step(params, batch):\n    time.sleep(0.02)\n"
    "    return model.step(params, batch)",
    "train": "run = kit.train(step, model.params, model.train, steps=100_000,\n"
    "    batch=64, optimizer=kit.Adam(0.003), link='100mbit')\nrun",
    "again": "run",
    "busy": "time.sleep(3)",
}


class Room(NamedTuple):
    """A page with a training on a board."""

    page: Page
    lesson: Lesson

    @property
    def board(self) -> Locator:
        return boards.live_board(self.page)

    def load_again(self) -> None:
        """Press F5, and return when the board is there.

        Lab's manager of widgets waits two seconds for a model. If all of them come in
        the last tenth of that, it says "model not found" for good, and the reader sees
        a still picture that tells to load the page again. So that is done here.
        """
        command(self.page, "docmanager:save")
        self.page.wait_for_function(IS_SAVED)
        for _ in range(3):
            load_again(self.page)
            self.page.wait_for_function(IS_THERE)
            if self.page.get_by_text("model not found").count() == 0:
                break
            assert "load the page again" in boards.still_picture(self.page)
        self.board.locator("[role=radiogroup]").first.wait_for()


@pytest.fixture(scope="module")
def room(server: Lab, browser: Browser) -> Iterator[Room]:
    with server.below("room") as lab, page_of(browser) as page:
        lesson = Lesson.of(lab.folder, CELLS)
        resize(page, 1280, 720)
        open_notebook(page, lab, lesson.path.name)
        page.evaluate("jupyterapp.shell.collapseLeft()")
        lesson.run(page, "load", "train")
        boards.wait_for_bytes(boards.live_board(page))
        yield Room(page, lesson)


def test_switch_traffic_and_loss_stand_on_one_screen(room: Room) -> None:
    for width, height, theme, tabs in SCREENS:
        resize(room.page, width, height)
        change_theme(room.page, theme)
        for name in tabs:
            boards.open_tab(room.board, name)
            room.page.wait_for_timeout(300)  # it is laid out, and drawn
            assert boards.cut_off(room.board) == [], (name, width)
            assert boards.small_texts(room.board) == [], (name, width)
            screenshot(room.board, f"board-{name.lower()}-{width}")
        for part in ("[role=radiogroup]", ".ps-scene", ".ps-figure-loss"):
            bottom = room.board.evaluate(boards.BOTTOM, part)
            assert bottom <= MOST_PX, (part, width)
        assert room.board.evaluate("live => live.offsetHeight") <= MOST_PX


def test_large_type_fits_a_projector(room: Room) -> None:
    large = room.board.get_by_label("large type")
    large.check()
    wait_for_type(room, "size >= 20")

    cut_off = boards.cut_off(room.board)
    screenshot(room.board, "board-large-1024")
    large.uncheck()
    wait_for_type(room, "size < 20")
    assert cut_off == []


def wait_for_type(room: Room, is_so: str) -> None:
    """Wait until the size of the headline's type is so, in pixels, and all is laid out.

    Each beat replaces the headline, so that it is looked up each time.
    """
    look = "const size = parseFloat(getComputedStyle(board.querySelector('.ps-head'))"
    room.page.wait_for_function(
        f"board => {{ {look}.fontSize); return {is_so}; }}",
        arg=room.board.element_handle(),
    )
    room.page.wait_for_timeout(1000)


def test_the_board_does_not_move_while_it_is_drawn(room: Room) -> None:
    places = boards.tops(room.board)

    boards.press_topology(room.board, "ring")
    boards.wait_for_head(room.board, "ring at 100mbit")
    boards.wait_for_more_steps(room.board)

    assert boards.tops(room.board) == places


def test_a_group_is_one_stop_of_the_tab_key_and_all_have_names(room: Room) -> None:
    room.board.locator("[role=radiogroup] input:checked").first.focus()
    stops = []
    for _ in range(12):
        stops.append(room.page.evaluate(boards.STOP))
        room.page.keyboard.press("Tab")

    names = [stop.replace("\N{NO-BREAK SPACE}", " ") for stop in stops if stop]
    assert names[:8] == [
        *("Topology: ring", "Steps: synchronous"),
        *("Link speed: 100 Mbit/s", "Latency: none"),
        *("Pause", "Step", "Stop"),  # one cannot resume what is not paused
        "Loss",
    ]
    assert len(set(names)) == len(names)
    room.board.locator("[role=radiogroup] input:checked").first.focus()
    room.page.keyboard.press("ArrowRight")
    boards.wait_for_head(room.board, "mesh at 100mbit")
    room.page.keyboard.press("ArrowLeft")
    boards.wait_for_head(room.board, "ring at 100mbit")


def test_axe_finds_nothing_serious_on_any_tab(room: Room) -> None:
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        change_theme(room.page, theme)
        for name in ("Table", "Timeline", "Loss"):
            boards.open_tab(room.board, name)
            room.page.wait_for_timeout(300)  # it is laid out, and drawn
            assert axe.serious(room.page, ".ps-live") == [], (theme, name)


def test_a_single_step_is_seen_and_told(room: Room) -> None:
    boards.press_topology(room.board, "ring")
    boards.wait_for_head(room.board, "ring at 100mbit")
    boards.press(room.board, "Pause")
    boards.wait_for_head(room.board, "Paused at step")
    boards.settled_headline(room.board)
    boards.press(room.board, "Step")
    room.board.locator("text=the last step took").wait_for()
    boards.settled_headline(room.board)

    assert "MB/s" not in boards.text_of(room.board.locator(".ps-scene").first)
    rates = room.board.locator(".ps-rate").all_text_contents()
    assert len(rates) == 1  # of both ways of two: bytes of the step, and no rate
    assert all(text.endswith(" kB") for text in rates)
    boards.open_tab(room.board, "Timeline")
    room.board.locator("p:has-text('Of the time recorded')").wait_for()
    screenshot(room.board, "board-single-step")


@pytest.mark.parametrize("tab", ["Loss", "Links"])
def test_a_paused_board_is_the_same_after_a_reload(room: Room, tab: str) -> None:
    boards.open_tab(room.board, tab)
    heard_by_kernel(room.page)
    drawn, controls = boards.figures(room.board), boards.controls(room.board)
    assert "Paused" in boards.headline(room.board)

    room.load_again()

    assert boards.same_figures(room.board, drawn)
    assert boards.controls(room.board) == controls
    room.board.get_by_role("tab", name=tab, selected=True).wait_for()
    screenshot(room.board, f"board-reloaded-{tab.lower()}")


def test_a_second_board_draws_the_same(room: Room) -> None:
    room.lesson.run(room.page, "again")
    second = boards.live_board(room.page, 1)
    second.locator("[role=radiogroup]").first.wait_for()

    assert boards.same_figures(second, boards.figures(room.board))
    assert boards.scene(second) == boards.scene(room.board)


def test_after_reloads_and_a_second_board_the_notebook_holds_bokeh_once(
    room: Room,
) -> None:
    command(room.page, "docmanager:save")
    room.page.wait_for_function(IS_SAVED)

    saved = json.loads(room.lesson.path.read_text("utf-8"))
    outputs = [item for cell in saved["cells"] for item in cell["outputs"]]
    sizes = [len(str(output.get("data", ""))) for output in outputs]
    assert [size > 500_000 for size in sizes].count(True) == 1
    assert sum(sizes) < 2_000_000


def test_a_live_board_goes_on_whole_after_reloads_also_with_a_busy_kernel(
    room: Room,
) -> None:
    boards.press(room.board, "Resume")
    boards.wait_for_head(room.board, "Training")
    boards.press_topology(room.board, "ps")
    boards.wait_for_head(room.board, "ps at 100mbit")
    before = boards.links_and_looks(room.board)

    for _ in range(2):
        room.lesson.run(room.page, "busy")
        room.load_again()

        boards.wait_for_more_steps(room.board)
        assert boards.links_and_looks(room.board) == before


def test_a_page_that_is_hidden_is_sent_nothing_and_then_shows_the_present(
    room: Room,
) -> None:
    sign = room.board.locator(".ps-beat")
    with hidden(room.page):  # and no cell is run, with which boards count as seen
        before = int(sign.get_attribute("data-beat") or 0)
        room.page.wait_for_timeout(5000)
        beats = int(sign.get_attribute("data-beat") or 0) - before
    assert beats <= 3  # those on their way, and not one a second
    step = int(printed_by_kernel(room.page, "print(run.step)"))

    boards.wait_for_step(room.board, step)

    assert boards.text_of(room.board.locator(".ps-silence")) == ""


def test_a_laptop_that_was_asleep_has_not_missed_its_kernel(room: Room) -> None:
    with frozen(room.page), stopped(room):
        room.page.wait_for_timeout(5000)

    boards.wait_for_more_steps(room.board)
    assert boards.text_of(room.board.locator(".ps-silence")) == ""


def test_a_kernel_that_stood_still_is_connected_again(room: Room) -> None:
    gone = room.board.locator(".ps-silence:has-text('Disconnected')")
    with stopped(room):
        gone.wait_for()

    gone.wait_for(state="detached")
    boards.wait_for_more_steps(room.board)
    # All four, at once: on a busy machine the kernel may be silent once more.
    usable = room.board.locator(".ps-controls:not([inert])")
    usable.nth(3).wait_for(state="attached")


@contextmanager
def stopped(room: Room) -> Iterator[None]:
    """Stop the kernel's process for a while."""
    pid = int((room.lesson.path.parent / "pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_the_board_is_whole_on_a_phone(room: Room) -> None:
    resize(room.page, 390, 844)
    room.page.wait_for_timeout(1000)  # it is laid out, and drawn
    cut_off = {}
    for name in ("Commands", "Timeline", "Links", "Table", "Loss"):
        boards.open_tab(room.board, name)
        room.page.wait_for_timeout(300)
        cut_off[name] = boards.cut_off(room.board) + boards.squeezed(room.board)
        screenshot(room.board, f"board-{name.lower()}-390")
    resize(room.page, 1280, 720)
    room.page.wait_for_timeout(1000)

    assert [*cut_off.values()] == 5 * [[]], cut_off


def test_a_board_whose_kernel_is_gone_says_so_and_is_a_still_picture_when_loaded_again(
    room: Room,
) -> None:
    silence = room.board.locator(".ps-silence")
    assert boards.text_of(silence) == ""
    step = boards.number(room.board, "step")

    os.kill(int((room.lesson.path.parent / "pid").read_text()), signal.SIGKILL)

    gone = "text=Disconnected: no news from the kernel since"
    room.board.locator(gone).wait_for()
    missed = room.board.evaluate("live => live.psMissed")
    assert missed < 10  # seconds of the page, of which four are enough
    screenshot(room.board, "board-disconnected")
    assert boards.number(room.board, "step") >= step  # the last state is kept
    assert room.board.locator(".ps-controls[inert]").count() == 4

    command(room.page, "docmanager:save")
    room.page.wait_for_function(IS_SAVED)
    load_again(room.page)
    # Until then what is shown may be hidden again, for the board that is waited for.
    room.page.wait_for_function(IS_GIVEN_UP)

    assert "A still picture of" in boards.still_picture(room.page)
    still = room.page.locator(".ps-snapshot:visible").first
    still.locator(".ps-scene:visible").wait_for()  # and fails if there are more
    screenshot(still, "board-without-kernel")
