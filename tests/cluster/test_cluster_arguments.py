from __future__ import annotations

import os
from typing import Any

import pytest

from kit.cluster import Cluster, current
from kit.errors import FailedPreconditionError, InvalidArgumentError
from tests.cases import for_each


@for_each(
    ("arguments", "text"),
    [
        ({"ps": -1}, "ps=-1"),
        ({"worker": 0}, "no worker"),
        ({"worker": "3"}, "worker='3'"),
        ({"jobs": {"worker": 2}}, "worker"),
        ({"lease_s": 0.0}, r"lease_s=0\.0"),
        ({"start_deadline_s": float("nan")}, "start_deadline_s=nan"),
        ({"lease_s": "15"}, "lease_s='15'"),
        ({"jobs": ["chief"]}, r"jobs=\['chief'\]: .* jobs=\{'chief': 1\}"),
        ({"threads": 0}, "threads=0"),
        ({"threads": "2"}, "threads='2'"),
        ({"gpus": "all"}, "gpus='all'"),
        ({"gpus": -1}, "gpus=-1"),
        ({"gpus": True}, "gpus=True"),
        ({"insecure": "no"}, "insecure .*'no'"),
        ({"transport": "pigeon"}, "pigeon"),
    ],
)
def test_impossible_arguments_are_refused_with_the_value(
    arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        Cluster(**arguments)


def test_tasks_are_in_the_order_of_the_jobs() -> None:
    cluster = Cluster(ps=1, worker=2, jobs={"chief": 1})

    names = [task.short for task in cluster.tasks]

    assert names == ["ps:0", "worker:0", "worker:1", "chief:0"]
    assert repr(cluster).startswith("<Cluster new: ps=1 worker=2 chief=1, ")


def test_without_a_cluster_current_says_how_to_get_one() -> None:
    with pytest.raises(FailedPreconditionError, match=r"kit\.Cluster\(ps=1"):
        current()


def test_a_cluster_that_is_not_started_says_how_to_start_it() -> None:
    with pytest.raises(FailedPreconditionError, match=r"Cluster\(ps=0, worker=2\)"):
        Cluster(ps=0, worker=2).call("worker", os.getpid)
