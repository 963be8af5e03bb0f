"""Graphs on GPUs, tried with arrays that refuse to mix: where values lie and move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kit
from kit import nn, random
from kit.graph.gradients import dense
from kit.graph.graph import Graph
from kit.graph.ops.array.blocks import slice_of
from kit.graph.ops.array.broadcast import broadcast_to, tile
from kit.graph.ops.array.fill import arange, fill, one_hot
from kit.graph.ops.array.pad import pad
from kit.graph.ops.array.shape import reshape, shape_of
from kit.graph.ops.math.ranking import top_k
from kit.session.client.metadata import RunMetadata
from kit.session.client.session import Session
from tests.cases import for_each
from tests.graph.cases.case import Case, all_cases, in_a_new_graph, listed
from tests.session.strict_devices import TARGET, session_with, task_with
from tests.strict_arrays import StrictGpu

GPU, SECOND = "/device:GPU:0", "/device:GPU:1"


def name_of(case: Case) -> str:
    return f"{case.op}-{'-'.join(str(list(array.shape)) for array in case.arrays)}"


@pytest.mark.slow
@for_each("case", all_cases(), ids=name_of)
@in_a_new_graph()
def test_an_op_gives_the_same_on_a_gpu(case: Case) -> None:
    xs = [kit.placeholder(array.dtype, array.shape) for array in case.arrays]
    with kit.device(GPU):
        results = listed(case.build(*xs))
        if case.has_slope:
            floats = [x for x in xs if x.static.dtype.kind == "f"]
            result = kit.gradients(results, floats)
            results += [dense(item) for item in result if item is not None]
    feeds = dict(zip(xs, case.arrays, strict=True))
    with Session(soft_placement=True) as session:
        expected = session.run(results, feeds)

    with session_with(1) as (session, gpus):
        result = session.run(results, feeds)

    assert gpus[0].n_entered
    for value, wanted in zip(result, expected, strict=True):
        assert value.dtype == wanted.dtype
        if case.op.startswith("Conv2D"):  # summed in the order that suits each device
            np.testing.assert_allclose(value, wanted, rtol=1e-5)
        else:
            assert np.array_equal(value, wanted, equal_nan=value.dtype.kind in "fc")


def test_devices_are_the_tasks_cpu_and_gpus(graph: Graph) -> None:
    kit.constant(1)

    with session_with(2) as (session, _):
        names = [device.name for device, _ in session.list_devices()]

    task = "/job:localhost/replica:0/task:0"
    assert names == [f"{task}/device:{kind}" for kind in ("CPU:0", "GPU:0", "GPU:1")]


def test_ops_that_ask_for_no_device_stay_on_the_cpu() -> None:
    result = kit.constant([1.0, 2.0]) * 2

    with session_with(1) as (session, gpus):
        session.run(result)

    assert (gpus[0].n_put, gpus[0].n_got) == (0, 0)


def test_an_array_moves_only_where_an_edge_crosses() -> None:
    x = kit.placeholder("float32", (3,))
    with kit.device(GPU):
        y = np.tanh(x * x) + np.exp(x)
        z = y.sum()
    w = y + z

    with session_with(1) as (session, gpus):
        result = session.run([w, y], {x: [1.0, 2.0, 3.0]})
        first = gpus[0].n_put, gpus[0].n_got
        session.run([w, y], {x: [1.0, 2.0, 3.0]})

    assert result[0] == pytest.approx(result[1] + result[1].sum())
    # One way in for x; y goes out once for the CPU's op and once for the fetch, z once.
    assert first == (1, 3)
    assert (gpus[0].n_put, gpus[0].n_got) == (2, 6)


def test_constant_is_on_its_gpu_before_the_first_run() -> None:
    with kit.device(GPU):
        result = kit.constant([1.0, 2.0]) + 1.0

    with session_with(1) as (session, gpus):
        session.run(result)
        first = gpus[0].n_put
        session.run(result)

    assert gpus[0].n_put == first == 2


def test_variable_lives_on_its_gpu_and_is_changed_there() -> None:
    with kit.device(GPU):
        w = kit.Variable(np.ones(3, np.float32), name="w")
        step = w.assign_sub(kit.gradients((w * w).sum(), w)[0] * 0.25)

    with session_with(1) as (session, gpus):
        session.run(kit.initialize_all())
        moved = gpus[0].n_put
        for _ in range(3):
            session.run(step.op)
        no_more = gpus[0].n_put, gpus[0].n_got
        result = session.run([w, w.is_initialized()])

    # A second plan has constants of its own: 0.25, and the 1 that a gradient begins at.
    assert no_more == (moved + 2, 0)
    assert result[0].tolist() == [0.125] * 3
    assert result[1]


def test_each_gpu_has_its_own_variable_of_a_name() -> None:
    values = []
    for device, value in ((GPU, 1.0), ("/device:CPU:0", 2.0)):
        with Graph().as_default() as graph, graph.device(device):
            w = kit.Variable(value, name="w")
            values.append((graph, w, kit.initialize_all([w])))

    with task_with([StrictGpu(0)]):
        sessions = [Session(TARGET, graph) for graph, _, _ in values]
        for session, (_, _, init) in zip(sessions, values, strict=True):
            session.run(init)
        result = [
            session.run(w) for session, (_, w, _) in zip(sessions, values, strict=True)
        ]
        for session in sessions:
            session.close()

    assert result == [1.0, 2.0]


def test_training_on_a_gpu_gives_the_bits_of_the_cpu() -> None:
    def trained(device: str) -> Any:
        with Graph().as_default() as graph, graph.device(device):
            graph.seed = 5
            x = kit.placeholder("float32", (None, 4))
            labels = kit.placeholder("int32", (None,))
            w = kit.Variable(random.truncated_normal([4, 8]), name="w")
            v = kit.Variable(random.normal([8, 3]), name="v")
            hidden = nn.dropout(nn.relu(x @ w), 0.25)
            loss = np.mean(nn.sparse_softmax_cross_entropy(labels, hidden @ v))
            slopes = kit.gradients(loss, [w, v])
            steps = [
                item.assign_sub(0.1 * slope)
                for item, slope in zip((w, v), slopes, strict=True)
            ]
            rng = np.random.default_rng(1)
            data = {x: rng.normal(size=(16, 4)), labels: rng.integers(0, 3, 16)}
            with session_with(1) as (session, _):
                session.run(kit.initialize_all())
                return [session.run([loss, *steps], data) for _ in range(4)]

    on_gpu, on_cpu = trained(GPU), trained("/device:CPU:0")

    for first, other in zip(on_gpu, on_cpu, strict=True):
        for value, wanted in zip(first, other, strict=True):
            assert np.array_equal(value, wanted)


def test_training_step_enters_its_gpu_once_and_waits_for_its_loss_alone() -> None:
    with kit.device(GPU):
        x = kit.placeholder("float32", (None, 4))
        w = kit.Variable(random.truncated_normal([4, 8]), name="w")
        v = kit.Variable(random.normal([8, 3]), name="v")
        hidden = nn.relu(x @ w)
        loss = np.mean((hidden @ v) ** 2)
        slopes = kit.gradients(loss, [w, v])
        steps = [
            item.assign_sub(0.1 * slope).op
            for item, slope in zip((w, v), slopes, strict=True)
        ]
    data = {x: np.ones((16, 4), np.float32)}

    with session_with(1) as (session, (gpu,)):
        session.run(kit.initialize_all())
        session.run([loss, *steps], data)  # the first run has constants to move
        entered, moved = gpu.n_entered, (gpu.n_put, gpu.n_got, gpu.n_read)
        session.run([loss, *steps], data)

    n_put, n_got, n_read = moved
    assert gpu.n_entered == entered + 1
    assert (gpu.n_put, gpu.n_got, gpu.n_read) == (n_put + 1, n_got + 1, n_read)


def test_sizes_that_a_run_computes_stay_on_the_host() -> None:
    with kit.device(GPU):
        x = kit.placeholder("float32", (None, 6))
        n = kit.placeholder("int32", ())
        y = np.tanh(x)
        rows, half = shape_of(y)[0], shape_of(y)[1] // 2
        results = [
            reshape(y, np.stack([rows * 2, half])),
            slice_of(y, [0, n], np.stack([rows, half])),
            y[n:, :half],
            pad(y, np.stack([np.stack([n, 0]), np.stack([0, n])])),
            tile(y, np.stack([n, 1])),
            broadcast_to(y[:1], shape_of(y)),
            fill(np.stack([rows, n]), 2.5),
            random.uniform(np.stack([n, rows]), seed=3),
            one_hot([2, 0], n),
            top_k(y, n)[0],
            arange(n),
        ]
    data = {x: np.arange(12.0).reshape(2, 6), n: 3}
    with Session(soft_placement=True) as session:
        expected = session.run(results, data)

    with session_with(1) as (session, (gpu,)):
        result = session.run(results, data)

    for value, wanted in zip(result, expected, strict=True):
        assert np.array_equal(value, wanted)
    assert (gpu.n_got, gpu.n_read) == (len(results), 0)


def test_integers_that_a_gpu_computes_are_read_where_sizes_are_due() -> None:
    x = kit.placeholder("int32", (3,))
    with kit.device(GPU):
        w = kit.Variable(np.array([1, 0, 0], np.int32), name="w")
        result = fill(x + w, 1.0)  # a variable of the GPU is not on the host

    with session_with(1) as (session, _):
        session.run(kit.initialize_all())
        assert session.run(result, {x: [1, 3, 4]}).shape == (2, 3, 4)


def test_a_traced_run_waits_for_each_op_and_another_run_for_none() -> None:
    with kit.device(GPU):
        x = kit.placeholder("float32", (2,))
        result = np.exp(x * 3.0)

    with session_with(1) as (session, (gpu,)):
        session.run(result, {x: [0.0, 1.0]})
        plain = gpu.n_waits
        session.run(result, {x: [0.0, 1.0]}, metadata=RunMetadata())

    assert (plain, gpu.n_waits) == (0, 2)


def test_arrays_of_two_gpus_meet_by_way_of_the_host() -> None:
    with kit.device(GPU):
        a = kit.constant([1.0, 2.0]) * 2.0
    with kit.device(SECOND):
        b = kit.constant([10.0, 20.0]) * 2.0
        c = a + b
    with kit.device(GPU):
        d = c * a

    with session_with(2) as (session, gpus):
        result = session.run(d)

    assert result.tolist() == [44, 176]
    assert (gpus[0].n_got, gpus[1].n_got) == (2, 1)


def test_gradients_are_computed_where_the_forward_op_was() -> None:
    x = kit.placeholder("float32", (2,))
    with kit.device(GPU):
        y = np.exp(x * 3.0)
    (slope,) = kit.gradients(y, x)
    metadata = RunMetadata()

    with session_with(1) as (session, _):
        session.run(slope, {x: [0.0, 1.0]}, metadata=metadata)

    devices = {
        node.node: node.device.rpartition("device:")[2] for node in metadata.nodes
    }
    assert set(devices.values()) == {"GPU:0"}
    assert len(devices) > 3


def test_embedding_may_have_its_parts_on_gpus() -> None:
    parts = []
    for number in range(2):
        with kit.device(f"/device:GPU:{number}"):
            table = np.arange(6.0).reshape(3, 2) + 10 * number
            parts.append(kit.Variable(table, name=f"part_{number}"))
    result = nn.embedding_lookup(parts, [3, 0, 5])
    slopes = kit.gradients(result, parts)

    with session_with(2) as (session, _):
        session.run(kit.initialize_all())
        value, rows = session.run([result, slopes])

    assert value.tolist() == [[12, 13], [0, 1], [14, 15]]
    assert [row.indices.tolist() for row in rows] == [[0], [1, 2]]
