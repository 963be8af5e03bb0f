"""Trainings in engines that ipyparallel started: what a notebook's user sees."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kit
import kit.hooks
from kit.errors import (
    AbortedError,
    ClusterBusy,
    DeadlineExceededError,
    PeerLost,
    UnknownError,
)
from kit.exchange import Compressor, Exchanged
from kit.testing.task_process import until
from kit.training.client.run import Run
from tests.cluster.engine_training import (
    IMAGES,
    PARAMS,
    TARGETS,
    Array,
    assert_replayed,
    begin,
    step,
)

pytestmark = [pytest.mark.slow, pytest.mark.engines]


@pytest.fixture(scope="module")
def cluster() -> Iterator[kit.Cluster]:
    with kit.Cluster(ps=1, worker=2) as running:
        yield running


def test_a_switched_training_equals_the_numpy_replay(
    cluster: kit.Cluster, tmp_path: Path
) -> None:
    all_is_requested = tmp_path / "go"

    def held(params: dict[str, Array], batch: Any) -> tuple[float, dict[str, Array]]:
        until(all_is_requested.exists, 30)
        return step(params, batch)

    run = begin(cluster, held, topology="ps")
    run.switch("ring", at=15)
    run.switch("mesh", at=30)
    run.switch("ps", at=45)
    all_is_requested.touch()

    run.wait(60)

    assert [row.first_step for row in run.trace.epochs] == [0, 15, 30, 45]
    assert all(entry.agrees for entry in run.traffic)
    assert_replayed(run)


def test_a_compressor_of_ones_own_reaches_the_engines(cluster: kit.Cluster) -> None:
    class Whole(Compressor):  # known in this function alone, as in a notebook's cell
        def stages(self, specs: Any, n_workers: int) -> Any:
            return [specs]

        def exchange(self, gradients: Any, state: Any, turn: Any) -> Any:
            sums = yield gradients
            n = turn.n_workers
            return Exchanged(
                {k: tensor * tensor.dtype.type(1 / n) for k, tensor in sums.items()}
            )

    run = begin(cluster, topology="ps", compress=Whole()).wait(60)

    assert_replayed(run)
    assert run.job.compress == "Whole"
    assert all(entry.agrees for entry in run.traffic)


def test_an_engine_answers_while_it_trains_and_a_second_training_is_refused(
    cluster: kit.Cluster,
) -> None:
    run = begin(cluster, steps=100_000)
    try:
        assert len({*cluster.call("worker", os.getpid, deadline_s=20)}) == 2
        with pytest.raises(ClusterBusy, match=r"worker/task:0 is at step .*run\.stop"):
            begin(cluster)
        before = run.step
        assert not run.done
    finally:
        run.stop()
        run.wait(30)
    assert run.step >= before
    assert run.error is None


def test_a_run_can_be_awaited(cluster: kit.Cluster) -> None:
    async def cell() -> Run:
        return await begin(cluster)

    run = asyncio.run(cell())

    assert run.done
    assert run.step == 60


def test_a_step_that_raises_gives_its_traceback_and_the_task(
    cluster: kit.Cluster,
) -> None:
    def broken(params: dict[str, Array], batch: Any) -> Any:
        raise KeyError("no such layer")

    run = kit.train(broken, PARAMS, (IMAGES, TARGETS), batch=24, cluster=cluster)

    with pytest.raises(kit.errors.StepFailed, match="no such layer") as caught:
        run.wait(30)
    assert caught.value.task in ("/job:worker/task:0", "/job:worker/task:1")
    assert "in broken" in str(caught.value)
    assert begin(cluster).wait(60).step == 60  # the cluster is as good as before


@pytest.mark.lasting("process")  # the engines that it has begun anew
@pytest.mark.parametrize("victim", ["ps:0", "worker:0", "worker:1"])
def test_a_killed_engine_ends_the_run_with_its_name_within_five_seconds(
    cluster: kit.Cluster, victim: str
) -> None:
    run = begin(cluster, steps=10_000_000, topology="ps")
    until(lambda: run.step >= 5, 20)
    pid = cluster.call(victim, os.getpid)

    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(PeerLost) as caught:
        run.wait(20)

    assert time.monotonic() - began < 5
    assert kit.Task.parse(victim) == kit.Task.parse(str(caught.value.task))
    assert str(kit.Task.parse(victim)) in str(caught.value)
    cluster.restart(victim)


def test_error_of_a_clean_up_does_not_hide_why_a_training_did_not_begin() -> None:
    def raise_when_nothing_can_be_cleaned(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        raise ValueError("this cannot be unpickled")

    class Unreadable:
        def __reduce__(self) -> Any:
            return raise_when_nothing_can_be_cleaned, (server,)

    unreadable = Unreadable()

    def with_it(params: Any, batch: Any) -> Any:
        return unreadable, step(params, batch)

    with kit.Cluster(ps=1, worker=1) as cluster:
        server = cluster.call("ps", os.getpid)[0]

        with pytest.raises(UnknownError, match="cannot be unpickled") as raised:
            begin(cluster, with_it)

        assert "The clean-up failed too: PeerLost: ps:0" in raised.value.__notes__[0]


def locked(params: dict[str, Array], batch: Any) -> Any:
    lock = __import__("threading").Lock()
    lock.acquire()
    lock.acquire()  # in C: no exception gets there


def test_task_whose_step_never_returns_is_restarted_and_trains_again() -> None:
    with kit.Cluster(ps=1, worker=2) as own:
        pids = own.call("all", os.getpid)
        with kit.settings(step_deadline_s=1, stop_deadline_s=3):
            run = begin(own, locked)
        with pytest.raises(DeadlineExceededError, match="locked") as caught:
            run.wait(30)

        again = begin(own).wait(30)

        now = own.call("all", os.getpid)
        notes = "\n".join(caught.value.__notes__)
        assert [old == new for old, new in zip(pids, now, strict=True)] == [
            *(True, False, False)
        ]
        assert notes.count("so it was restarted") == 2
        assert_replayed(again)


def test_task_that_was_silent_trains_again_at_once_when_it_has_woken_up() -> None:
    calls = list[int]()  # each task has its own

    def slow(params: dict[str, Array], batch: Any) -> tuple[float, dict[str, Array]]:
        calls.append(1)
        for _ in range(40 if len(calls) > 4 else 0):
            time.sleep(0.1)
        return step(params, batch)

    with kit.Cluster(worker=2) as own:
        pid = own.call("worker:1", os.getpid)
        with kit.settings(suspect_after_s=1.0, dead_after_s=2.0):
            run = begin(own, slow)
            until(lambda: run.step == 4, 30)
            os.kill(pid, signal.SIGSTOP)
            with pytest.raises(PeerLost, match="silent"):
                run.wait(30)
            os.kill(pid, signal.SIGCONT)

            assert_replayed(begin(own).wait(30))


@pytest.mark.lasting("process")  # the engines that it has begun anew
def test_stop_of_a_training_whose_step_never_returns_leaves_a_cluster_to_train_on(
    cluster: kit.Cluster,
) -> None:
    with kit.settings(stop_deadline_s=3):
        run = begin(cluster, locked)
    until(lambda: "locked" in run.flight().said, 30)

    run.stop()
    with pytest.raises(AbortedError, match=r"run\.stop\(\)"):
        run.wait(10)

    assert_replayed(begin(cluster).wait(30))


def outspoken(params: dict[str, Array], batch: Any) -> Any:
    import logging
    import sys
    import warnings

    print("a step prints")
    sys.stderr.write("a step complains\n")
    logging.warning("a step logs")
    warnings.warn("a step warns", stacklevel=1)
    return step(params, batch)


class Outspoken(kit.hooks.SessionRunHook):
    def after_run(self, context: Any, values: Any) -> None:
        print("a hook prints")


def test_what_a_step_or_a_hook_writes_is_in_its_tasks_log_and_shown_by_its_name(
    cluster: kit.Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(cluster, outspoken, steps=2, hooks=[Outspoken()]).wait(30)
    shown = capsys.readouterr()

    logs = [cluster.log(f"worker:{n}", 100) for n in (0, 1)]
    said = ("prints", "complains", "logs", "warns")
    assert all(f"a step {what}" in log for what in said for log in logs)
    assert "a hook prints" in logs[0]
    for name in ("worker:0", "worker:1"):
        assert shown.out.count(f"{name} │ a step prints\n") == 2
        for what in ("a step complains\n", "WARNING:root:a step logs\n"):
            assert shown.err.count(f"{name} │ {what}") == 2
        warned = rf"(?m)^{name} │ /.*UserWarning: a step warns$"
        assert re.search(warned, shown.err)
    assert shown.out.count("worker:0 │ a hook prints\n") == 2


losses: list[float] = []


class Collecting(kit.hooks.SessionRunHook):
    """Its losses go to a list of the notebook, of which its task has a copy."""

    def before_run(self, context: Any) -> kit.hooks.SessionRunArgs:
        return kit.hooks.SessionRunArgs("loss")

    def after_run(self, context: Any, values: Any) -> None:
        losses.append(values.results)


def test_what_a_hook_changes_here_and_has_a_copy_of_there_is_named(
    cluster: kit.Cluster,
) -> None:
    with pytest.warns(UserWarning, match="Collecting changes 'losses', of the type li"):
        begin(cluster, step, steps=2, hooks=[Collecting()]).wait(30)

    assert losses == []


def test_all_that_a_step_prints_is_in_the_log_and_what_is_not_shown_is_counted(
    cluster: kit.Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    def talkative(params: dict[str, Array], batch: Any) -> Any:
        for n in range(1000):
            print(f"line {n:04}")
        return step(params, batch)

    begin(cluster, talkative, steps=3).wait(30)

    lines = [f"line {n:04}" for n in range(1000)]
    shown = capsys.readouterr().out
    for name in ("worker:0", "worker:1"):
        assert cluster.log(name, 3000).splitlines() == lines * 3
        left_out = re.findall(rf"{name} │ … ([\d,]+) more in its log", shown)
        n_left_out = sum(int(number.replace(",", "")) for number in left_out)
        n_shown = len(re.findall(rf"{name} │ line ", shown))
        assert n_shown + n_left_out == 3000
        assert 0 < n_shown < 300
        assert f"kit.current_cluster().log('{name}')" in shown


def test_what_a_step_prints_is_not_taken_for_the_output_of_a_cell(
    cluster: kit.Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"

    def waits(params: dict[str, Array], batch: Any) -> Any:
        begun.touch()
        until(go.exists, 30)
        print("of a step", flush=True)
        return step(params, batch)

    run = begin(cluster, waits, steps=1)
    until(begun.exists, 30)
    code = f"""
import pathlib, kit
from kit.testing.task_process import until
pathlib.Path({str(go)!r}).touch()
server = kit.this_server()
until(lambda: server.trainings.look()["state"] == "done", 30)
print("of a cell")
"""
    outcomes = cluster.on("worker", code)
    run.wait(30)

    assert [outcome.stdout for outcome in outcomes] == ["of a cell\n"] * 2
    assert "of a cell" not in cluster.log("worker:1", 100)
    assert capsys.readouterr().out.count("of a step") == 2


def test_what_a_call_prints_is_shown_by_the_name_of_its_task_and_is_in_the_log(
    cluster: kit.Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    def called(fails: bool) -> int:
        import sys

        print("a call prints")
        sys.stderr.write("a call complains")
        return 1 // (not fails)

    value = cluster.call("worker:1", called, False)
    fine = capsys.readouterr()
    with pytest.raises(UnknownError, match="ZeroDivisionError"):
        cluster.call("worker:1", called, True)
    failed = capsys.readouterr()
    cluster.call("worker:0", lambda: [print(n) for n in range(1500)])
    many = capsys.readouterr().out.splitlines()

    assert value == 1
    for shown in (fine, failed):
        assert shown == ("worker:1 │ a call prints\n", "worker:1 │ a call complains\n")
    assert cluster.log("worker:1", 100).count("a call prints") == 2
    left_out, advice = many[0].split(": ")
    assert left_out == "worker:0 │ … 500 more in its log"
    assert eval(advice, {"kit": kit}) == cluster.log("worker:0")
    assert many[1:] == [f"worker:0 │ {n}" for n in range(500, 1500)]


def test_fork_of_the_notebooks_process_neither_uses_nor_ends_the_cluster(
    cluster: kit.Cluster,
) -> None:
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            cluster.stop()
            cluster.call("worker", os.getpid)
        except BaseException as error:
            os.write(write, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        said = answer.read()
    os.waitpid(pid, 0)

    assert said.startswith("FailedPreconditionError")
    assert "get_context('spawn')" in said
    assert len(cluster.call("worker", os.getpid)) == 2
