"""A member that is ended from outside makes no further step, though it never waits."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import kit
from kit.errors import ClusterBusy
from tests.training.toy import BATCH, DATA, Params, fit, initial, quick_cluster

ALONE: list[dict[str, Any]] = [
    {"topology": "ring"},
    {"topology": "ps", "sync": False},
    {"topology": "ps", "aggregate": 1},
]


@pytest.mark.parametrize("how", ALONE, ids=["ring", "asynchronous", "first-of-one"])
def test_worker_that_waits_for_nobody_ends_before_its_next_step(
    how: dict[str, Any],
) -> None:
    n_calls, has_run = 0, threading.Event()

    def step(params: Params, batch: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 5:
            has_run.wait(20)  # the steps may be ahead of the call that begins them
            member = cluster.servers[-1].trainings.find(run.job.run)
            member.abort(ClusterBusy("another training should begin here."))
        return fit(params, batch)

    with quick_cluster(int(how["topology"] == "ps"), 1) as cluster:
        given = {"steps": 100_000, "batch": BATCH, "cluster": cluster, **how}
        run = kit.train(step, initial(), DATA, **given)
        has_run.set()
        with pytest.raises(ClusterBusy, match="another training"):
            run.wait(20)

    assert n_calls == 5
