"""Values between a training's parameters and the variables of a graph."""

from __future__ import annotations

import numpy as np
import pytest

import kit
from kit.graph.graph import Graph
from kit.graph.ops.math import random
from kit.graph.variable import Variable, initialize_all
from kit.session.client.session import Session
from kit.testing.cluster import LocalCluster
from kit.training.features.graph_step.loss import load_variables
from tests.training.graph_models import START, Model, X, Y, train, trained
from tests.training.toy import same_bits


@pytest.fixture
def model() -> Model:
    return Model()


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
        first, other = Variable(zeros, name="one"), Variable(zeros, name="other")

        load_variables(session, {"one": [1.0, 2.0], "other:0": [3.0, 4.0]})

        assert session.run(first).tolist() == [1.0, 2.0]
        assert session.run(other).tolist() == [3.0, 4.0]


def test_value_for_no_variable_sets_nothing(model: Model) -> None:
    with model.graph.as_default(), Session() as session:
        session.run(initialize_all())

        with pytest.raises(kit.errors.NotFoundError, match=r"'c'.*layer/w, b"):
            load_variables(session, {"b": np.zeros(2), "c": np.zeros(2)})
        assert session.run(model.b).tolist() == [1.0, -1.0]
