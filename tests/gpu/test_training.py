"""Trainings with device="gpu" on a real one: the bits of numpy, in all ways to send.

The steps here add and multiply element by element, which rounds alike everywhere; what
else a GPU rounds in another way is the step function's affair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.arrays import all_gpus
from kit.testing.cluster import local_cluster
from tests.cases import for_each

# CUDA keeps descriptors of what it shares with other processes.
pytestmark = [pytest.mark.gpu, pytest.mark.lasting("descriptor")]
N, STEPS = 300_007, 7
ROWS = np.random.default_rng(1).normal(size=(24, N)).astype("f4")
OPTIMIZERS = [
    kit.GradientDescent(0.1),
    kit.Momentum(0.05, use_nesterov=True),
    kit.Adagrad(0.2),
    kit.RMSProp(0.01, momentum=0.5, centered=True),
    kit.Adam(0.02),
    kit.AdamW(0.02),
    kit.Lion(0.01),
]


@pytest.fixture(autouse=True, scope="module")
def needs_a_gpu() -> None:
    pytest.importorskip("cupy")
    if not all_gpus():
        pytest.skip("no GPU is here")


def step(params: Mapping[str, Any], batch: Sequence[Any]) -> Any:
    """Draw each parameter to the first row, with arrays of numpy or of cupy."""
    (rows,) = batch
    return 0.0, {
        "w": (params["w"] - rows[0, :-1]) * np.float32(0.25),
        "b": params["b"] * 0.5,
    }


def params() -> dict[str, Any]:
    return {"w": np.linspace(-3, 3, N - 1, dtype="f4"), "b": np.array([0.3, 7.0])}


def train(cluster: Any, device: str, **changes: Any) -> kit.Run:
    how: dict[str, Any] = {"steps": STEPS, "batch": 6, "topology": "ring"}
    how |= {"cluster": cluster, "device": device} | changes
    return kit.train(step, params(), (ROWS,), **how).wait(60)


def bits(run: kit.Run) -> list[bytes]:
    return [value.tobytes() for value in run.params.values()]


@for_each("optimizer", OPTIMIZERS)
def test_each_optimizer_has_the_bits_of_numpy(optimizer: Any) -> None:
    with local_cluster(0, 2) as cluster:
        run, on_cpus = (
            train(cluster, device, optimizer=optimizer) for device in ("gpu", "cpu")
        )

    assert bits(run) == bits(on_cpus)


@for_each("topology", ["ps", "ring", "ring-whole", "mesh", "hierarchical"])
def test_all_topologies_have_the_same_bits_and_bytes(topology: str) -> None:
    with local_cluster(1, 3) as cluster:
        run, on_cpus = (
            train(cluster, device, topology=topology, optimizer="adam")
            for device in ("gpu", "cpu")
        )

    assert bits(run) == bits(on_cpus)
    assert all(row.agrees for row in run.traffic)
    assert [row.sent for row in run.traffic] == [row.sent for row in on_cpus.traffic]


@pytest.mark.engines
def test_processes_on_one_card_open_each_others_memory() -> None:
    with kit.Cluster(ps=0, worker=2) as cluster:
        cluster.call("worker", log_all)
        run, on_cpus = (train(cluster, device) for device in ("gpu", "cpu"))
        logs = [cluster.log(f"worker:{n}") for n in range(2)]

    assert bits(run) == bits(on_cpus)
    assert not any("through the host's memory" in log for log in logs), logs


def log_all() -> None:
    """Let what the package logs be in the log of its task, from now on."""
    import logging

    logging.basicConfig(level=logging.INFO)


@pytest.mark.engines
def test_what_is_saved_in_a_process_is_gone_on_from_on_cpus(tmp_path: Path) -> None:
    how: dict[str, Any] = {"optimizer": kit.Momentum(0.05)}
    how["checkpoint"] = kit.Checkpoints(str(tmp_path), every_steps=4)
    with kit.Cluster(ps=0, worker=2) as cluster:
        train(cluster, "gpu", **how)
        run = train(cluster, "cpu", **how | {"steps": 2 * STEPS})
        alone = train(cluster, "cpu", optimizer=how["optimizer"], steps=2 * STEPS)

    assert bits(run) == bits(alone)


def test_gradients_of_torch_are_read_without_a_copy() -> None:
    torch = pytest.importorskip("torch")

    def by_torch(params: Mapping[str, Any], batch: Sequence[Any]) -> Any:
        named = {name: torch.from_dlpack(value) for name, value in params.items()}
        rows = torch.from_dlpack(batch[0])
        assert all(tensor.is_cuda for tensor in named.values())
        return 0.0, {"w": (named["w"] - rows[0, :-1]) * 0.25, "b": named["b"] * 0.5}

    with local_cluster(0, 2) as cluster:
        how: dict[str, Any] = {"steps": STEPS, "batch": 6, "topology": "ring"}
        run = kit.train(
            *(by_torch, params(), (ROWS,)), cluster=cluster, device="gpu", **how
        ).wait(60)
        on_cpus = train(cluster, "cpu")

    assert bits(run) == bits(on_cpus)


def test_memory_of_the_gpu_goes_back_when_the_training_is_over() -> None:
    import cupy

    with local_cluster(0, 2) as cluster:
        train(cluster, "gpu", optimizer="adam")
        before = cupy.cuda.runtime.memGetInfo()[0]
        for _ in range(3):
            train(cluster, "gpu", optimizer="adam")
        after = cupy.cuda.runtime.memGetInfo()[0]

    assert before - after < 2 * ROWS.nbytes
