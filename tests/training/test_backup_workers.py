"""`kit.train(aggregate=R)`: each step is made of the first R gradients that come."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kit
from kit.errors import InternalError, InvalidArgumentError, StepFailed
from kit.exchange.plan import chain
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from kit.trace.traffic import Phase, TransferKind
from kit.training.features.asynchronous.served_steps import Fate
from kit.training.features.backup_workers.policy import Quorum, QuorumUpdate, order_of
from tests.training import toy
from tests.training.backups import Late, Marked, ranks, replayed
from tests.training.paced import settled, wait_for_step
from tests.training.toy import (
    by_kind,
    initial,
    quick_cluster,
    same_bits,
)

STEPS = 8
SIZE = sum(value.nbytes for value in initial().values())


def begin(cluster: LocalCluster, aggregate: int | None, **changes: Any) -> kit.Run:
    options: dict[str, Any] = {"steps": STEPS, "optimizer": kit.Adam(0.02)} | changes
    return toy.begin(cluster, aggregate=aggregate, **options)


def forced(
    cluster: LocalCluster,
    aggregate: int,
    late: Mapping[int, Collection[int]],
    **changes: Any,
) -> kit.Run:
    """Begin a training in which these workers are late in these steps."""
    options = {"optimizer": kit.Adam(0.02), "aggregate": aggregate} | changes
    return begin_late(cluster, Late(late), **options)


def begin_late(cluster: LocalCluster, step: Late, **changes: Any) -> kit.Run:
    options: dict[str, Any] = {"steps": STEPS, "aggregate": 2} | changes
    run = toy.begin(cluster, step, data=Marked(), **options)
    step.watch(cluster.servers[0].trainings, run)
    return run


@pytest.mark.slow
def test_each_step_is_made_of_those_that_came_first() -> None:
    late = {step: {step % 3} for step in range(STEPS)}  # also the coordinator

    with quick_cluster(2, 3) as cluster:
        run = forced(cluster, 2, late).wait(20)

    assert run.step == STEPS
    assert ranks(run) == [
        [rank for rank in range(3) if rank not in late[step]] for step in range(STEPS)
    ]
    assert [record["dropped"] for record in run.metrics] == [1] * STEPS
    assert same_bits(run.params, replayed(ranks(run), 3, kit.Adam(0.02)))


def test_late_worker_skips_to_the_newest_parameters_and_its_split_with_it() -> None:
    late = {step: {0, 2} if step < 5 else {1, 2} for step in range(STEPS)}

    with quick_cluster(1, 3) as cluster:
        run = forced(cluster, 1, late).wait(20)

    assert ranks(run) == [[1]] * 5 + [[0]] * 3
    assert same_bits(run.params, replayed(ranks(run), 3, kit.Adam(0.02)))
    rows = run.trace.steps
    for worker in run.job.workers:
        own = rows[rows["task"] == worker]
        took = np.diff(own["step"])
        assert (took >= 1).all()
        # Dropped: staleness says how many steps were done meanwhile.
        assert (
            own["staleness"][:-1] == np.where(own["examples"] > 0, 0, 1)[:-1] * [*took]
        ).all()


@pytest.mark.slow
def test_late_steps_are_not_computed_again() -> None:
    computed: list[tuple[int, int]] = []
    guard = threading.Lock()

    class Counting(Late):
        def __call__(self, params: Any, batch: Any) -> Any:
            with guard:
                computed.append((int(batch[0][0]), int(batch[0][1])))
            return super().__call__(params, batch)

    step = Counting({number: {2} for number in range(STEPS)})
    with quick_cluster(1, 3) as cluster:
        begin_late(cluster, step).wait(20)

    assert len(computed) == len(set(computed))
    assert {step for worker, step in computed if worker == 0} == set(range(STEPS))


@pytest.mark.slow
def test_free_arrivals_have_the_bits_of_their_replay_and_the_bytes_of_the_formula() -> (
    None
):
    n, aggregate = 5, 3
    with quick_cluster(2, n) as cluster:
        run = begin(cluster, aggregate, steps=25).wait(20)

    made_of, metrics = ranks(run), run.metrics
    dropped = sum(record["dropped"] for record in metrics)
    assert [record["step"] for record in metrics] == list(range(25))
    assert {len(item) for item in made_of} == {aggregate}
    assert same_bits(run.params, replayed(made_of, n, kit.Adam(0.02)))
    assert by_kind(run, TransferKind.PUSH) == 25 * aggregate * SIZE
    assert by_kind(run, TransferKind.LATE) == dropped * SIZE
    assert by_kind(run, TransferKind.PULL) == (25 * aggregate + dropped) * SIZE
    assert all(entry.agrees for entry in run.traffic)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_order_of_arrivals_has_the_bits_of_its_replay(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 4))
    aggregate = data.draw(st.integers(1, n - 1))
    late = {
        step: data.draw(
            st.sets(st.integers(0, n - 1), min_size=n - aggregate).filter(
                lambda result: len(result) == n - aggregate
            )
        )
        for step in range(STEPS)
    }
    optimizer = data.draw(st.sampled_from([kit.Momentum(0.05), kit.Adagrad(0.2)]))

    with quick_cluster(data.draw(st.integers(1, 3)), n) as cluster:
        run = forced(cluster, aggregate, late, optimizer=optimizer).wait(20)

    made_of = [[r for r in range(n) if r not in late[s]] for s in range(STEPS)]
    assert ranks(run) == made_of
    assert same_bits(run.params, replayed(made_of, n, optimizer))


def test_each_push_ends_a_wait_of_its_server() -> None:
    run = toy.trained(1, 3, aggregate=2, steps=20)

    # A wait is explained by what had arrived when it was over: one that ends before its
    # message counts as the server's own delay, and hides who computes for so long.
    trace = run.trace
    server = trace.names.index("ps:0")
    mine = trace.spans[trace.spans["task"] == server]
    waits = mine[mine["phase"] == Phase.WAIT]
    pushes = trace.transfers[trace.transfers["destination"] == server]
    assert len(pushes) >= 40
    for end in pushes["end"]:
        assert ((waits["start"] <= end) & (end <= waits["end"])).any()


@pytest.mark.slow
def test_pauses_and_refused_switches_lose_no_step() -> None:
    late = {step: {2} for step in range(10_000)}
    with quick_cluster(2, 3) as cluster:
        run = forced(cluster, 2, late, steps=10_000)
        until(lambda: run.step > 0 or run.done)
        with pytest.raises(InvalidArgumentError, match="only the servers of topology"):
            run.topology = "ring"
        with pytest.raises(InvalidArgumentError, match="first 2 of 3"):
            run.switch("mesh", at=5_000)
        run.pause()
        paused_at = settled(run)
        assert run.state == "paused"
        run.advance(3)
        wait_for_step(run, paused_at + 3)
        before = replayed([[0, 1]] * run.step, 3, kit.Adam(0.02))
        assert same_bits(run.params, before)
        run.link = "1gbit"
        run.advance(2)
        wait_for_step(run, paused_at + 5)
        run.stop()
        run.wait(20)

    assert run.step == paused_at + 5
    assert same_bits(run.params, replayed(ranks(run), 3, kit.Adam(0.02)))
    epochs = [(epoch.topology, epoch.link) for epoch in run.trace.epochs]
    assert epochs == [("ps", ""), ("ps", "1gbit")]
    assert all(entry.agrees for entry in run.traffic)


@pytest.mark.slow
def test_mistake_in_a_backup_worker_ends_the_training_as_any_other() -> None:
    class Stumbling(Late):
        def __call__(self, params: Any, batch: Any) -> Any:
            result = super().__call__(params, batch)
            return result if batch[0][0] < 2 else 1 // 0

    step = Stumbling({number: {2} for number in range(100_000)})
    with quick_cluster(1, 3) as cluster:
        run = begin_late(cluster, step, steps=100_000)
        with pytest.raises(StepFailed, match=r"worker/task:2.*ZeroDivisionError"):
            run.wait(20)


# -- the account of the first gradients ------------------------------------------------

END = 5


def test_step_is_full_with_the_first_ones_and_the_next_one_is_late() -> None:
    quorum = Quorum([0, 1, 2], needed=2, step=0, end=END)

    fates = [quorum.arrive(2, 0), quorum.arrive(0, 0)]
    made_of = list(quorum.counted)
    quorum.complete()
    fates.append(quorum.arrive(1, 0))

    assert fates == [Fate.COUNTS, Fate.FILLS, Fate.LATE]
    assert made_of == [2, 0]
    assert (quorum.step, quorum.counted) == (1, [])
    assert quorum.awaited == {0, 1, 2}


def test_worker_that_counts_is_not_awaited_until_the_step_is_full() -> None:
    quorum = Quorum([0, 1], needed=2, step=0, end=END)

    quorum.arrive(1, 0)

    assert quorum.awaited == {0}
    with pytest.raises(InternalError, match="member 1 sent a gradient of step 0"):
        quorum.arrive(1, 0)


def test_gradient_of_a_step_to_come_is_refused() -> None:
    quorum = Quorum([0, 1], needed=1, step=3, end=END)

    with pytest.raises(InternalError, match="of step 4 in step 3"):
        quorum.arrive(0, 4)


def test_boundary_asked_for_in_time_comes_after_the_step() -> None:
    quorum = Quorum([0, 1, 2], needed=2, step=0, end=END)
    quorum.arrive(0, 0, halts=True)
    quorum.arrive(1, 0)
    assert not quorum.is_ending

    quorum.complete()

    assert quorum.is_ending
    assert quorum.awaited == {2}
    assert not quorum.is_over
    assert quorum.arrive(2, 0) is Fate.LATE
    assert quorum.is_over


def test_boundary_asked_for_too_late_comes_after_the_step_under_way() -> None:
    quorum = Quorum([0, 1, 2], needed=2, step=0, end=END)
    for worker in (1, 2):
        quorum.arrive(worker, 0)
    quorum.complete()
    quorum.arrive(1, 1)

    assert quorum.arrive(0, 0, halts=True) is Fate.LATE

    assert not quorum.is_ending
    assert quorum.end == 2
    assert quorum.arrive(0, 1) is Fate.FILLS


def test_lost_worker_is_not_waited_for_and_what_it_sent_counts() -> None:
    quorum = Quorum([0, 1, 2], needed=2, step=END - 1, end=END)
    quorum.arrive(2, END - 1)

    quorum.lose(2)
    assert quorum.arrive(0, END - 1) is Fate.FILLS
    assert quorum.counted == [2, 0]
    quorum.complete()
    assert quorum.arrive(1, END - 1) is Fate.LATE

    assert quorum.is_over


def test_two_left_of_three_are_enough_for_two_and_one_is_not() -> None:
    quorum = Quorum([0, 1, 2], needed=2, step=0, end=END)

    quorum.lose(0)
    assert not quorum.is_too_small
    quorum.lose(1)
    assert quorum.is_too_small


def test_at_the_end_nobody_is_needed() -> None:
    quorum = Quorum([0, 1], needed=2, step=END, end=END)

    quorum.lose(0)
    quorum.lose(1)

    assert not quorum.is_too_small
    assert quorum.is_over


@given(n=st.integers(1, 6), data=st.data(), halt_at=st.none() | st.integers(0, END))
def test_any_order_of_arrivals_makes_every_step_of_r_different_workers(
    n: int, data: st.DataObject, halt_at: int | None
) -> None:
    needed = data.draw(st.integers(1, n))
    quorum = Quorum(range(n), needed, step=0, end=END)
    at = dict.fromkeys(range(n), 0)  # the step that each worker computes
    made: list[list[int]] = []
    answers = dict.fromkeys(range(n), 0)

    while not quorum.is_over:
        worker = data.draw(st.sampled_from(sorted(quorum.awaited)))
        fate = quorum.arrive(worker, at[worker], halts=at[worker] == halt_at)
        answered = [worker] if fate is Fate.LATE else []
        if fate is Fate.FILLS:
            answered = list(quorum.counted)
            made.append(answered)
            quorum.complete()
        for item in answered:
            at[item], answers[item] = quorum.step, answers[item] + 1

    assert len(made) == quorum.step <= END
    assert halt_at is not None or quorum.step == END
    assert all(len(set(each)) == needed for each in made)
    assert set(at.values()) == {quorum.step}  # all stand before the same step


@given(st.integers(1, 6), st.data())
def test_order_of_addition_is_that_of_all_without_the_others(
    n: int, data: st.DataObject
) -> None:
    chunk = data.draw(st.integers(0, n - 1))
    counted = data.draw(st.sets(st.integers(0, n - 1), min_size=1))

    order = order_of(chunk, n, counted)

    assert set(order) == counted
    places = [chain(chunk, n).index(rank) for rank in order]
    assert places == sorted(places)


@pytest.mark.parametrize("counted", [{0}, {1, 2}, {0, 2}, {0, 1, 2}])
def test_mean_weighs_each_gradient_by_its_examples(counted: set[int]) -> None:
    examples, own = [4, 3, 3], [np.array([1.0]), np.array([2.0]), np.array([5.0])]
    update = QuorumUpdate(kit.GradientDescent(1.0), batch=10, n_workers=3)
    weighted = [3 * examples[rank] / 10 * own[rank] for rank in counted]

    update.weigh(counted)
    now, out = np.zeros(1), np.empty(1)
    update(now, np.sum(weighted, axis=0), (), out, 0)

    wanted = sum(examples[r] * own[r] for r in counted)
    np.testing.assert_allclose(-out, wanted / sum(examples[r] for r in counted))


def test_equal_splits_are_divided_by_r_to_the_bit() -> None:
    for n in range(1, 9):
        update = QuorumUpdate(kit.GradientDescent(), batch=n * 7, n_workers=n)
        for r in range(1, n + 1):
            update.weigh(range(r))
            assert update.factor == 1 / r
