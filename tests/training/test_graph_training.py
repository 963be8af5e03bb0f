"""`kit.train` with a loss that is a tensor: the workers compute it from the graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dask.array as da
import numpy as np
import pytest

import kit
from kit.graph.graph import Graph
from kit.graph.ops.math import random
from kit.graph.ops.state.source import placeholder
from kit.graph.variable import Variable, initialize_all
from kit.session.client.session import Session
from kit.testing.cluster import LocalCluster
from kit.training.features.graph_step.loss import load_variables
from kit.training.optimizers.rule import Rule
from tests.training.graph_models import (
    START,
    STEPS,
    Array,
    Model,
    X,
    Y,
    rows,
    train,
    trained,
)
from tests.training.toy import quick_cluster, same_bits


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.mark.parametrize("topology", ["ps", "ring", "mesh"])
def test_graph_trains_to_the_result_of_one_process(
    cluster: LocalCluster, model: Model, topology: str
) -> None:
    run = train(cluster, model, topology=topology)

    assert same_bits(run.params, trained())
    assert not same_bits(run.params, START)


def test_one_asynchronous_worker_trains_to_the_result_of_one_process(
    model: Model,
) -> None:
    with quick_cluster(1, 1) as cluster:
        run = train(cluster, model, sync=False)

    assert same_bits(run.params, trained())


@pytest.mark.slow
def test_gradients_in_several_buckets_give_the_same_bits(model: Model) -> None:
    with quick_cluster(1, 2, bucket_bytes=16) as cluster:
        run = train(cluster, model)

    assert len(run.job.layout.buckets) > 1
    assert same_bits(run.params, trained())


def test_places_in_the_graph_do_not_matter(cluster: LocalCluster) -> None:
    placed = Model()
    for op in placed.graph.ops:
        op.device = "/job:moon/task:7"

    assert same_bits(train(cluster, placed).params, trained())


@pytest.mark.slow
def test_gpu_that_is_not_there_is_named(cluster: LocalCluster, model: Model) -> None:
    model.loss.op.device = "/job:worker/device:GPU:5"

    with pytest.raises(kit.errors.PlacementError, match=r"'Mean'.*GPU:5"):
        train(cluster, model)


@pytest.mark.slow
def test_second_training_of_a_loss_adds_nothing_to_the_graph(
    cluster: LocalCluster, model: Model
) -> None:
    train(cluster, model, steps=1)
    version = model.graph.version
    model.graph.finalize()

    run = train(cluster, model)

    assert model.graph.version == version
    assert same_bits(run.params, trained())


@pytest.mark.slow
def test_rows_that_were_gathered_are_trained(cluster: LocalCluster) -> None:
    start = np.arange(8, dtype=np.float64).reshape(4, 2)
    with Graph().as_default():
        words = placeholder("int64", (None,))
        table = Variable(start, name="table")
        loss = np.take(table, words, axis=0).sum(axis=1).mean()

        run = kit.train(
            loss,
            {words: np.array([0, 2, 2, 2])},
            optimizer=kit.GradientDescent(1.0),
            steps=1,
            batch=4,
            cluster=cluster,
        ).wait(20)

    drop = np.array([[0.25], [0], [0.75], [0]])
    assert same_bits(run.params, {"table": start - drop})


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule", [kit.Adam(0.02), kit.Adagrad(0.2)], ids=["adam", "adagrad"]
)
def test_training_and_minimize_take_the_same_steps(rule: Rule, model: Model) -> None:
    with quick_cluster(0, 1) as cluster:
        run = train(cluster, model, optimizer=rule, topology="ring", steps=10)

    with model.graph.as_default(), Session() as session:
        op = rule.minimize(model.loss)
        session.run(initialize_all())
        for step in range(10):
            session.run(op, {model.x: X[rows(step)], model.y: Y[rows(step)]})
        result = session.run({"layer/w": model.w, "b": model.b})

    for name, value in run.params.items():
        np.testing.assert_allclose(result[name], value, rtol=1e-12)


@pytest.mark.slow
def test_data_may_be_dask_arrays(cluster: LocalCluster, model: Model) -> None:
    blocks: Any = da.from_array  # dask publishes no type of it
    data = {model.x: blocks(X, chunks=(4, 3)), model.y: blocks(Y, chunks=(4, 2))}

    assert train(cluster, model, data, steps=3).step == 3


@pytest.mark.slow
def test_data_may_be_mini_batches_for_all_placeholders(
    cluster: LocalCluster, model: Model
) -> None:
    def batches() -> Iterator[tuple[Array, Array]]:
        for step in range(STEPS):
            yield Y[rows(step)], X[rows(step)]

    run = train(cluster, model, {(model.y, model.x): batches})

    assert same_bits(run.params, trained())


@pytest.mark.slow
def test_data_of_another_dtype_are_cast(cluster: LocalCluster, model: Model) -> None:
    data = {model.x: X.astype(np.int8), model.y: Y.astype(np.float32)}

    assert same_bits(train(cluster, model, data).params, trained())


@pytest.mark.slow
def test_a_session_gives_the_values_to_begin_with(cluster: LocalCluster) -> None:
    model = Model({"layer/w": np.full((3, 2), 9.0), "b": np.zeros(2)})
    with model.graph.as_default(), Session() as session:
        session.run(initialize_all())
        load_variables(session, START)

        run = train(cluster, model, session=session)

    assert same_bits(run.params, trained())


@pytest.mark.slow
def test_trained_values_can_be_put_into_the_variables(
    cluster: LocalCluster, model: Model
) -> None:
    with model.graph.as_default(), Session() as session:
        run = train(cluster, model)
        load_variables(session, run.params)

        result = session.run({"layer/w": model.w, "b": model.b})
        loss = session.run(model.loss, model.data)

    assert same_bits(result, trained())
    error = X @ result["layer/w"] + result["b"] - Y
    assert loss == pytest.approx(float((error**2).sum(axis=1).mean()))


def test_variables_that_begin_with_one_tensor_are_set_apart() -> None:
    with Graph().as_default(), Session() as session:
        zeros = random.uniform((2,))
        first, other = Variable(zeros, name="a"), Variable(zeros, name="b")

        load_variables(session, {"a": [1.0, 2.0], "b:0": [3.0, 4.0]})

        assert session.run(first).tolist() == [1.0, 2.0]
        assert session.run(other).tolist() == [3.0, 4.0]


def test_value_for_no_variable_sets_nothing(model: Model) -> None:
    with model.graph.as_default(), Session() as session:
        session.run(initialize_all())

        with pytest.raises(kit.errors.NotFoundError, match=r"'c'.*layer/w, b"):
            load_variables(session, {"b": np.zeros(2), "c": np.zeros(2)})
        assert session.run(model.b).tolist() == [1.0, -1.0]
