"""Which device an op gets where there are GPUs, and what is said when it gets none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kit
from kit import nn
from kit.errors import InvalidArgumentError, PlacementError
from kit.graph.ops.state.function import py_function
from kit.session.client.session import Session
from kit.session.worker.task_runtime import TaskRuntime
from tests.session.strict_devices import TASK, session_with
from tests.strict_arrays import StrictGpu

GPU = "/device:GPU:0"


def test_gpu_that_is_not_there_is_refused_with_what_there_is() -> None:
    with kit.device("/device:GPU:7"):
        x = kit.constant(1.0, name="far")

    with (
        session_with(2) as (session, _),
        pytest.raises(PlacementError, match=r"'far' .*GPU:7.*CPU:0.*GPU:0.*GPU:1"),
    ):
        session.run(x)


def test_soft_placement_takes_the_cpu_of_the_task_instead() -> None:
    with kit.device("/device:GPU:7"):
        x = kit.constant(1.0) + 1.0

    with session_with(2, soft_placement=True) as (session, gpus):
        assert session.run(x) == 2
    with Session(soft_placement=True) as session:
        assert session.run(x) == 2

    assert not any(gpu.n_put for gpu in gpus)


def texts() -> Any:
    name = kit.placeholder("string", (), name="name")
    return name, kit.identity(kit.constant("hello ") + name, name="greeting")


def test_texts_on_a_gpu_are_refused_by_name_or_stay_on_the_cpu() -> None:
    with kit.device(GPU):
        name, greeting = texts()
        w = kit.Variable("nobody", name="last")
        last = w.assign(greeting)
        number = kit.constant(2.0) * 3.0

    refused = pytest.raises(
        PlacementError, match=r"'name' works with texts.*soft_placement"
    )
    with session_with(1) as (session, _), refused:
        session.run(greeting, {name: "you"})
    with session_with(1, soft_placement=True) as (session, gpus):
        session.run(w.initializer)
        result = session.run([last, number], {name: "you"})

    assert result == [b"hello you", 6]
    assert gpus[0].n_got == 1  # the number was there


def test_python_function_runs_on_the_host_with_values_of_a_gpu() -> None:
    seen: list[type] = []

    def doubled(x: Any) -> Any:
        seen.append(type(x))
        return x * 2

    with kit.device(GPU):
        x = kit.constant([1.0, 2.0]) + 1.0
    y = py_function(doubled, [x], "float32", [2])
    with kit.device(GPU):
        z = y + x

    with session_with(1) as (session, _):
        result = session.run(z)

    assert result.tolist() == [6, 9]
    assert seen == [np.ndarray]


def test_python_function_on_a_gpu_is_refused() -> None:
    with kit.device(GPU):
        result = py_function(lambda: 1.0, [], "float32")

    with (
        session_with(1) as (session, _),
        pytest.raises(PlacementError, match="'PyFunc' is computed by Python"),
    ):
        session.run(result)


def test_error_on_a_gpu_names_the_device() -> None:
    x = kit.placeholder("int32", (None,))
    with kit.device(GPU):
        y = nn.embedding_lookup(np.eye(2), x)

    with (
        session_with(1) as (session, _),
        pytest.raises(InvalidArgumentError, match=r"on .*device:GPU:0"),
    ):
        session.run(y, {x: [2]})


def test_gpus_are_asked_for_when_the_devices_are() -> None:
    asked: list[int] = []

    def gpus() -> list[StrictGpu]:
        asked.append(1)
        return [StrictGpu(0)]

    runtime = TaskRuntime(TASK, gpus=gpus)
    before = list(asked)

    devices = [device.type for device in runtime.devices + runtime.devices]

    assert (before, asked) == ([], [1])
    assert devices == ["CPU", "GPU", "CPU", "GPU"]
