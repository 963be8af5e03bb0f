"""What cannot be trained is refused by `kit.train` itself, before any task begins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kit
import kit.hooks
from kit.errors import InvalidArgumentError, NotFinite
from kit.testing.cluster import LocalCluster
from tests.cases import for_each
from tests.training.toy import DATA, fit, initial, quick_cluster

INTS = {"w": np.zeros(3, np.int64)}
NAN = {"w": np.array([1.0, np.nan])}


@for_each(
    ("changes", "words"),
    [
        (
            {"topology": "rign"},
            ["'rign'", "hierarchical, mesh, ps, ring, ring-whole", "'ring'?"],
        ),
        ({"topology": None}, ["None", "ps, ring"]),
        ({"topology": ["ps"]}, ["['ps']"]),
        ({"optimizer": "adma"}, ["'adma'", "'adam'?"]),
        ({"optimizer": 3}, ["3 is not an optimizer", "kit.Adam"]),
        ({"optimizer": kit.Adam}, ["is the class Adam", "kit.Adam(0.001)"]),
        ({"local_steps": 2, "outer": kit.Momentum}, ["class Momentum"]),
        ({"hooks": [kit.hooks.SessionRunHook]}, ["class SessionRunHook"]),
        ({"hooks": kit.hooks.SessionRunHook()}, ["hooks=[...]"]),
        ({"placement": "greedi"}, ["'greedi'", "'greedy'?"]),
        ({"link": "1gbyte"}, ["'1gbyte'", "'1gbit'"]),
        ({"link": 5}, ["link is 5", "'1gbit'"]),
        ({"batch": 1}, ["batch of 1", "2 workers"]),
        ({"batch": 2.5}, ["batch is 2.5", "whole number"]),
        ({"steps": -1}, ["steps is -1"]),
        ({"steps": "many"}, ["steps is 'many'"]),
        ({"seed": -1}, ["seed is -1"]),
        ({"seed": 2**64}, ["2**64 - 1"]),
        ({"step": 3}, ["step is int", "function"]),
        ({"params": {}}, ["params is empty"]),
        ({"params": [np.zeros(3)]}, ["params is list", "dict"]),
        ({"params": {1: np.zeros(3)}}, ["called 1", "texts"]),
        ({"params": {"w": [1.0]}}, ["'w' is list", "float32"]),
        ({"params": INTS}, ["'w' is int64", ".astype(np.float32)"]),
        ({"sync": False, "topology": "ring"}, ["'ring'", "sync=True"]),
    ],
)
def test_argument_that_cannot_be_meant_is_named(
    cluster: LocalCluster, changes: dict[str, Any], words: list[str]
) -> None:
    given: dict[str, Any] = {
        "step": fit,
        "params": initial(),
        "data": DATA,
        "batch": 10,
    } | changes

    with pytest.raises(InvalidArgumentError) as caught:
        kit.train(**given, cluster=cluster)

    assert all(word in str(caught.value) for word in words), caught.value


def test_initial_value_that_is_not_finite_is_named(cluster: LocalCluster) -> None:
    with pytest.raises(NotFinite, match="initial value of parameter 'w'"):
        kit.train(fit, NAN, DATA, cluster=cluster)


def test_parameter_server_topology_needs_one() -> None:
    with (
        quick_cluster(ps=0) as cluster,
        pytest.raises(InvalidArgumentError, match="topology='ring'"),
    ):
        kit.train(fit, initial(), DATA, topology="ps", cluster=cluster)


def test_refused_training_leaves_the_cluster_free(cluster: LocalCluster) -> None:
    with pytest.raises(InvalidArgumentError):
        kit.train(fit, initial(), DATA, topology="rign", cluster=cluster)

    run = kit.train(fit, initial(), DATA, steps=2, batch=10, cluster=cluster)

    assert run.wait(10).step == 2


def test_whole_numbers_of_numpy_are_taken(cluster: LocalCluster) -> None:
    run = kit.train(
        fit,
        initial(),
        DATA,
        steps=np.int64(2),
        batch=np.int32(10),
        seed=np.uint8(3),
        cluster=cluster,
    )

    assert run.wait(10).step == 2


def test_params_may_come_from_a_function(cluster: LocalCluster) -> None:
    run = kit.train(fit, initial, DATA, steps=0, batch=10, cluster=cluster).wait(10)

    assert run.params.keys() == initial().keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "words"),
    [
        ((DATA[0], DATA[1][:7]), "(60, 3), (7,)"),
        (tuple(part[:9] for part in DATA), "10 is larger than all 9"),
        (None, "NoneType is not data"),
        ([(DATA[0][:1], DATA[1][:1])], "1 cannot be split over 2"),
    ],
    ids=["ragged", "few", "none", "narrow"],
)
def test_data_that_cannot_be_split_are_refused_by_a_worker(
    cluster: LocalCluster, data: Any, words: str
) -> None:
    run = kit.train(fit, initial(), data, steps=3, batch=10, cluster=cluster)

    with pytest.raises(InvalidArgumentError) as caught:
        run.wait(10)

    assert words in str(caught.value)
    assert str(caught.value.task).startswith("/job:worker/task:")
    assert str(caught.value.task) in str(caught.value)
