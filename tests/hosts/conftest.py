from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import psutil
import pytest

from tests import zygote
from tests.hosts.two_hosts import TwoHosts, missing


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[
    None, pytest.TestReport, pytest.TestReport
]:
    """Let nothing be skipped where KIT_REQUIRE_HOSTS is set, whatever is missing."""
    report = yield
    if report.skipped and os.environ.get("KIT_REQUIRE_HOSTS"):
        report.outcome = "failed"
    return report


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoHosts]:
    """Two hosts; skips, saying why, where there can be none."""
    if reason := missing():
        pytest.skip(f"no two hosts: {reason}")
    folder: Path = tmp_path_factory.mktemp("hosts")
    try:
        pair = TwoHosts(folder, is_forking=zygote.IS_USED).__enter__()
    except (OSError, psutil.Error) as error:
        pytest.skip(f"no two hosts: {error}")
    try:
        yield pair
    finally:
        pair.__exit__(None, None, None)
