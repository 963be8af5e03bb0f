"""The first notebook in JupyterLab, in a real browser."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.browser.lab import (
    ROOT,
    browser_page,
    change_theme,
    chromium,
    jupyter_lab,
    open_notebook,
    run_all,
    screenshot,
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.engines,
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        chromium() is None, reason="there is no chromium; apt-get install chromium"
    ),
]
RUN_MS = 120_000
HELLO = "00_hello_cluster.ipynb"


def test_hello_notebook_runs_in_jupyterlab_and_shows_its_tables(
    tmp_path: Path,
) -> None:
    shutil.copy(ROOT / "notebooks" / HELLO, tmp_path)
    with jupyter_lab(tmp_path) as address, browser_page() as page:
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        open_notebook(page, address, HELLO)
        run_all(page)
        page.wait_for_selector("caption:has-text('Cluster stopped')", timeout=RUN_MS)
        light = screenshot(page, "hello")
        change_theme(page, "JupyterLab Dark")
        dark = screenshot(page, "hello-dark")

        captions = page.locator(".jp-OutputArea caption").all_inner_texts()
        assert "Cluster ready: ps=1 worker=3, 1 BLAS thread each" in captions
        assert "Gradient traffic in bytes" in captions
        assert page.locator(".jp-OutputArea-output:has-text('Traceback')").count() == 0
        assert readable(page.locator("caption").first.evaluate(COLOURS))
        assert errors == []
    assert light.read_bytes() != dark.read_bytes()


# The colour of an element's text, and of the first ground behind it that has one.
COLOURS = """element => {
    const colour = getComputedStyle(element).color;
    while (getComputedStyle(element).backgroundColor === 'rgba(0, 0, 0, 0)')
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
