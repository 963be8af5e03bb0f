"""The benchmark of rehearsals carries them out, and judges them rightly."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import kit
from benchmarks.rank_group import RanksFailed
from benchmarks.rehearsal import Compared, Drawn, agrees, draw, measure
from kit.testing.processes import process_cluster


def test_choice_is_right_where_nothing_was_measured_to_be_quicker() -> None:
    found = [
        Compared("ring", 0.1, [1.0, 1.0, 1.0]),
        Compared("mesh", 0.2, [0.99, 0.99, 0.99]),
        Compared("ps", 0.3, [2.0, 2.0, 2.0]),
    ]

    assert agrees("ring", found)
    assert agrees("mesh", found)
    assert agrees("ps", found) is False
    assert agrees("ring", found[:1]) is None


def test_two_to_sixteen_tasks_with_two_workers_at_least_are_drawn() -> None:
    dice = random.Random(0)
    drawn = [draw(dice) for _ in range(200)]

    assert {one.ps + one.worker for one in drawn} == {2, 3, 4, 6, 8, 12, 16}
    assert min(one.worker for one in drawn) == 2
    assert {one.ps for one in drawn} == {0, 1, 2}


@pytest.mark.slow
def test_rehearsal_is_carried_out_and_one_of_other_bytes_is_noticed() -> None:
    case = Drawn(0, 2, 4000, "100mbit,5ms", 0.0)
    told = kit.rehearse(case.n_bytes, worker=2, link=case.link)
    with process_cluster(case.ps, case.worker) as cluster:
        found = measure(case, told, cluster)
        with pytest.raises(RanksFailed, match="were rehearsed"):
            measure(case, replace(told, n_bytes=1), cluster)

    assert (found.topology, found.predicted) == (told.topology, told.seconds)
    assert min(found.measured) > 0.005  # two messages follow on each other
