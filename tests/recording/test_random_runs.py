"""Random trainings and seeded differences: a few of those that the programs try."""

from __future__ import annotations

import pytest

from tests.recording import random_runs, seeded_differences


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 8, 27, 33, 48])
def test_random_training_is_replayed_bit_for_bit(number: int) -> None:
    assert random_runs.check(number) == ""


@pytest.mark.slow
@pytest.mark.parametrize("number", range(5))
def test_seeded_difference_is_found_where_it_is(number: int) -> None:
    assert seeded_differences.check(number) == ""
