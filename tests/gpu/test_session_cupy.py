"""Graphs on a real GPU: the same values as on the CPU, and arrays that stay there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kit
from kit import nn, random
from kit.arrays import all_gpus
from kit.graph.gradients import dense
from kit.graph.graph import Graph
from kit.session.client.session import Session
from tests.cases import for_each
from tests.graph.cases.case import Case, all_cases, in_a_new_graph, listed

pytestmark = pytest.mark.gpu
GPU = "/device:GPU:0"


@pytest.fixture(autouse=True)
def graph() -> Iterator[Graph]:
    pytest.importorskip("cupy")
    if not all_gpus():
        pytest.skip("no GPU is here")
    with Graph().as_default() as graph:
        yield graph


def name_of(case: Case) -> str:
    return f"{case.op}-{'-'.join(str(list(array.shape)) for array in case.arrays)}"


@for_each("case", all_cases(), ids=name_of)
@in_a_new_graph()
def test_an_op_gives_the_same_on_a_gpu(case: Case) -> None:
    xs = [kit.placeholder(array.dtype, array.shape) for array in case.arrays]
    results: dict[str, list[Any]] = {}
    for device in (GPU, "/device:CPU:0"):
        with kit.device(device):
            made = listed(case.build(*xs))
            if case.has_slope:
                floats = [x for x in xs if x.static.dtype.kind == "f"]
                result = kit.gradients(made, floats)
                made += [dense(item) for item in result if item is not None]
        results[device] = made
    feeds = dict(zip(xs, case.arrays, strict=True))

    with Session() as session:
        on_gpu, on_cpu = session.run(list(results.values()), feeds)

    for value, wanted in zip(on_gpu, on_cpu, strict=True):
        assert value.dtype == wanted.dtype
        np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-9)


def test_the_devices_are_those_that_cupy_counts() -> None:
    cupy = pytest.importorskip("cupy")
    kit.constant(1)

    with Session() as session:
        gpus = [item for item, _ in session.list_devices() if item.type == "GPU"]

    assert [gpu.index for gpu in gpus] == list(
        range(cupy.cuda.runtime.getDeviceCount())
    )


def trained(device: str) -> Any:
    with Graph().as_default() as graph, graph.device(device):
        graph.seed = 5
        x = kit.placeholder("float32", (None, 20))
        labels = kit.placeholder("int32", (None,))
        w = kit.Variable(random.truncated_normal([20, 32], stddev=0.3), name="w")
        v = kit.Variable(random.normal([32, 10], stddev=0.3), name="v")
        hidden = nn.dropout(nn.relu(x @ w), 0.25)
        loss = np.mean(nn.sparse_softmax_cross_entropy(labels, hidden @ v))
        slopes = kit.gradients(loss, [w, v])
        steps = [
            item.assign_sub(0.1 * slope)
            for item, slope in zip((w, v), slopes, strict=True)
        ]
        rng = np.random.default_rng(1)
        data = {x: rng.normal(size=(64, 20)), labels: rng.integers(0, 10, 64)}
        with Session() as session:
            session.run(kit.initialize_all())
            losses = [session.run([loss, *steps], data)[0] for _ in range(20)]
            return losses, session.run([w, v])


def test_training_on_a_gpu_follows_training_on_the_cpu() -> None:
    losses, params = trained(GPU)
    expected, expected_params = trained("/device:CPU:0")

    assert losses[-1] < losses[0]
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    for first, other in zip(params, expected_params, strict=True):
        np.testing.assert_allclose(first, other, rtol=1e-3, atol=1e-5)


def test_clients_in_several_threads_share_a_variable_on_a_gpu() -> None:
    with kit.device(GPU):
        counter = kit.Variable(np.zeros(1000, np.float32), name="counter")
        more = counter.assign_add(np.ones(1000, np.float32))

    with Session() as session:
        session.run(kit.initialize_all())
        threads = [
            threading.Thread(
                target=lambda: [session.run(more.op) for _ in range(100)] and None
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert (session.run(counter) == 400).all()
