"""The handle of a training: what it tells and what it takes, before, during, after."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import kit
from kit import arithmetic
from kit.errors import (
    ClusterBusy,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    PeerLost,
    StepFailed,
)
from kit.server import handlers
from kit.settings import Settings
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from kit.training.client.ending import Ending, note_silent
from kit.training.client.observer import Observer
from kit.training.client.step_wait import StepWait
from kit.training.client.watched import Watched, gone
from kit.wire.rpc import ReconnectingCaller
from tests.training.jobs import made
from tests.training.paced import LONG_S
from tests.training.toy import (
    BATCH,
    Params,
    begin,
    fit,
    initial,
    quick_cluster,
    replayed,
    same_bits,
)

MANY = 1_000_000
SGD = kit.GradientDescent()


class Gate:
    """A step that waits at the gate in one of its steps, on all workers."""

    def __init__(self, n_workers: int, at: int) -> None:
        self._first, self._calls = n_workers * at, 0
        self._last = self._first + n_workers - 1
        self.open, self.reached = threading.Event(), threading.Event()
        self._guard = threading.Lock()

    def __call__(self, params: Params, batch: Any) -> Any:
        with self._guard:
            number, self._calls = self._calls, self._calls + 1
        if number == self._last:
            self.reached.set()  # the step before is over on all of them
        if number >= self._first:
            assert self.open.wait(10)
        return fit(params, batch)


@contextmanager
def held(cluster: LocalCluster, at: int, **changes: Any) -> Iterator[kit.Run]:
    """Give a training that stands in its step `at`, and let it go at the end."""
    gate = Gate(len(cluster.tasks) - 1, at)
    run = begin(cluster, gate, **changes)
    try:
        assert gate.reached.wait(10)
        yield run
    finally:
        gate.open.set()
        run.stop()
        run.wait(10)


def test_second_training_is_refused_and_the_first_unharmed(
    cluster: LocalCluster,
) -> None:
    with held(cluster, at=2) as run:
        with pytest.raises(
            ClusterBusy, match=rf"/job:worker/task:0 .*{run.job.run[:8]}"
        ):
            pytest.fail(str(begin(cluster)))
        assert run.state == "running"
        run.pause()

    assert run.error is None
    assert same_bits(run.params, replayed(run.step, 2, SGD))


def test_a_wait_for_a_step_tells_of_a_pause_and_ends_at_the_step(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin(cluster, steps=MANY)
    run.until(3).wait(10)
    run.advance(4)  # and then it is paused
    until(lambda: run.state == "paused" and not run.halting, 10)
    paused_at = run.step

    async def go_on_when_it_is_told() -> kit.Run:
        wait = asyncio.ensure_future(awaited(run.until(paused_at + 5)))
        while not (reply := capsys.readouterr().out) and not wait.done():
            await asyncio.sleep(0)
        assert reply.startswith(f"Paused at step {paused_at:,}, until step ")
        assert "press Resume in the board" in reply
        assert not wait.done()
        run.resume()
        return await wait

    assert asyncio.run(go_on_when_it_is_told()) is run
    assert run.step >= paused_at + 5
    assert not run.done
    run.stop()
    run.wait(10)


def test_a_training_that_is_still_in_its_last_step_is_not_called_paused(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = iter([False, False, True])
    with held(cluster, at=2) as run:
        run.pause()
        until(lambda: run.state == "paused", 10)
        assert run.halting == "pausing"
        run.until(lambda run: next(looks)).wait(10)
        assert capsys.readouterr().out == ""


def test_a_wait_for_a_step_that_never_comes_ends_with_the_training(
    cluster: LocalCluster,
) -> None:
    def fails(params: Any, batch: Any) -> Any:
        raise ValueError("it is broken")

    stopped = begin(cluster, steps=MANY)
    stopped.pause()
    stopped.stop()
    assert stopped.until(MANY).wait(10).state == "done"

    failed = begin(cluster, fails)
    assert failed.until(3).wait(10).state == "failed"
    assert isinstance(failed.error, StepFailed)

    short = begin(cluster, steps=5)
    assert short.until(7).wait(10).step == 5


def test_a_wait_for_a_step_has_its_deadline_and_wants_a_number(
    cluster: LocalCluster,
) -> None:
    with held(cluster, at=2) as run:
        with pytest.raises(DeadlineExceededError, match="step 9 is not done after 0 s"):
            run.until(9).wait(0)
        with pytest.raises(InvalidArgumentError, match="'soon' is neither"):
            run.until("soon")  # type: ignore[arg-type]
        never = run.until(lambda run: run.losses)
        with pytest.raises(DeadlineExceededError, match="has not happened after 0 s"):
            never.wait(0)
        assert run.until(lambda run: run.step >= 1).wait(10) is run


def test_request_after_the_end_is_refused(cluster: LocalCluster) -> None:
    run = begin(cluster).wait(10)

    for request in (run.pause, run.resume, run.advance):
        with pytest.raises(FailedPreconditionError, match=r"over.*kit\.train"):
            request()
    with pytest.raises(FailedPreconditionError):
        run.topology = "ring"
    run.stop()  # already so

    assert run.topology == "ps"


def test_links_of_another_generation_that_go_meanwhile_keep_nobody_waiting(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = ReconnectingCaller.close
    with held(cluster, at=1) as run:
        assert isinstance(run.source, Observer)
        expected = run.source._links

        def closed(caller: ReconnectingCaller) -> None:
            close(caller)
            expected.discard(
                caller
            )  # as a thread that watched an earlier generation does

        monkeypatch.setattr(ReconnectingCaller, "close", closed)

    assert run.wait(10).state == "done"
    assert not expected


def test_looks_and_refused_requests_leave_a_running_training_alone(
    cluster: LocalCluster,
) -> None:
    async def impatient(run: kit.Run) -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(run, 0.01)

    with held(cluster, at=4, steps=MANY) as run:
        result = run.params
        assert same_bits(result, replayed(4, 2, SGD))
        assert result["w"].flags.writeable
        with pytest.raises(FailedPreconditionError):
            pytest.fail(str(run.traffic))
        with pytest.raises(DeadlineExceededError, match=rf"of {MANY} after 0.01 s"):
            run.wait(0.01)
        asyncio.run(impatient(run))
        with pytest.raises(InvalidArgumentError, match="'star'"):
            run.topology = "star"
        with pytest.raises(InvalidArgumentError, match="'fast'"):
            run.link = "fast"
        assert (run.switching, run.done, run.state) == ("", False, "running")

    assert run.state == "done"
    assert 4 < run.step < MANY  # it was stopped between two steps
    assert same_bits(run.params, replayed(run.step, 2, SGD))
    assert all(entry.agrees for entry in run.traffic)


def test_params_too_large_for_a_message_come_in_pieces(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = begin(cluster, steps=3).wait(20).params

    monkeypatch.setattr(handlers, "PARAMS_BYTES", 7)
    run = begin(cluster, steps=3).wait(20)

    assert sum(value.nbytes for value in whole.values()) > 4 * handlers.PARAMS_BYTES
    assert same_bits(run.params, whole)


def test_a_training_of_no_step_has_its_initial_parameters_and_no_row(
    cluster: LocalCluster,
) -> None:
    run = begin(cluster, steps=0).wait(10)

    assert (run.state, run.step, len(run.frame())) == ("done", 0, 0)
    assert same_bits(run.params, initial())


async def awaited(run: kit.Run | StepWait) -> kit.Run:
    return await asyncio.wait_for(run, 10)


def test_run_can_be_awaited(cluster: LocalCluster) -> None:
    run = begin(cluster)

    assert asyncio.run(awaited(run)) is run
    assert run.step == 6


@pytest.mark.slow
def test_awaiting_a_failing_run_raises_its_error(cluster: LocalCluster) -> None:
    def stumble(params: Params, batch: Any) -> Any:
        raise ValueError("no")

    run = begin(cluster, stumble)

    with pytest.raises(StepFailed, match="ValueError: no"):
        asyncio.run(awaited(run))


def test_a_run_that_is_over_tells_its_steps_and_has_parameters_of_its_own(
    cluster: LocalCluster,
) -> None:
    run = begin(cluster).wait(10)

    text, frame = repr(run), run.frame()
    run.params["w"][...] = 7
    begin(cluster, steps=1).wait(10)

    assert run.job.run[:8] in text
    assert "done: step 6 of 6, ps, loss " in text
    assert float(text.rstrip(">").split("loss ")[1]) == pytest.approx(run.loss, 1e-3)
    assert frame.index.tolist() == list(range(6))
    assert frame["examples"].tolist() == [BATCH] * 6
    assert np.isfinite(frame["loss"]).all()
    assert same_bits(run.params, replayed(6, 2, SGD))


def test_a_run_says_what_it_was_computed_with_and_what_is_reproducible(
    cluster: LocalCluster,
) -> None:
    run = begin(cluster, seed=5).wait(30)
    free = begin(cluster, sync=False).wait(30)

    here = arithmetic.here()
    assert run.environment["blas"] == here.blas
    assert run.environment["threads"] == here.threads
    assert run.environment["tasks"] == [task.short for task in run.job.tasks]
    said = run.statement()
    assert f"6 steps of mini-batches of {BATCH}" in said
    assert "seed 5" in said
    assert np.__version__ in said
    assert "give the same bits" in said
    assert "another run applies them in another order" in free.statement()


# -- when an observer takes it for over ------------------------------------------------

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
