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
    result = [
        Compared("ring", 0.1, [1.0, 1.0, 1.0]),
        Compared("mesh", 0.2, [0.99, 0.99, 0.99]),
        Compared("ps", 0.3, [2.0, 2.0, 2.0]),
    ]

    assert agrees("ring", result)
    assert agrees("mesh", result)
    assert agrees("ps", result) is False
    assert agrees("ring", result[:1]) is None


def test_two_to_sixteen_tasks_with_two_workers_at_least_are_drawn() -> None:
    dice = random.Random(0)
    drawn = [draw(dice) for _ in range(200)]

    assert {item.ps + item.worker for item in drawn} == {2, 3, 4, 6, 8, 12, 16}
    assert min(item.worker for item in drawn) == 2
    assert {item.ps for item in drawn} == {0, 1, 2}


@pytest.mark.slow
def test_rehearsal_is_carried_out_and_one_of_other_bytes_is_noticed() -> None:
    case = Drawn(0, 2, 4000, "100mbit,5ms", 0.0)
    reply = kit.rehearse(case.n_bytes, worker=2, link=case.link)
    with process_cluster(case.ps, case.worker) as cluster:
        result = measure(case, reply, cluster)
        with pytest.raises(RanksFailed, match="were rehearsed"):
            measure(case, replace(reply, n_bytes=1), cluster)

    assert (result.topology, result.predicted) == (reply.topology, reply.seconds)
    assert min(result.measured) > 0.005  # two messages follow on each other
