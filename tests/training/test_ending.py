"""When an observer takes a training for over, by what it knows and by the clock."""

from __future__ import annotations

import time

import pytest

import kit
from kit.errors import ClusterBusy, KitError, PeerLost, StepFailed
from kit.settings import Settings
from kit.testing.task_process import until
from kit.training.client.ending import Ending, note_silent
from kit.training.client.watched import Watched, gone
from tests.training.jobs import made
from tests.training.paced import LONG_S, begin
from tests.training.toy import quick_cluster

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


# -- which tasks were lost -------------------------------------------------------------

MANY = 1_000_000


def running_without_its_last_worker(n_steps: int = 20) -> kit.Run:
    """Return a finished training whose last task was stopped and still answered."""
    with quick_cluster(1, 3) as cluster:
        run = begin(cluster, steps=MANY, aggregate=2)
        until(lambda: run.step > n_steps)
        # All that a stopped task does but for its links: who asks it is answered.
        cluster.servers[-1].trainings.close(LONG_S)
        until(lambda: bool(run.lost))
        seen = run.step
        until(lambda: run.step > seen + n_steps)
        assert run.state == "running"
        run.stop()
        run.wait(LONG_S)
    return run


@pytest.mark.slow
def test_worker_that_gave_up_and_still_answers_is_lost_while_the_steps_go_on() -> None:
    run = running_without_its_last_worker()

    assert run.state == "done"
    assert list(run.lost) == ["worker:2"]
    assert "/job:worker/task:2 was stopped" in run.lost["worker:2"]


@pytest.mark.slow
def test_worker_whose_loss_ends_the_training_is_lost() -> None:
    with quick_cluster(1, 3) as cluster:
        run = begin(cluster, steps=MANY)
        until(lambda: run.step > 20)
        cluster.servers[-1].trainings.close(LONG_S)
        with pytest.raises(PeerLost, match="/job:worker/task:2 is gone"):
            run.wait(LONG_S)

    assert list(run.lost) == ["worker:2"]
    assert run.step > 20


def test_task_that_has_let_go_of_a_training_still_tells_its_last_step() -> None:
    with quick_cluster(1, 1) as cluster:
        run = begin(cluster, steps=7).wait(LONG_S)
        for server in cluster.servers:
            server.trainings.close(LONG_S)
        steps = [item.trainings.find(run.job.run).step for item in cluster.servers]

    assert steps == [7, 7]


def member(state: str, error: str = "") -> Watched:
    return Watched(state=state, error=ClusterBusy(error) if error else None)


def test_who_cannot_be_reached_is_gone_with_what_was_seen_here() -> None:
    cut = Watched()
    cut.lose(PeerLost("the way to worker:1 is cut"))

    assert gone([member("running"), cut], {}) == {1: "the way to worker:1 is cut"}


def test_who_failed_is_gone_if_the_training_goes_on_without_it() -> None:
    failed = member("failed", "worker:1 was stopped")
    reply = {"1": "worker:1 is gone"}

    assert gone([member("running"), failed], reply) == {1: "worker:1 was stopped"}


def test_who_failed_with_all_others_is_not_gone() -> None:
    both = [member("failed", "no such model"), member("failed", "no such model")]

    assert gone(both, {}) == {}


def test_who_has_not_said_anything_is_gone_by_the_word_of_the_coordinator() -> None:
    reply = {"0": "worker:0 is gone: it has been silent for 2.0 s"}

    assert gone([member("running"), member("running")], reply) == {0: reply["0"]}
