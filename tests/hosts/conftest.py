from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.hosts.two_hosts import TwoHosts, missing


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoHosts]:
    """Two hosts; skips, saying why, where there can be none."""
    if reason := missing():
        pytest.skip(f"no two hosts: {reason}")
    folder: Path = tmp_path_factory.mktemp("hosts")
    try:
        pair = TwoHosts(folder).__enter__()
    except (OSError, psutil.Error) as error:
        pytest.skip(f"no two hosts: {error}")
    try:
        yield pair
    finally:
        pair.__exit__(None, None, None)
