"""A member that is ended from outside makes no further step, though it never waits."""

from __future__ import annotations

import gc
import os
import threading
from typing import Any

import pytest

from kit.errors import ClusterBusy, PeerLost, StepFailed
from tests.training.toy import Params, begin, fit, quick_cluster

ALONE: list[dict[str, Any]] = [
    {"topology": "ring"},
    {"topology": "ps", "sync": False},
    {"topology": "ps", "aggregate": 1},
]


@pytest.mark.slow
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
        run = begin(cluster, step, steps=100_000, **how)
        has_run.set()
        with pytest.raises(ClusterBusy, match="another training"):
            run.wait(20)

    assert n_calls == 5


def test_what_ends_the_coordinators_member_from_outside_is_not_said_to_the_others() -> (
    None
):
    has_run = threading.Event()

    def step(params: Params, batch: Any) -> Any:
        has_run.wait(20)
        member = cluster.servers[0].trainings.find(run.job.run)
        member.abort(ClusterBusy("its task was stopped."))
        return fit(params, batch)

    with quick_cluster(0, 1) as cluster:
        run = begin(cluster, step, steps=9, topology="ring")
        has_run.set()
        with pytest.raises(ClusterBusy, match="was stopped"):
            run.wait(20)
        coordinator = cluster.servers[0].trainings.find(run.job.run).coordinator
        assert coordinator is not None
        assert coordinator.error is None


def shared_memory() -> list[str]:
    """Return the arenas that this process holds."""
    gc.collect()
    targets = [os.readlink(entry.path) for entry in os.scandir("/proc/self/fd")]  # noqa: PTH115
    return [target for target in targets if target.startswith("/memfd:kit-kit-")]


def test_report_of_a_loss_that_was_not_the_cause_holds_no_memory() -> None:
    has_run = threading.Event()

    def step(params: Params, batch: Any) -> Any:
        has_run.wait(20)
        try:
            raise PeerLost("it is gone.", task="/job:worker/task:1")
        except PeerLost as error:  # its frames know the parameters
            member = cluster.servers[0].trainings.find(run.job.run)
            assert member.coordinator is not None
            member.coordinator.fail(error, by=0)
        raise ValueError("the cause")

    with quick_cluster(0, 2) as cluster:
        run = begin(cluster, step, steps=9, topology="ring")
        has_run.set()
        with pytest.raises(StepFailed, match="ValueError: the cause"):
            run.wait(20)

    assert cluster.servers[0].trainings.find(run.job.run).is_over
    assert shared_memory() == []
