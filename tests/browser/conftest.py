"""One browser and one JupyterLab for all tests here, as each takes seconds to start.

A test has a page of its own, which shares nothing with others, and a folder of its own
in JupyterLab, and leaves no kernel and no setting to the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.lab import Lab, headless_browser, jupyter_lab, page_of


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
