"""What is told of a recovery: how many steps it has cost, by those who can know."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kit.errors import UnavailableError
from kit.tf1.train.recovery import Recovery

LOST = UnavailableError("/job:ps/task:1 cannot be reached: nobody answers. See why.")


@dataclass
class Creator:
    """Stands for who makes sessions, as far as a recovery asks it."""

    was_at: int | None
    began_at: int | None
    gives_values: bool = True
    what_it_did: str = "restored model.ckpt-300"


def told(creator: object, seen: int | None, caplog: pytest.LogCaptureFixture) -> str:
    recovery = Recovery(creator)
    step = object()
    recovery.watch(session=None, tensor=step)
    if seen is not None:
        recovery.note([step], [seen])
    recovery.tell(LOST)
    return caplog.records[-1].message


def test_steps_of_others_that_no_hook_has_seen_are_lost_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    line = told(Creator(was_at=313, began_at=300), 305, caplog)

    assert line == (
        "ps:1 was lost; restored model.ckpt-300; goes on at step 300; "
        "13 steps are lost."
    )


def test_last_step_that_was_seen_counts_when_the_counter_itself_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert "; 5 steps are lost." in told(Creator(None, 300), 305, caplog)
    assert "lost." not in told(Creator(None, 300), None, caplog).partition("; ")[2]


def test_worker_that_only_waited_does_not_tell_what_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiting = Creator(None, 357, gives_values=False, what_it_did="found all ready")

    line = told(waiting, 340, caplog)

    assert line == "ps:1 was lost; found all ready; goes on at step 357."
