"""Sessions on a real cluster: engines of ipyparallel, reached by the cluster's key."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import numpy as np
import pytest

import kit
from kit.errors import AbortedError, PlacementError, UnavailableError
from kit.graph.graph import Graph
from kit.graph.variable import initialize_all
from kit.session.client.session import Session
from kit.task import Task
from tests.session.scene import PS, W0, W1, at, variable, works

pytestmark = [
    pytest.mark.slow,
    pytest.mark.engines,
    pytest.mark.timeout(120),
    pytest.mark.lasting("descriptor", "thread", "process"),
]


@pytest.fixture(scope="module")
def engines() -> Iterator[kit.Cluster]:
    with kit.Cluster(ps=1, worker=2) as cluster:
        yield cluster


def test_a_cluster_is_a_target_and_its_variables_live_on_its_tasks(
    engines: kit.Cluster,
) -> None:
    v = variable(PS, "v", np.arange(3))
    with at(W1):
        doubled = v * np.float32(2)
    with Session(engines) as session:
        session.run(initialize_all())
        assert session.run(doubled).tolist() == [0, 2, 4]
        (device, _), *_ = session.list_devices()
        assert device.task == Task("worker", 0)


def test_any_task_is_a_target_and_all_see_one_value(engines: kit.Cluster) -> None:
    v = variable(PS, "shared", 1)
    with Session(engines.target("worker:1")) as first, Session(engines) as other:
        first.run(v.initializer)
        other.run(v.assign_add(np.float32(1)))
        assert first.run(v) == 2.0
        assert works(first, W1, PS, W0)


def test_a_target_that_the_cluster_does_not_have_is_refused(
    engines: kit.Cluster,
) -> None:
    with pytest.raises(PlacementError, match="worker:7"):
        engines.target("worker:7")


@pytest.mark.lasting("descriptor", "thread", "process")
def test_an_engine_that_dies_is_named(engines: kit.Cluster) -> None:
    with Session(engines) as session:
        v = variable(PS, "lost", 1)
        session.run(v.initializer)
        (status,) = [
            output for output in engines.status if output.task == Task("ps", 0)
        ]
        assert status.pid is not None

        os.kill(status.pid, signal.SIGKILL)

        with pytest.raises((UnavailableError, AbortedError), match="/job:ps/task:0"):
            session.run(v)
        with Graph().as_default(), Session(engines, device_filters=[W1]) as other:
            assert works(other, W0, W1)
    engines.restart("ps:0")
