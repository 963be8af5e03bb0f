"""When its line is cut, one side of an elastic training goes on alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.net.cuts import Cut, play

pytestmark = [pytest.mark.net, pytest.mark.slow]


@pytest.mark.parametrize(
    "cut",
    [Cut("here", "abba", "ring"), Cut("there", "ba", "mesh")],
    ids=str,
)
def test_the_greater_part_goes_on_and_the_other_joins_when_the_line_is_mended(
    tmp_path: Path, cut: Cut
) -> None:
    play(cut, tmp_path)
