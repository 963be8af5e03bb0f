"""A worker waits for its chief: not longer than it must, not for ever, not silently."""

from __future__ import annotations

import inspect
import threading
import time
from typing import Any

import pytest

from kit import tf1 as tf
from kit.settings import settings
from kit.tf1.train.monitored.backoff import Backoff
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
