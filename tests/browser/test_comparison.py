"""The page of a comparison in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.lab import IN_A_BROWSER, opened
from tests.widgets.outcomes import some
from widgets.comparing import page as comparison_page

pytestmark = [*IN_A_BROWSER, pytest.mark.timeout(240)]
# How many figures of each scale are seen.
SEEN = """() => ['linear', 'log'].map(scale =>
    [...document.querySelectorAll('.' + scale)]
        .filter(place => place.getClientRects().length).length)"""
DRAWN = "() => document.querySelectorAll('.bk-Figure').length > 0"


def test_the_scale_is_chosen_in_the_page_which_asks_for_nothing_else(
    page: Page, tmp_path: Path
) -> None:
    comparison_page.write(some(), tmp_path / "page.html")
    with opened(page, tmp_path / "page.html", theme="dark"):
        page.wait_for_function(DRAWN)
        linear = page.evaluate(SEEN)
        page.get_by_label("logarithmic").check()
        logarithmic = page.evaluate(SEEN)
        width = page.evaluate("() => document.documentElement.scrollWidth")

    assert (linear, logarithmic) == ([4, 0], [0, 4])  # by step, examples, time, bytes
    assert width <= 1024
