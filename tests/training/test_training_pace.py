"""Asynchronous steps, changes between them and synchronous ones, and their bounds."""

from __future__ import annotations

import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.checkpoint import Folder
from kit.errors import InvalidArgumentError
from kit.testing.task_process import until
from kit.trace.traffic import TransferKind
from kit.training.optimizers.rule import Optimizer
from tests.cases import for_each
from tests.training import toy
from tests.training.paced import Held, always_one, begin, how, standing
from tests.training.saved import Patient
from tests.training.toy import (
    DATA,
    Params,
    X,
    by_kind,
    fit,
    initial,
    quick_cluster,
    replayed,
    same_bits,
    trained,
)

SIZE = sum(value.nbytes for value in initial().values())
MANY = 1_000_000
OPTIMIZERS: list[Optimizer] = [kit.GradientDescent(0.05), kit.Adam(0.02)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda item: type(item).__name__)
@pytest.mark.parametrize("begins", [True, False])
def test_one_worker_has_the_bits_of_the_replay_whatever_its_pace(
    optimizer: Optimizer, begins: bool
) -> None:
    step = Held()
    with quick_cluster(2, 1) as cluster:
        run = begin(cluster, step, sync=begins, optimizer=optimizer)
        for number, at in enumerate((7, 8, 19)):
            run.switch(synchronous=begins if number % 2 else not begins, at=at)
        step.go.set()
        run.wait(30)

    assert [first for _, first in how(run)] == [0, 7, 8, 19]
    assert len({name for name, _ in how(run)}) == 2
    assert same_bits(run.params, replayed(30, 1, optimizer))


@pytest.mark.slow
@pytest.mark.parametrize("n_ps", [1, 2])
def test_every_update_counts_once_and_moves_the_bytes_of_the_formula(n_ps: int) -> None:
    step, rate = Held(always_one), 2.0**-10  # exact, in whatever order
    sgd = kit.GradientDescent(rate)
    with quick_cluster(n_ps, 3) as cluster:
        run = begin(cluster, step, steps=800, optimizer=sgd)
        run.switch(synchronous=False, at=20)
        run.switch(synchronous=True, at=60)
        step.go.set()
        run.wait(30)

    (_, _), (_, second), (_, third) = how(run)
    assert 20 <= second < 60 <= third  # others go on until the first one asks
    assert [name for name, _ in how(run)] == ["ps", "ps-async", "ps"]
    work = run.trace.steps[run.trace.steps["examples"] > 0]
    alone = work[work["epoch"] == 2]
    assert sorted(alone["step"]) == list(range(second, third))
    totals = run.trace.totals
    for epoch, gradients in (
        (1, 3 * second),
        (2, third - second),
        (3, 3 * (800 - third)),
    ):
        for kind in (TransferKind.PUSH, TransferKind.PULL):
            mine = (totals["epoch"] == epoch) & (totals["kind"] == kind)
            assert totals["bytes"][mine].sum() == gradients * SIZE, (epoch, kind)
    assert all(entry.agrees for entry in run.traffic)
    once = {epoch: (measured, formula) for epoch, measured, formula in run.moved_once}
    assert once[2] == (0, 0)
    assert once[3] == (3 * SIZE, 3 * SIZE)
    for name, value in run.params.items():
        moved = np.float64(initial()[name]) - np.float64(value)
        np.testing.assert_allclose(moved, 800 * rate, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["ps", "ring", "mesh"])
def test_all_workers_begin_a_synchronous_epoch_with_the_same_bits(
    topology: str,
) -> None:
    step = Held()
    with quick_cluster(2, 3) as cluster:
        run = begin(cluster, step, sync=False, steps=400, optimizer=kit.Adagrad(0.1))
        run.switch(topology, synchronous=True, at=40)
        step.go.set()
        run.wait(30)

    first = how(run)[1][1]
    assert how(run)[1][0] == topology
    n_steps = 400 - first
    by_worker: dict[int, list[bytes]] = defaultdict(list)
    for worker, bits in step.seen:
        by_worker[worker].append(bits)
    last = [calls[-n_steps:] for calls in by_worker.values()]
    assert len(last) == 3
    assert last[0] == last[1] == last[2]
    assert len(set(last[0])) > 1
    assert all(measured == formula for _, measured, formula in run.moved_once)


@pytest.mark.slow
def test_switching_forth_and_back_all_the_time_loses_and_doubles_nothing() -> None:
    rate = 2.0**-12
    with quick_cluster(2, 3) as cluster:
        run = begin(cluster, always_one, steps=800, optimizer=kit.GradientDescent(rate))
        pause = threading.Event()
        for turn in range(40):
            if run.done:
                break
            run.synchronous = bool(turn % 2)
            pause.wait(0.01)
        run.wait(60)

    assert len(run.trace.epochs) > 4
    work = run.trace.steps[run.trace.steps["examples"] > 0]
    assert np.array_equal(np.unique(work["step"]), np.arange(800))
    assert all(entry.agrees for entry in run.traffic)
    assert all(measured == formula for _, measured, formula in run.moved_once)
    for name, value in run.params.items():
        moved = np.float64(initial()[name]) - np.float64(value)
        np.testing.assert_allclose(moved, 800 * rate, rtol=1e-4)


def test_no_mini_batch_is_read_twice_by_a_worker() -> None:
    seen: dict[int, list[float]] = defaultdict(list)

    def step(params: Params, batch: Any) -> Any:
        seen[threading.get_ident()].append(float(batch[0][0]))
        return always_one(params, [])

    numbered = np.arange(4000, dtype=np.float64)
    held = threading.Event()

    def waits(params: Params, batch: Any) -> Any:
        assert held.wait(30)
        return step(params, batch)

    with quick_cluster(1, 2) as cluster:
        options: dict[str, Any] = {"steps": 40, "batch": 10, "cluster": cluster}
        run = kit.train(waits, initial(), (numbered,), **options)
        run.switch(synchronous=False, at=10)
        run.switch(synchronous=True, at=25)
        held.set()
        run.wait(30)

    assert len(seen) == 2
    assert all(len(set(rows)) == len(rows) for rows in seen.values())


def test_what_cannot_be_asynchronous_is_refused_with_the_reason() -> None:
    step = Held()
    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, step, topology="ring")
        assert step.reached.wait(30)
        with pytest.raises(InvalidArgumentError, match="not on 'ring'"):
            run.synchronous = False
        run.topology = "ps"  # a request: then the other one can be
        run.synchronous = False
        with pytest.raises(InvalidArgumentError, match="synchronous = True"):
            run.topology = "ring"
        with pytest.raises(InvalidArgumentError, match="'no'"):
            run.synchronous = "no"  # type: ignore[assignment]
        assert run.synchronous
        step.go.set()
        run.wait(30)

    assert not run.synchronous
    assert [name for name, _ in how(run)] == ["ring", "ps-async"]


@pytest.mark.slow
def test_a_request_at_a_later_step_that_cannot_be_by_then_is_abandoned() -> None:
    step = Held()
    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, step, steps=MANY)
        run.switch("ring", at=12)
        run.synchronous = False  # possible now, and in the way at step 12
        step.go.set()
        until(lambda: bool(run.refused))
        run.stop()
        run.wait(30)

    assert "not on 'ring'" in run.refused
    assert [name for name, _ in how(run)][-1] == "ps-async"
    assert run.step > 12


def test_the_request_is_seen_until_it_holds() -> None:
    step = Held()
    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, step)
        assert step.reached.wait(30)
        run.synchronous = False

        assert run.switching == "ps-async"
        assert run.requested["synchronous"] is False

        step.go.set()
        run.wait(30)

    assert run.switching == ""
    assert run.requested == {}


@pytest.mark.slow
def test_checkpoints_tell_the_pace_and_go_on_with_the_same_bits(tmp_path: Path) -> None:
    adam, where = kit.Adam(0.02), str(tmp_path)
    keeps = kit.Checkpoints(where, every_steps=10, keep=9)
    with quick_cluster(1, 1) as cluster:
        # What is written should be there before the next one is due.
        step = Held(Patient(cluster, 1, {10, 20, 30}))
        run = begin(cluster, step, steps=35, optimizer=adam, checkpoint=keeps)
        run.switch(synchronous=False, at=15)
        run.switch(synchronous=True, at=25)
        step.go.set()
        run.wait(30)
    folder = Folder(tmp_path)
    result = {n: folder.load_at(n)[0].manifest for n in folder.steps()}
    with quick_cluster(1, 2) as cluster:
        again = begin(
            cluster, steps=20, optimizer=adam, sync=False, checkpoint=keeps, restore=20
        )
        again.wait(30)

    assert sorted(result) == [10, 20, 30, 35]
    paces = [result[n].extra["synchronous"] for n in sorted(result)]
    assert paces == [True, False, True, True]
    assert same_bits(again.params, replayed(20, 1, adam))
    assert same_bits(run.params, replayed(35, 1, adam))


@pytest.mark.slow
def test_one_worker_alone_can_do_single_updates() -> None:
    step = Held()
    step.go.set()
    with quick_cluster(1, 1) as cluster:
        run = begin(cluster, step, sync=False, steps=MANY)
        run.pause()
        stood = standing(run)
        run.advance(2)
        went_to = standing(run, after=stood)
        run.stop()
        run.wait(30)

    assert went_to == stood + 2
    assert run.step == went_to


# -- each worker at its own pace -------------------------------------------------------


@pytest.mark.slow
def test_staleness_is_what_others_did_in_between_and_the_loss_falls() -> None:
    run = trained(1, 3, optimizer=kit.GradientDescent(0.02), sync=False, steps=300)

    # A worker pulls right after its push, so what came between its updates is stale.
    last = dict.fromkeys(run.job.workers, -1)
    in_between = []
    steps = run.trace.steps[run.trace.steps["examples"] > 0]
    for update in np.sort(steps, order="step"):
        in_between.append(update["step"] - last[update["task"]] - 1)
        last[update["task"]] = update["step"]
    losses = [record["loss"] for record in run.metrics]
    assert [record["staleness"] for record in run.metrics] == in_between
    assert max(in_between) >= 2  # all three toy.begin with the same parameters
    assert np.mean(losses[-30:]) < 0.1 * np.mean(losses[:10])


@pytest.mark.slow
@pytest.mark.parametrize("n_ps", [1, 2])
def test_pause_and_resume_lose_no_update(n_ps: int) -> None:
    with quick_cluster(n_ps, 3) as cluster:
        run = toy.begin(cluster, optimizer=kit.Adagrad(0.1), sync=False, steps=2000)
        for _ in range(3):
            run.pause()
            run.advance(50)
            run.resume()
        run.wait(30)

    steps = run.trace.steps
    updates = steps[steps["examples"] > 0]
    assert run.step == 2000
    assert sorted(updates["step"]) == list(range(2000))
    for kind in (TransferKind.PUSH, TransferKind.PULL):
        assert by_kind(run, kind) == 2000 * SIZE


# -- none too far ahead ----------------------------------------------------------------

STEPS = 60


def trained_by_three(step: Any, data: Any = DATA, **changes: Any) -> kit.Run:
    how: dict[str, Any] = {"optimizer": kit.GradientDescent(1e-4), "steps": STEPS}
    return toy.trained(1, 3, step, data=data, sync=False, **how, **changes)


def most_ahead(run: kit.Run) -> int:
    """Return how many updates more than the slowest any worker had made at any time."""
    updates = run.trace.steps[run.trace.steps["examples"] > 0]
    made = dict.fromkeys(run.job.workers, 0)
    ahead = 0
    for update in np.sort(updates, order="step"):
        made[int(update["task"])] += 1
        ahead = max(ahead, max(made.values()) - min(made.values()))
    return ahead


def slow_third(params: Any, batch: Any) -> Any:
    if X[-1, 0] in batch[0][:, 0]:  # the one mini-batch's last rows
        threading.Event().wait(0.02)
    return fit(params, batch)


@pytest.mark.slow
@for_each("bound", [0, 1, 4])
def test_nobody_is_further_ahead_than_the_bound_and_one(bound: int) -> None:
    run = trained_by_three(slow_third, [DATA], staleness=bound)

    steps = run.trace.steps
    updates = steps[steps["examples"] > 0]
    assert sorted(updates["step"]) == list(range(STEPS))
    assert most_ahead(run) == bound + 1


@pytest.mark.slow
def test_without_a_bound_a_slow_worker_is_left_behind() -> None:
    assert most_ahead(trained_by_three(slow_third, [DATA])) > 5


@pytest.mark.slow
def test_staleness_is_counted_from_what_a_worker_was_sent() -> None:
    run = trained_by_three(fit, staleness=1)

    # No more can come between a pull and a push than what two others may be ahead and
    # behind: each makes bound + 1 updates more, from as much behind, and one.
    late = [record["staleness"] for record in run.metrics]
    assert max(late) <= 2 * (2 * (1 + 1))
    assert run.step == STEPS


@pytest.mark.slow
def test_pauses_and_stops_free_those_that_wait() -> None:
    with quick_cluster(1, 3) as cluster:
        run = kit.train(
            *(slow_third, initial(), [DATA]),
            optimizer=kit.GradientDescent(1e-4),
            sync=False,
            staleness=0,
            steps=400,
            cluster=cluster,
        )
        for _ in range(3):
            run.pause()
            run.advance(5)
            run.resume()
        run.stop()
        run.wait(30)

    updates = run.trace.steps[run.trace.steps["examples"] > 0]
    assert sorted(updates["step"]) == list(range(run.step))
