"""What the tests of servers share: credentials, and stages for programs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from kit.wire.handshake.credentials import Credentials
from tests.server.spmd_stage import MakeStage, Stage


@pytest.fixture(scope="session")
def credentials() -> Credentials:
    """Return those of one cluster; a certificate takes long to make."""
    return Credentials.new()


@pytest.fixture
def stage(tmp_path: Path, credentials: Credentials) -> Iterator[MakeStage]:
    """Return what makes stages, of one server and two workers if nothing is said."""
    with ExitStack() as stack:

        def make(n_ps: int = 1, n_workers: int = 2, **changes: Any) -> Stage:
            made = Stage(tmp_path, credentials, n_ps, n_workers, **changes)
            return stack.enter_context(closing(made))

        yield make
