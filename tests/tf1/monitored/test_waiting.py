"""A worker waits for its chief, not for ever nor silently; what a recovery tells."""

from __future__ import annotations

import inspect
import threading
import time
from dataclasses import dataclass
from typing import Any

import pytest

from kit import tf1 as tf
from kit.errors import UnavailableError
from kit.settings import settings
from kit.tf1.train.monitored.backoff import Backoff
from kit.tf1.train.monitored.session_layers import RecoverableSession, Recovery
from tests.tf1.monitored.counting import Told, counting
from tests.tf1.servers import cluster


class Time:
    """A clock that only sleeping turns."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(round(seconds, 3))
        self.now += seconds

    def __call__(self) -> float:
        return self.now


def test_pauses_grow_from_a_tenth_of_a_second_to_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    time = Time()
    backoff = Backoff(30.0, clock=time, sleep=time.sleep)

    while backoff.left_s:
        backoff.pause("nobody is there")

    assert time.pauses[:6] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert time.now == pytest.approx(30.0)
    assert [record.message for record in caplog.records] == [
        "Waited 2 s, at most 30 s: nobody is there",
        "Waited 12 s, at most 30 s: nobody is there",
        "Waited 22 s, at most 30 s: nobody is there",
    ]


def test_longest_pause_is_the_one_that_the_program_has_chosen() -> None:
    time = Time()
    backoff = Backoff(5.0, 0.15, clock=time, sleep=time.sleep)

    for _ in range(3):
        backoff.pause("")

    assert time.pauses == [0.1, 0.15, 0.15]


def test_wait_has_no_limit_when_none_is_given() -> None:
    time = Time()
    backoff = Backoff(None, clock=time, sleep=time.sleep)

    while time.now < 8 * 3600:
        backoff.pause("nobody is there")

    assert backoff.left_s == float("inf")


@pytest.mark.parametrize(
    ("waits", "original"),
    [
        (tf.train.MonitoredTrainingSession, 7200),
        (tf.train.WorkerSessionCreator, 1800),
        (tf.train.SessionManager.prepare_session, 7200),
        (tf.train.SessionManager.recover_session, 7200),
        (tf.train.SessionManager.wait_for_session, None),  # there infinity: the same
    ],
)
def test_worker_waits_for_its_chief_as_long_as_the_original(
    waits: Any, original: int | None
) -> None:
    limit = inspect.signature(waits).parameters["max_wait_secs"].default

    assert limit == original


def test_worker_without_a_chief_names_what_has_no_value_and_where() -> None:
    servers = cluster(ps=1, worker=1)
    with tf.Graph().as_default():
        counting()

        with pytest.raises(
            tf.errors.DeadlineExceededError,
            match=r"no chief for 0\.2 s: variables total, global_step on /job:ps/task:0"
            r" are not initialised\. Start the worker with is_chief=True",
        ):
            tf.train.MonitoredTrainingSession(
                servers["worker"][0].target, is_chief=False, max_wait_secs=0.2
            )

        assert not tf.get_default_graph().finalized


def test_worker_whose_variables_have_no_job_hears_that_no_chief_can_help() -> None:
    servers = cluster(ps=1, worker=2)
    with tf.Graph().as_default():
        with tf.device("/cpu:0"):
            counting(ps="")
        tf.train.MonitoredTrainingSession(servers["worker"][0].target).close()

        with pytest.raises(
            tf.errors.DeadlineExceededError,
            match=r"global_step on /device:CPU:0 are not initialised; without a job.*"
            r"replica_device_setter",
        ):
            tf.train.MonitoredTrainingSession(
                servers["worker"][1].target, is_chief=False, max_wait_secs=0.2
            )


@pytest.mark.slow
def test_worker_begins_soon_after_its_chief() -> None:
    servers = cluster(ps=1, worker=2)
    began: list[float] = []

    def work() -> None:
        with tf.Graph().as_default():
            counting()
            with tf.train.MonitoredTrainingSession(
                servers["worker"][1].target, is_chief=False
            ):
                began.append(time.monotonic())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(0.15)
    was_waiting = thread.is_alive()
    with tf.Graph().as_default():
        counting()
        with tf.train.MonitoredTrainingSession(servers["worker"][0].target):
            ready = time.monotonic()
            thread.join(20.0)

    assert was_waiting
    assert began[0] - ready < 10  # the original looks each half a minute


@pytest.mark.slow
def test_run_that_is_aborted_again_and_again_is_repeated() -> None:
    class Aborting(Told):
        n_left = 4

        def after_run(self, run_context: object, run_values: object) -> None:
            super().after_run(run_context, run_values)
            self.n_left -= 1
            if self.n_left:
                raise tf.errors.AbortedError(None, None, "no luck")

    hook = Aborting()
    _, count = counting(ps="")
    with (
        settings(run_deadline_s=0.01),
        tf.train.MonitoredSession(hooks=[hook]) as session,
    ):
        session.run(count)

    assert hook.book.count("after") == 4
    assert "end" in hook.book


@pytest.mark.slow
def test_session_that_cannot_begin_is_tried_again() -> None:
    class Failing(tf.train.ChiefSessionCreator):  # type: ignore[misc]
        n_tries = 0

        def create_session(self) -> object:
            self.n_tries += 1
            if self.n_tries < 4:
                raise tf.errors.UnavailableError(None, None, "closed on mondays")
            return super().create_session()

    creator = Failing()
    with tf.Graph().as_default(), settings(run_deadline_s=0.01):
        _, count = counting(ps="")
        with tf.train.MonitoredSession(creator) as session:
            session.run(count)

    assert creator.n_tries == 4


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
