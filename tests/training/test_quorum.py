"""The account of the first R of N gradients, without a server or a worker."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit
from kit.errors import InternalError
from kit.exchange.plan import chain
from kit.training.features.asynchronous.served_steps import Fate
from kit.training.features.backup_workers.policy import Quorum, QuorumUpdate, order_of

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


def replicated(arrivals: Sequence[tuple[int, int]], n: int, needed: int) -> list[int]:
    quorum, seen = Quorum(range(n), needed, 0, END), []
    for worker, step in arrivals:
        fate = quorum.arrive(worker, step)
        if fate is Fate.FILLS:
            seen += quorum.counted
            quorum.complete()
    return seen


def test_servers_that_are_told_the_same_order_make_the_same_steps() -> None:
    order = [(2, 0), (0, 0), (1, 0), (1, 1), (2, 1), (0, 1)]

    assert replicated(order, 3, 2) == replicated(list(order), 3, 2) == [2, 0, 1, 2]


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
