"""Python functions of a graph on real engines: they travel, and so do their errors."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

import kit
from kit.errors import InvalidArgumentError
from kit.graph.graph import Graph
from kit.graph.ops.state.function import py_function
from kit.server.target import ClusterTarget
from kit.session.client.session import Session
from kit.task import Task

pytestmark = [
    *(pytest.mark.slow, pytest.mark.engines),
    pytest.mark.lasting("descriptor", "thread"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[kit.Cluster]:
    with kit.Cluster(ps=1, worker=1) as running:
        yield running


@pytest.fixture
def session(cluster: kit.Cluster) -> Iterator[Session]:
    target = ClusterTarget(lambda: cluster.directory, Task("worker", 0))
    with Graph().as_default(), Session(target) as session:
        yield session


def test_function_runs_in_the_process_of_its_task(
    cluster: kit.Cluster, session: Session
) -> None:
    factor = 3.0

    def scaled(x: Any) -> Any:
        return x * factor, os.getpid()

    x = kit.placeholder("float64", (None,))
    with kit.device("/job:ps/task:0"):
        product, pid = py_function(scaled, [x], ["float64", "int64"])
    with kit.device("/job:worker/task:0"):
        result = product + 1.0

    results = session.run([result, pid], {x: np.arange(3.0)})
    later = session.run(py_function(lambda: os.getpid(), [], "int64"))

    assert results[0].tolist() == [1, 4, 7]
    assert results[1] == cluster.call("ps:0", os.getpid)
    assert later == cluster.call("worker:0", os.getpid)


def test_errors_of_a_function_have_traceback_and_task_or_say_what_cannot_travel(
    session: Session,
) -> None:
    lock = threading.Lock()

    def unlucky() -> Any:
        raise ValueError("no luck on the engine")

    def locked() -> bool:
        return lock.locked()

    with kit.device("/job:ps/task:0"):
        bad = py_function(unlucky, [], "float32", name="dice")

    with pytest.raises(InvalidArgumentError, match="no luck on the engine") as caught:
        session.run(bad)
    unsent = py_function(locked, [], "bool")
    with pytest.raises(InvalidArgumentError, match=r"cannot travel .*'lock'"):
        session.run(unsent)

    assert caught.value.task == "/job:ps/task:0"
    assert "in unlucky" in str(caught.value.remote_traceback)


def test_array_of_dask_is_loaded_in_the_process_of_the_task(
    cluster: kit.Cluster,
) -> None:
    def load() -> Any:
        return np.array([os.getpid()])

    delayed: Any = dask.delayed  # type: ignore[attr-defined]  # dask's own gap
    array = da.from_delayed(delayed(load)(), (1,), dtype="int64")  # type: ignore[no-untyped-call]
    with Graph().as_default(), Session(cluster) as session:
        with kit.device("/job:ps/task:0"):
            x = kit.placeholder("int64", (None,))
            y = x + 0

        assert session.run(y, {x: array}).tolist() == [cluster.call("ps:0", os.getpid)]
