"""What the demonstration reports of a server that was killed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.demo.recovered import Recovered, problems

GOOD = Recovered(
    pid=7,
    saved=200,
    restored=200,
    lost=46,
    wanted=1000,
    reached=1001,
    losses=[2.3, 0.02],
    seconds=8.0,
)


def test_steps_that_are_lost_are_those_since_the_checkpoint() -> None:
    assert GOOD.killed_at == 246
    assert "at step 246" in GOOD.sentence
    assert "46 steps were lost" in GOOD.sentence
    assert problems(GOOD) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"restored": 100}, "checkpoint of step 200 was complete"),
        ({"reached": 900}, "ended at step 900, before 1000"),
        ({"losses": [2.3, 1.5]}, "loss is 1.5"),
        ({"losses": [float("nan")]}, "loss is nan"),
    ],
)
def test_promise_of_the_trainer_that_is_broken_is_told(
    change: dict[str, object], word: str
) -> None:
    (message,) = problems(replace(GOOD, **change))  # type: ignore[arg-type]

    assert word in message
