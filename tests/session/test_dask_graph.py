"""A tensor is a collection of dask's: computed by one run of a session."""

from __future__ import annotations

import pickle
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from dask.typing import DaskCollection

import kit
from kit import tf1 as tf
from kit.errors import FailedPreconditionError
from kit.session.client import dask_graph
from kit.testing.cluster import local_cluster

compute: Any = dask.compute  # type: ignore[attr-defined]  # dask's own gap


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_graph, "find_cluster", None)


def counter() -> Any:
    """Two tensors that show how often a variable was counted up for them."""
    count = kit.Variable(np.float64(0), name="count")
    up = count.assign_add(np.float64(1))
    return up * 1.0, up * 10.0


def test_tensors_and_variables_are_collections_of_dask() -> None:
    for item in (kit.constant([1.0]), kit.Variable([1.0])):
        assert isinstance(item, DaskCollection)
        assert dask.is_dask_collection(item)


@pytest.mark.usefixtures("no_cluster")
def test_tensors_and_arrays_come_back_in_the_order_in_which_they_were_asked_for() -> (
    None
):
    sums = [da.arange(n, chunks=2).sum() for n in (3, 5)]
    tensors = [kit.constant(7.0), kit.constant(8.0)]

    assert compute(tensors[0], sums[0], tensors[1], sums[1]) == (7, 3, 8, 10)
    assert compute(sums[1], tensors[1], sums[0], tensors[0]) == (10, 8, 3, 7)
    (inside,) = compute({"a": [tensors[0] * 2.0], "b": (3, tensors[1])})
    assert inside == {"a": [14.0], "b": (3, 8.0)}


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_tensors_of_one_compute_share_one_run_of_the_default_session(
    scheduler: str,
) -> None:
    first, second = counter()
    with kit.Session() as session:
        session.run(kit.initialize_all())

        assert compute(first, second, scheduler=scheduler) == (1.0, 10.0)
        assert compute(first, second, scheduler=scheduler) == (2.0, 20.0)


def test_default_session_of_tf1_computes_its_tensors() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        weights = tf.Variable([1.0, 2.0])
        session.run(tf.global_variables_initializer())

        assert compute(weights * 3.0)[0].tolist() == [3.0, 6.0]
        assert weights.compute().tolist() == [1.0, 2.0]


def test_without_optimization_each_tensor_is_a_run() -> None:
    first, second = counter()
    with kit.Session() as session:
        session.run(kit.initialize_all())

        result = compute(first, second, optimize_graph=False, scheduler="sync")

        assert sorted([result[0], result[1] / 10]) == [1.0, 2.0]


@pytest.mark.usefixtures("no_cluster")
def test_variable_without_session_or_cluster_is_refused_by_name() -> None:
    doubled = kit.Variable([1.0], name="weights") * 2.0

    with pytest.raises(FailedPreconditionError, match="weights"):
        compute(doubled)
    with pytest.raises(FailedPreconditionError, match="weights"):
        doubled.compute()


def test_running_cluster_is_used_where_there_is_no_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with kit.device("/job:ps/task:0"):
        weights = kit.Variable([1.0, 2.0], name="weights")
    with local_cluster(1, 1) as cluster:
        monkeypatch.setattr(dask_graph, "find_cluster", lambda: cluster.servers[1])
        with kit.Session(cluster.servers[1]) as session:
            session.run(kit.initialize_all())

        assert weights.compute().tolist() == [1.0, 2.0]
        assert compute(weights * 2.0)[0].tolist() == [2.0, 4.0]


def test_compute_takes_feeds_and_options_and_delayed_functions_take_tensors() -> None:
    x = kit.placeholder("float32", (None,))
    delayed: Any = dask.delayed(lambda value: value.sum() + 1)  # type: ignore[attr-defined]

    with kit.Session():
        assert (x * 2.0).compute({x: [1.0, 2.0]}).tolist() == [2.0, 4.0]
        assert kit.constant(3.0).compute(scheduler="threads") == 3.0
        assert delayed(kit.constant([1.0, 2.0])).compute() == 4.0


@pytest.mark.parametrize("by_method", [True, False])
def test_persisted_tensor_keeps_its_value_when_the_variable_changes(
    by_method: bool,
) -> None:
    weights = kit.Variable([1.0], name="weights")
    change = weights.assign([5.0])
    with kit.Session() as session:
        session.run(kit.initialize_all())

        kept = weights.persist() if by_method else dask.persist(weights)[0]  # type: ignore[attr-defined, no-untyped-call]
        session.run(change)

        assert session.run(weights).tolist() == [5.0]
        assert session.run(kept).tolist() == [1.0]
        assert kept.dtype == weights.dtype


def test_every_op_is_a_node_below_the_run() -> None:
    a, b = kit.constant([1.0], name="a"), kit.constant([2.0], name="b")
    kit.constant([3.0], name="unused")
    total: Any = np.add(a, b)

    tasks = total.__dask_graph__()

    names = {key.rpartition("-op-")[0]: key for key in tasks if "-op-" in key}
    assert names.keys() == {"a", "b", total.op.name}
    assert set(tasks[names[total.op.name]][1:]) == {names["a"], names["b"]}
    assert tasks[names["a"]][0].__name__ == "Const"
    assert tasks[total.__dask_keys__()[0]][1:] == (names[total.op.name],)


def test_equal_names_in_two_graphs_have_different_keys(graph: kit.Graph) -> None:
    here = kit.constant(1.0, name="x")
    with kit.Graph().as_default():
        there = kit.constant(1.0, name="x")

    assert here.__dask_keys__() == here.__dask_keys__()
    assert here.__dask_keys__() != there.__dask_keys__()


def test_run_that_is_sent_to_another_process_says_why_it_computes_nothing() -> None:
    tensor = kit.constant(1.0, name="loss")
    task = tensor.__dask_graph__()[tensor.__dask_keys__()[0]][0]

    arrived = pickle.loads(pickle.dumps(task))

    with pytest.raises(FailedPreconditionError, match=r"loss:0.*scheduler='threads'"):
        arrived()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of distributed's own
@pytest.mark.lasting("descriptor", "thread")  # dask's pools end with the process
def test_workers_of_distributed_refuse_and_the_threads_of_this_process_compute() -> (
    None
):
    from distributed import Client

    weights = kit.Variable([1.0], name="weights")
    total = da.arange(4, chunks=2).sum()
    with (
        Client(  # type: ignore[no-untyped-call]
            n_workers=1, processes=False, dashboard_address="127.0.0.1:0"
        ),
        kit.Session() as session,
    ):
        session.run(kit.initialize_all())

        assert weights.compute().tolist() == [1.0]
        with pytest.raises(FailedPreconditionError, match="none of its variables"):
            compute(weights, total)
        assert compute(weights, total, scheduler="threads") == (np.array([1.0]), 6)
