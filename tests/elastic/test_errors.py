"""The user's own errors end an elastic training as they end any other."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import DeadlineExceededError, InternalError, KitError, LinkLost
from kit.server.elastic.training import ElasticTraining
from kit.settings import Settings
from kit.task import Task
from kit.testing.cluster import local_cluster
from kit.testing.processes import ProcessCluster
from kit.training.core.questions import OverLinks
from kit.wire.rpc import Caller
from tests.elastic.scene import OTHER, awaits_its_end, kill, train
from tests.training.toy import DATA, X, Y, fit, initial

pytestmark = [pytest.mark.slow, pytest.mark.lasting("process", "descriptor")]
PROCESSES = {"ps": 0, "worker": 3}


class Fails:
    """A step function that fails in a step of one worker's own data."""

    def __init__(self, error: type[Exception] | None) -> None:
        """Give a loss of NaN if there is no error to raise."""
        self._error = error

    def __call__(self, params: Any, batch: Any, rng: Any) -> Any:
        time.sleep(0.002)
        x, y, step = batch
        loss, gradients = fit(params, (x, y))
        if step[0] == 90:
            if self._error is not None:
                raise self._error("as was to be expected")
            gradients["b"] = gradients["b"] * np.nan
        return loss, gradients


def batches() -> Any:
    for step in range(120):
        yield X[:9], Y[:9], np.full(9, step)


@pytest.mark.parametrize("error", [ValueError, None])
def test_an_error_of_a_step_ends_it(
    error: type[Exception] | None, cluster: ProcessCluster
) -> None:
    def end(where: Any, victim: Task | None = None, **more: Any) -> Any:
        options: dict[str, Any] = {"steps": 120, "topology": "ring", "batch": 9} | more
        with awaits_its_end(victim, 90):
            run = kit.train(Fails(error), initial(), batches, cluster=where, **options)
        if victim is not None:
            kill(cluster, run, victim, 30)
        with pytest.raises(KitError, match="step 90"):
            run.wait(20)
        return run

    with local_cluster(ps=0, worker=3) as undisturbed:
        plain, elastic = (end(undisturbed, elastic=flag) for flag in (False, True))
    run = end(cluster, OTHER, elastic=True)

    assert (len(elastic.losses), len(run.losses)) == (0, 1)
    assert type(run.error) is type(elastic.error) is type(plain.error)
    assert elastic.error.step == plain.error.step == 90


class Refuses(kit.hooks.SessionRunHook):
    """A hook that raises."""

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_context.session.run("global_step") == 50:
            raise ValueError("enough")


def test_an_error_of_a_hook_ends_it() -> None:
    with local_cluster(ps=0, worker=3) as cluster:
        run = train(cluster, hooks=[Refuses()])
        with pytest.raises(kit.errors.StepFailed, match="enough at step"):
            run.wait(20)
    assert run.losses == ()


def test_a_fault_of_our_own_on_the_way_to_a_generation_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a fault of our own")

    monkeypatch.setattr(ElasticTraining, "claim", broken)
    with local_cluster(ps=0, worker=2) as cluster:
        options: dict[str, Any] = {"steps": 10**6, "batch": 9, "topology": "ring"}
        run = kit.train(fit, initial(), DATA, elastic=True, cluster=cluster, **options)
        cluster.servers[1].stop()

        with pytest.raises(InternalError, match="RuntimeError: a fault of our own"):
            run.wait(20)


def test_a_coordinator_that_cannot_be_dialled_in_time_is_lost() -> None:
    # Of another error the training would end on this side of a line that is cut.
    def dial(_: float) -> Caller:
        raise DeadlineExceededError("worker:0 did not come up in time.")

    client = OverLinks("ab" * 16, 1, dial, Settings())

    with pytest.raises(LinkLost, match="did not come up"):
        client.arrive(1, 8)
