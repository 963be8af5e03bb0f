"""One set of processes for all tests of puzzles."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit import puzzles
from kit.puzzles import PuzzleProcesses


@pytest.fixture(scope="session")
def processes() -> Iterator[PuzzleProcesses]:
    result = PuzzleProcesses()
    # As many as the largest puzzle has, so that no test starts any.
    puzzles.judge("tree all-reduce", lambda task: None, processes=result)
    yield result
    result.close()
