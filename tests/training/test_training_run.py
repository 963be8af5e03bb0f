"""The handle of a training: what it tells and what it takes, before, during, after."""

from __future__ import annotations

import asyncio
import threading
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
    StepFailed,
)
from kit.server import handlers
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from kit.training.client.observer import Observer
from kit.training.client.step_wait import StepWait
from kit.wire.rpc import ReconnectingCaller
from tests.training.toy import BATCH, Params, begin, fit, initial, replayed, same_bits

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
