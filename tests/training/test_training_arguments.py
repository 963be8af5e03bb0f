"""What cannot be trained is refused by `kit.train` itself, before any task begins."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import kit
import kit.hooks
from kit.errors import InvalidArgumentError, NotFinite
from kit.testing.cluster import LocalCluster
from tests.cases import for_each
from tests.training.toy import DATA, fit, initial

INTS = {"w": np.zeros(3, np.int64)}
NAN = {"w": np.array([1.0, np.nan])}


def grouped(pattern: str, **settings: Any) -> kit.Groups:
    return kit.Groups(kit.AdamW(0.01), {pattern: settings})


@for_each(
    ("changes", "words"),
    [
        (
            {"topology": "rign"},
            ["'rign'", "hierarchical, mesh, ps", "ring, ring-whole", "'ring'?"],
        ),
        ({"topology": None}, ["None", "ps, recursive-doubling, ring"]),
        ({"topology": ["ps"]}, ["['ps']"]),
        ({"optimizer": "adma"}, ["'adma'", "'adam'?"]),
        ({"optimizer": 3}, ["3 is not an optimizer", "kit.Adam"]),
        ({"optimizer": "SGD"}, ["'gradient_descent'", "kit.GradientDescent(...)"]),
        ({"optimizer": kit.Adam}, ["is the class Adam", "kit.Adam(0.001)"]),
        ({"local_steps": 2, "outer": kit.Momentum}, ["class Momentum"]),
        ({"optimizer": kit.Adam(-1)}, ["learning_rate is -1.0, which climbs"]),
        ({"optimizer": kit.Momentum(0.1, 9)}, ["momentum is 9.0", "at most 1"]),
        ({"optimizer": grouped("b", learning_rate=-1.0)}, ["which climbs"]),
        ({"optimizer": grouped("bias")}, ["no parameter matches 'bias'", "w, none"]),
        ({"device": "tpu"}, ["device is 'tpu'; give one of 'cpu', 'gpu'"]),
        ({"device": "gpu", "record": "x"}, ["record='x' is computed again on CPUs"]),
        ({"checkpoint": 7}, ["give the name of a folder"]),
        ({"restore": "step-4"}, ["there is no folder"]),
        ({"checkpoint": "folder", "restore": "newest"}, ["such as 'step-400'"]),
        ({"hooks": [kit.hooks.SessionRunHook]}, ["class SessionRunHook"]),
        ({"hooks": kit.hooks.SessionRunHook()}, ["hooks=[...]"]),
        ({"placement": "greedi"}, ["'greedi'", "'greedy'?"]),
        ({"link": "1gbyte"}, ["'1gbyte'", "'1gbit'"]),
        ({"link": 5}, ["link is 5", "'1gbit'"]),
        ({"link": "100 m bit"}, ["'100 m bit'", "write '100mbit'"]),
        ({"link": "5ms,10Gbps"}, ["'10Gbps'", "write '10gbit'"]),
        ({"batch": 1}, ["batch of 1", "2 workers"]),
        ({"batch": 2.5}, ["batch is 2.5", "whole number"]),
        ({"batch": "64"}, ["batch is '64'", "batch=64."]),
        ({"steps": 1e3}, ["steps is 1000.0", "steps=1000."]),
        ({"steps": True}, ["steps is True", "whole number"]),
        ({"local_steps": True}, ["local_steps is True"]),
        ({"local_steps": 0}, ["local_steps is 0; give how many"]),
        ({"local_steps": "4"}, ["local_steps is '4'; give a whole number"]),
        ({"outer": kit.Momentum(0.7)}, ["outer=", "says what is done with the moves"]),
        ({"local_steps": 2, "outer": 3}, ["3 is not an optimizer"]),
        ({"sync": "no"}, ["sync is 'no'", "sync=False"]),
        ({"sync": None}, ["sync is None", "sync=True"]),
        ({"aggregate": "all"}, ["aggregate is 'all'", "or None"]),
        ({"aggregate": 0}, ["aggregate is 0; give how many"]),
        ({"aggregate": 1.5}, ["aggregate is 1.5; give how many"]),
        ({"accumulate": 1.5}, ["accumulate is 1.5"]),
        ({"steps": -1}, ["steps is -1"]),
        ({"steps": "many"}, ["steps is 'many'"]),
        ({"seed": -1}, ["seed is -1"]),
        ({"seed": 2**64}, ["2**64 - 1"]),
        ({"step": 3}, ["step is int", "function"]),
        ({"params": {}}, ["params is empty"]),
        ({"params": [np.zeros(3)]}, ["params is list", "dict"]),
        ({"params": {1: np.zeros(3)}}, ["called 1", "texts"]),
        (
            {"params": {"w": [1.0]}},
            ["'w' is list", "np.array(params['w'], np.float32)"],
        ),
        ({"params": {"w": 1.0}}, ["'w' is float;", "np.array(params['w'], np.float"]),
        ({"params": {"a": {"w": NAN}}}, ["'a' is dict", "{'a/w': ...}"]),
        ({"params": INTS}, ["'w' is int64", ".astype(np.float32)"]),
        ({"sync": False, "topology": "ring"}, ["'ring'", "sync=True"]),
    ],
)
def test_argument_that_cannot_be_meant_is_named(
    cluster: LocalCluster, changes: dict[str, Any], words: list[str]
) -> None:
    options: dict[str, Any] = {
        "step": fit,
        "params": initial(),
        "data": DATA,
        "batch": 10,
    } | changes

    with pytest.raises(InvalidArgumentError) as caught:
        kit.train(**options, cluster=cluster)

    assert all(word in str(caught.value) for word in words), caught.value


class Model:
    def step(self, params: Any, batch: Any) -> Any:
        return fit(params, batch)

    def __call__(self, params: Any, batch: Any) -> Any:
        return fit(params, batch)

    def loss(self, batch: Any) -> float:
        return 0.0


def scaled(rate: float, params: Any, batch: Any) -> Any:
    return fit(params, batch)


@for_each(
    ("step", "words"),
    [
        (lambda params: 0, ["<lambda>(params)", "(params, batch)", "def step(params"]),
        (lambda params, x, y: 0, ["(params, x, y)", "'y'", "functools.partial("]),
        (lambda batch, params: 0, ["(batch, params)", "the parameters come first"]),
        (lambda params, batch, gradients: 0, ["def step(params, batch, grads)?"]),
        (lambda params, batch, *, rngs: 0, ["def step(params, batch, rng)?"]),
        (lambda params, batch, *, rate: 0, ["'rate'", "functools.partial("]),
        (lambda **named: 0, ["(**named)"]),
        (Model().loss, ["Model.loss(batch)"]),
        (Model.step, ["Model.step(self, params, batch)", "Model().step"]),
        (Model, ["step is the class Model", "Model()"]),
        (partial(scaled, rate=1.0), ["partial(*, rate=1.0, params, batch)"]),
        (partial(fit, initial(), DATA), ["partial()"]),
        (3, ["step is int", "function"]),
    ],
    ids=str,
)
def test_step_that_cannot_be_called_is_refused_before_anything_begins(
    step: Any, words: list[str]
) -> None:
    never: Any = object()  # no cluster is asked for anything

    with pytest.raises(InvalidArgumentError) as caught:
        kit.train(step, initial(), DATA, cluster=never)

    assert all(word in str(caught.value) for word in words), caught.value


@for_each(
    "step",
    [
        Model().step,
        Model(),
        partial(scaled, 1.0),
        lambda *args: fit(*args),
        lambda params, batch, rate=0.1: fit(params, batch),
        lambda p, b, /, **named: fit(p, b),
        lambda params, batch, *, rng, state: fit(params, batch),
        np.vectorize(fit),
        min,
    ],
    ids=str,
)
def test_whatever_takes_parameters_and_batch_may_be_a_step(step: Any) -> None:
    never: Any = object()

    with pytest.raises(InvalidArgumentError, match="cluster is <object"):
        kit.train(step, initial(), DATA, cluster=never)


@for_each("cluster", ["local", kit.Cluster])
def test_what_is_no_cluster_is_named(cluster: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        kit.train(fit, initial(), DATA, cluster=cluster)

    assert f"cluster is {cluster!r}" in str(caught.value)
    assert "kit.Cluster(ps=1, worker=3).start()" in str(caught.value)


def test_initial_value_that_is_not_finite_is_named(cluster: LocalCluster) -> None:
    with pytest.raises(NotFinite, match="initial value of parameter 'w'"):
        kit.train(fit, NAN, DATA, cluster=cluster)


@for_each(
    ("call", "words"),
    [
        (lambda run: run.wait("10"), ["timeout is '10'", "run.wait(10)"]),
        (lambda run: setattr(run, "topology", None), ["run.topology = 'ring'"]),
        (lambda run: setattr(run, "synchronous", "no"), ["'no'", "True or False"]),
    ],
    ids=str,
)
def test_wrong_value_that_a_run_is_given_is_named(
    cluster: LocalCluster, call: Callable[[kit.Run], Any], words: list[str]
) -> None:
    run = kit.train(fit, initial(), DATA, steps=0, batch=10, cluster=cluster).wait(10)

    with pytest.raises(InvalidArgumentError) as caught:
        call(run)

    assert all(word in str(caught.value) for word in words), caught.value


def test_whole_numbers_of_numpy_and_a_function_for_params_are_taken(
    cluster: LocalCluster,
) -> None:
    how: dict[str, Any] = {"steps": np.int64(2), "batch": np.int32(10)}

    run = kit.train(fit, initial, DATA, seed=np.uint8(3), cluster=cluster, **how)

    assert run.wait(10).step == 2
    assert run.params.keys() == initial().keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "words"),
    [
        ((DATA[0], DATA[1][:7]), "(60, 3), (7,)"),
        (None, "NoneType is not data"),
        ([(DATA[0][:1], DATA[1][:1])], "1 cannot be split over 2"),
    ],
    ids=["ragged", "none", "narrow"],
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
