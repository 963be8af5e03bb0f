"""A training changes between synchronous and asynchronous steps while it goes on."""

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
from tests.training.paced import Held, always_one, begin, how, standing
from tests.training.saved import Patient
from tests.training.toy import Params, initial, quick_cluster, replayed, same_bits

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
        run = begin(
            cluster, always_one, steps=1500, optimizer=kit.GradientDescent(rate)
        )
        pause = threading.Event()
        for turn in range(40):
            if run.done:
                break
            run.synchronous = bool(turn % 2)
            pause.wait(0.01)
        run.wait(60)

    assert len(run.trace.epochs) > 4
    work = run.trace.steps[run.trace.steps["examples"] > 0]
    assert np.array_equal(np.unique(work["step"]), np.arange(1500))
    assert all(entry.agrees for entry in run.traffic)
    assert all(measured == formula for _, measured, formula in run.moved_once)
    for name, value in run.params.items():
        moved = np.float64(initial()[name]) - np.float64(value)
        np.testing.assert_allclose(moved, 1500 * rate, rtol=1e-4)


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
