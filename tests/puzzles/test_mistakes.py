"""What the judge says of typical mistakes, each recorded with its sentence."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from kit import puzzles
from kit.puzzles import PuzzleProcesses
from tests.cases import for_each
from tests.puzzles.programs import (
    mistaken,
    mistakes,
    program,
    solutions,
    without_numbers,
)

TASK = re.compile(r"(worker|ps):\d")


def test_each_puzzle_has_ten_mistakes_that_differ() -> None:
    counts = Counter(mistake.puzzle for mistake in mistakes())
    programs = {mistaken(mistake) for mistake in mistakes()}

    assert counts.keys() == solutions().keys()
    assert min(counts.values()) >= 10
    assert len(programs) == len(mistakes())


@for_each("mistake", mistakes(), ids=lambda item: f"{item.puzzle}: {item.mistake}")
def test_a_recorded_sentence_names_a_task(mistake: object) -> None:
    assert TASK.search(mistake.says)  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("name", solutions())
def test_the_judge_says_of_each_mistake_what_is_recorded(
    name: str, processes: PuzzleProcesses
) -> None:
    said, recorded = {}, {}
    for mistake in mistakes():
        if mistake.puzzle == name:
            wrong = program(mistaken(mistake))
            result = puzzles.judge(name, wrong, processes=processes)
            assert not result.ok
            said[mistake.mistake] = without_numbers(result.words)
            recorded[mistake.mistake] = mistake.says

    assert said == recorded
