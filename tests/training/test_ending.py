"""When an observer takes a training for over, by what it knows and by the clock."""

from __future__ import annotations

import time

import pytest

from kit.errors import KitError, PeerLost, StepFailed
from kit.settings import Settings
from kit.training.client.ending import Ending, note_silent
from kit.training.client.watched import Watched
from tests.training.jobs import made

LIMITS = Settings(dead_after_s=10.0, suspect_after_s=2.0)
SERVER, LEADER, OTHER = range(3)
JOB = made(settings=LIMITS)
LOST = PeerLost("worker:1 is gone.", task="/job:worker/task:1")


class Scene:
    """Three members, of whom an observer that trusts the first worker hears."""

    def __init__(self) -> None:
        self.now = time.monotonic()
        self.watched = [Watched(since=self.now) for _ in JOB.tasks]
        self.ending = Ending(LEADER, self.now)

    def hear(self, *members: int, error: KitError | None = None) -> None:
        for member in members:
            self.watched[member].heard_at = round(self.now * 1e9)
            self.watched[member].error = error

    def end(self, member: int, state: str = "failed") -> None:
        self.watched[member].state = state
        self.watched[member].is_concluded = True

    def passes(self, seconds: float, *heard: int) -> float | None:
        """Let time pass, with looks; return after how much of it all was over."""
        begun = self.now
        while self.now - begun < seconds:
            self.hear(*heard)
            if self.ending.look(JOB, self.watched, self.now):
                return self.now - begun
            self.now += 0.1
        return None


def test_nothing_ends_while_all_are_heard() -> None:
    assert Scene().passes(60, SERVER, LEADER, OTHER) is None


def test_the_end_is_that_of_all() -> None:
    scene = Scene()
    for member in (LEADER, SERVER):
        scene.end(member, "done")
    assert scene.passes(1, OTHER) is None

    scene.end(OTHER, "done")

    assert scene.passes(1) == 0


def test_a_member_that_is_late_for_a_good_end_is_waited_for_but_not_for_long() -> None:
    scene = Scene()
    for member in (LEADER, SERVER):
        scene.end(member, "done")

    assert scene.passes(60) == pytest.approx(3.0, abs=0.2)


@pytest.mark.parametrize("who", [LEADER, SERVER])
def test_who_was_silent_before_a_loss_was_heard_of_is_not_waited_for(who: int) -> None:
    scene = Scene()
    assert scene.passes(10.2, SERVER, LEADER) is None
    scene.hear(who, error=LOST)
    for member in (SERVER, LEADER):
        scene.end(member)

    assert scene.passes(1) == 0


def test_a_member_whose_own_step_goes_on_is_not_waited_for_beyond_the_promise() -> None:
    scene = Scene()
    assert scene.passes(10.2, SERVER, LEADER) is None
    scene.end(SERVER)
    scene.watched[LEADER].error = LOST

    last = scene.passes(60)

    assert last is not None
    assert 10.2 + last < LIMITS.dead_after_s + 1.5


def test_an_error_of_a_step_waits_for_the_word_of_the_trusted_member() -> None:
    scene = Scene()
    scene.hear(OTHER, error=StepFailed("no"))
    scene.end(OTHER)
    assert scene.passes(5, LEADER, SERVER) is None

    scene.end(LEADER)
    scene.end(SERVER)

    assert scene.passes(1) == 0


def test_one_that_was_never_heard_is_left_to_the_dial_to_it() -> None:
    assert Scene().passes(60, SERVER, OTHER) is None


def test_the_silence_of_the_trusted_member_is_the_end() -> None:
    scene = Scene()
    scene.hear(LEADER)

    last = scene.passes(60, SERVER, OTHER)

    assert last is not None
    assert LIMITS.dead_after_s < last < LIMITS.dead_after_s + 1.5
    note_silent(JOB, scene.watched, scene.now, trusted=LEADER)
    error = scene.watched[LEADER].error
    assert isinstance(error, PeerLost)
    assert error.task == "/job:worker/task:0"
    assert "it was not heard for 11." in error.message
    assert scene.watched[OTHER].error is None


def test_one_that_was_only_slow_is_heard_again_and_nothing_is_over() -> None:
    scene = Scene()
    scene.hear(LEADER)
    assert scene.passes(10.9, SERVER, OTHER) is None

    assert scene.passes(60, SERVER, LEADER, OTHER) is None


def test_an_observer_that_was_stopped_blames_nobody() -> None:
    scene = Scene()
    assert scene.passes(5, SERVER, LEADER, OTHER) is None

    scene.now += 3600  # a stopped process

    assert scene.passes(5) is None
