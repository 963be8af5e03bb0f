"""The place of hooks, for all tests of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.hooks import environment
from tests.hooks.notes import Notes


@pytest.fixture
def notes() -> Iterator[Notes]:
    result = Notes()
    with environment.inside(result):
        yield result
