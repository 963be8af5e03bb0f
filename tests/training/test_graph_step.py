"""A compiled step: gradients one by one, and its way to another process."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from benchmarks import graph_step, mlp
from kit.cluster.cells import remote
from kit.graph.graph import Graph
from kit.graph.ops.state.function import py_function
from kit.graph.ops.state.source import placeholder
from kit.graph.variable import Variable
from kit.task import Task
from kit.training.features.graph_step.loss import work_of
from kit.training.features.graph_step.step import GraphStep
from tests.training.graph_models import Array, Params
from tests.training.toy import same_bits


def large() -> tuple[GraphStep, Params, tuple[Array, ...]]:
    """Return three layers, each of 256 KiB."""
    sizes, dice = (256, 256, 256, 256), np.random.default_rng(1)
    params: Params = {}
    with Graph().as_default():
        x = value = placeholder("float32", (None, sizes[0]))
        for layer, (rows, columns) in enumerate(pairwise(sizes)):
            start = dice.normal(0, 0.1, (rows, columns)).astype(np.float32)
            params[f"w{layer}"] = start
            value = np.tanh(value @ Variable(start, name=f"w{layer}"))
        data = dice.normal(0, 1, (8, sizes[0])).astype(np.float32)
        work = work_of((value * value).mean(), {x: data})
    assert isinstance(work.step, GraphStep)
    return work.step, params, (data,)


def test_gradients_are_handed_over_last_layers_first() -> None:
    step, params, batch = large()
    whole = step.for_worker(Task("worker", 0), 0, 0, in_parts=False)
    parts = step.for_worker(Task("worker", 0), 0, 0, in_parts=True)

    loss, wanted = whole(params, batch)
    handed = parts(params, batch)
    result, end = {}, None
    try:
        while True:
            name, gradient = next(handed)
            result[name] = gradient
    except StopIteration as stop:
        end = stop.value

    assert list(result) == ["w2", "w1", "w0"]
    assert same_bits(result, {name: wanted[name] for name in result})
    assert end == loss


def test_first_layers_gradient_is_computed_after_the_last_ones_was_taken() -> None:
    step, params, batch = large()
    _, wanted = step.for_worker(Task("worker", 0), 0, 0, in_parts=False)(params, batch)
    handed = step.for_worker(Task("worker", 0), 0, 0, in_parts=True)(params, batch)

    first = dict([next(handed)])
    params["w1"][...] = 0  # what comes back to the first layer comes through here
    rest = dict(handed)

    assert same_bits(first, {"w2": wanted["w2"]})
    assert wanted["w0"].any()
    assert not rest["w0"].any()


def far_step(step: GraphStep, params: Params, batch: Any) -> Any:
    return step.for_worker(Task("worker", 0), 0, 0, in_parts=False)(params, batch)


def test_step_travels_to_another_process_as_plain_data() -> None:
    step, params, batch = large()

    payload = remote.pack(far_step, (step, params, batch), {})
    loss, result = remote.unpack(remote.Perform()(payload), "far away")

    here, wanted = far_step(step, params, batch)
    assert (loss, same_bits(result, wanted)) == (here, True)
    # What a call says of the modules here is not the step's.
    n_bytes = len(remote.pack(far_step, (step,), {})) - len(
        remote.pack(far_step, (), {})
    )
    assert n_bytes < 20_000


def halved(x: Array) -> Array:
    return x / 2


def test_python_functions_travel_with_the_step() -> None:
    with Graph().as_default():
        x = placeholder("float64", (None,))
        w = Variable(np.float64(3.0), name="w")
        loss = (w * py_function(halved, [x], np.float64, (None,))).mean()
        work = work_of(loss, {x: np.zeros(8)})

    payload = remote.pack(far_step, (work.step, work.params, (np.ones(4),)), {})
    result = remote.unpack(remote.Perform()(payload), "far away")

    assert result == (1.5, {"w": 0.5})


TINY = (6, 5, 4, 3)


def test_a_step_from_a_graph_has_the_gradients_of_the_one_by_hand() -> None:
    params, (x, labels) = mlp.parameters(TINY), mlp.examples(TINY)
    for name in ("b0", "b1"):  # no unit stands at 0, where both slopes are right
        params[name] += np.float32(0.1)

    loss, wanted = mlp.step(params, (x, labels))
    other, result = graph_step.compiled(params)(params, (x, labels))

    assert other == pytest.approx(loss, rel=1e-6)
    for name, gradient in wanted.items():
        np.testing.assert_allclose(result[name], gradient, rtol=1e-4, atol=1e-7)


def test_the_benchmark_notices_a_wrong_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(mlp.SIZES, "small", TINY)
    right = graph_step.compiled

    def wrong(params: Any) -> Any:
        step = right(params)
        return lambda *args: (
            step(*args)[0],
            step({**params, "b1": params["b1"] + 1}, args[1])[1],
        )

    monkeypatch.setattr(graph_step, "compiled", wrong)

    with pytest.raises(AssertionError):
        graph_step.compare("small", rounds=1)
