"""A learner tries the first puzzle in JupyterLab, wrong and right."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page

from tests.browser import axe
from tests.browser import board as boards
from tests.browser.lab import (
    IN_A_BROWSER,
    Lab,
    change_theme,
    complaints,
    open_notebook,
    resize,
    screenshot,
)
from tests.browser.lesson import Lesson
from tests.puzzles.programs import mistaken, mistakes, solutions

pytestmark = [*IN_A_BROWSER, pytest.mark.timeout(240)]
JUDGE = (
    "guess_broadcast.required()\n\n\n{}\n\n\n"
    'tried_broadcast = puzzles.judge("broadcast", broadcast)\ntried_broadcast'
)
IN_A_CIRCLE = 'def broadcast(task):\n    task.recv((task.rank + 1) % task.n, name="x")'
SAID = ".jp-OutputArea-output:has(.kit-puzzle)"
AT_ONCE_MS = 2000


def test_learner_is_told_of_a_mistake_and_a_deadlock_and_that_a_program_is_right(
    lab: Lab, desk: Page
) -> None:
    lesson = Lesson.copied(lab.folder, "puzzles/1_first_messages.ipynb")
    wrong_name = next(
        mistake for mistake in mistakes() if "another name" in mistake.mistake
    )
    errors = complaints(desk)
    resize(desk, 1024, 768)
    open_notebook(desk, lab, lesson.path.name)
    lesson.run(desk, "start")
    lesson.run(desk, "broadcast-predict")
    predict(desk, "3")

    write(desk, lesson, mistaken(wrong_name))
    wrong = result(desk, wrong_name.says)
    assert wrong.locator(".stuck-text").all_text_contents() == [
        f"waits for X from worker:{source}" for source in (0, 0, 2)
    ]
    look(desk, wrong, "mistake")

    write(desk, lesson, IN_A_CIRCLE)
    stuck = result(desk, "Not yet: a deadlock: ", timeout=AT_ONCE_MS)
    assert stuck.locator(".stuck-text").all_text_contents() == [
        f"waits for x from worker:{source}" for source in (1, 2, 3, 0)
    ]
    look(desk, stuck, "deadlock")

    write(desk, lesson, solutions()["broadcast"])
    right = result(desk, "Right. Known programs do better: chain")
    assert right.locator("thead th").all_text_contents()[1:] == [
        "yours",
        "target",
    ]
    assert right.locator(".stuck-text").count() == 0
    look(desk, right, "right")
    assert errors == []


def predict(page: Page, guess: str) -> None:
    form = page.locator(".ps-prediction:visible")
    form.locator("input").fill(guess)
    form.get_by_role("button", name="Lock in").click()
    form.get_by_text("Locked in:").wait_for()


def write(page: Page, lesson: Lesson, program: str) -> None:
    """Type a program into its cell, in the place of what is there, and run it."""
    lesson.select(page, "broadcast")
    page.locator(".jp-Cell.jp-mod-active .cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(JUDGE.format(program))
    page.keyboard.press("Control+Enter")


def result(page: Page, said: str, timeout: float | None = None) -> Locator:
    """Wait for a result of these words, and return what is shown of it."""
    results = page.locator(SAID, has_text=said)
    results.wait_for(timeout=timeout)
    return results


def look(page: Page, board: Locator, name: str) -> None:
    """Take pictures in both themes; nothing is too small, and all can be read."""
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        change_theme(page, theme)
        board.scroll_into_view_if_needed()
        assert boards.small_texts(board) == []
        assert axe.serious(page, SAID) == [], theme
        screenshot(board, f"puzzle-{name}-{theme.split()[1].lower()}")
