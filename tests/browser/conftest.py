"""One browser and one JupyterLab for all tests here, as each takes seconds to start.

A test has a page of its own, which shares nothing with others, or `desk`, and a folder
of its own in JupyterLab. It leaves no kernel, notebook or setting to the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.lab import (
    SIZE,
    Lab,
    close_all,
    command,
    headless_browser,
    jupyter_lab,
    page_of,
)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with headless_browser() as browser:
        yield browser


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with jupyter_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture
def lab(server: Lab, tmp_path: Path) -> Iterator[Lab]:
    with server.below(tmp_path.name) as lab:
        yield lab


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with page_of(browser) as page:
        yield page


@pytest.fixture(scope="package")
def loaded(server: Lab, browser: Browser) -> Iterator[Page]:
    with page_of(browser) as page:
        page.goto(server.address.replace("/lab/tree?", "/lab?"))
        page.wait_for_selector(".jp-Launcher")
        command(page, "application:toggle-left-area")
        yield page


@pytest.fixture
def desk(lab: Lab, loaded: Page) -> Iterator[Page]:
    """Give a page with JupyterLab to a test that loads none: it takes as long again."""
    loaded.set_viewport_size(SIZE)
    yield loaded
    close_all(loaded)
