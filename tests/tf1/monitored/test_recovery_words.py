"""What is told of a recovery: how many steps it has cost, by those who can know."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kit.errors import UnavailableError
from kit.tf1.train.monitored.session_layers import RecoverableSession, Recovery

LOST = UnavailableError("/job:ps/task:1 cannot be reached: nobody answers. See why.")


@dataclass
class Creator:
    """Stands for who makes sessions, as far as a recovery asks it."""

    was_at: int | None
    began_at: int | None
    gives_values: bool = True
    what_it_did: str = "restored model.ckpt-300"


class LosesOnce:
    """Stands for a session whose first run finds that a task is gone."""

    def __init__(self) -> None:
        self.n_runs = 0

    def run(self) -> int:
        self.n_runs += 1
        if self.n_runs == 1:
            raise LOST
        return 7

    def close(self) -> None: ...


def warning_of(
    creator: object, seen: int | None, caplog: pytest.LogCaptureFixture
) -> str:
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
    line = warning_of(Creator(was_at=313, began_at=300), 305, caplog)

    assert line == (
        "ps:1 was lost; restored model.ckpt-300; goes on at step 300; "
        "13 steps are lost."
    )


def test_last_step_that_was_seen_counts_when_the_counter_itself_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert "; 5 steps are lost." in warning_of(Creator(None, 300), 305, caplog)
    assert (
        "lost." not in warning_of(Creator(None, 300), None, caplog).partition("; ")[2]
    )


def test_worker_that_only_waited_does_not_tell_what_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiting = Creator(None, 357, gives_values=False, what_it_did="found all ready")

    line = warning_of(waiting, 340, caplog)

    assert line == "ps:1 was lost; found all ready; goes on at step 357."


def test_loss_is_told_with_its_cause_and_with_what_this_session_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = LosesOnce()
    recovery = Recovery(Creator(was_at=4, began_at=4))
    session = RecoverableSession(lambda: inner, recovery)  # type: ignore[arg-type, return-value]

    result = session.run()

    assert result == 7
    # Advice for a plain session, `See why.`, is left out.
    assert caplog.records[0].message == (
        "ps:1 was lost: makes the session anew when all tasks are up. Cause: "
        "/job:ps/task:1 cannot be reached: nobody answers."
    )
