"""Trainings with device="gpu", on a pretended GPU that computes with numpy.

What is computed there has numpy's bits, and no array becomes one of the host by itself,
as with cupy. The same on a real GPU is in `tests/gpu/test_training.py`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit import arrays
from kit.errors import FailedPreconditionError, GradientMismatch, NotFinite
from kit.exchange.ports.shared_port import SharedPort
from kit.testing.cluster import LocalCluster
from kit.testing.task_process import until
from tests.cases import for_each
from tests.strict_arrays import HANDLES, StrictArray, StrictGpu, strict
from tests.training import toy
from tests.training.paced import settled
from tests.training.pretended_gpus import pretended_gpus
from tests.training.saved import resumed_at
from tests.training.toy import (
    BATCH,
    DATA,
    fit,
    initial,
    quick_cluster,
    replayed,
    same_bits,
)

OPTIMIZERS = [
    kit.GradientDescent(0.1),
    kit.Momentum(0.05, use_nesterov=True),
    kit.Adagrad(0.2),
    kit.RMSProp(0.01, momentum=0.5, centered=True),
    kit.Adam(0.02),
    kit.AdamW(0.02),
    kit.Lion(0.01),
    kit.Averaged(kit.Groups(kit.Adam(0.02), {"w": {"learning_rate": 0.1}})),
]
WAYS = [(1, "ps"), (2, "ps"), (0, "ring"), (0, "ring-whole"), (0, "mesh")]
WAYS += [(0, "hierarchical"), (1, "ring")]


pytestmark = pytest.mark.slow
OPEN, CLOSED = "memory open to neighbours", "through the host"


@pytest.fixture(autouse=True, params=[OPEN, CLOSED])
def gpus(request: pytest.FixtureRequest) -> Iterator[list[StrictGpu]]:
    with pretended_gpus(can_be_opened=request.param == OPEN) as result:
        yield result


def fit_there(params: Mapping[str, Any], batch: Sequence[Any]) -> Any:
    """Do what `fit` does, to the same bits, with arrays of the GPU."""
    x, y = batch
    inner = (x * params["w"]).sum(axis=1)
    error = params["scale"] * inner + params["b"].sum() - y
    slope = 2 * error / len(y)
    return (error**2).mean(), {
        "w": (slope[:, None] * params["scale"] * x).sum(axis=0).astype(np.float32),
        "none": strict.zeros((0, 2), np.float32),
        "b": strict.full(2, slope.sum()),
        "scale": (slope * inner).sum(),
    }


def begin(cluster: Any, step: Any = fit_there, **changes: Any) -> kit.Run:
    return toy.begin(cluster, step, **{"steps": 7, "device": "gpu"} | changes)


def moved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the bytes of each copy between host and GPU."""
    result: list[int] = []
    for name in ("fill", "read"):
        plain: Callable[..., None] = getattr(StrictGpu, name)

        def copy(gpu: StrictGpu, x: Any, host: Any, plain: Any = plain) -> None:
            result.append(host.nbytes)
            plain(gpu, x, host)

        monkeypatch.setattr(StrictGpu, name, copy)
    return result


def bytes_of(run: kit.Run) -> Any:
    return [(row.sent, row.received, row.agrees) for row in run.traffic]


@for_each(("n_ps", "topology"), WAYS)
def test_bits_and_bytes_are_those_of_the_same_training_on_cpus(
    n_ps: int, topology: str
) -> None:
    with quick_cluster(n_ps, 3) as cluster:
        on_cpus = begin(cluster, fit, device="cpu", topology=topology).wait(20)
        run = begin(cluster, topology=topology).wait(20)

    assert same_bits(run.params, replayed(7, 3, kit.GradientDescent()))
    assert same_bits(run.params, on_cpus.params)
    assert bytes_of(run) == bytes_of(on_cpus)
    assert all(row.agrees for row in run.traffic)


def test_a_range_passes_through_the_host_only_where_memory_is_not_open(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies, counts = moved(monkeypatch), []
    for steps in (3, 30):
        copies.clear()
        with quick_cluster(0, 3, digest_every=0) as cluster:
            begin(cluster, topology="ring", steps=steps).wait(20)
        counts.append(sum(copies))

    is_open = request.node.callspec.params["gpus"] == OPEN
    assert (counts[0] == counts[1]) == is_open


@pytest.fixture
def three(gpus: list[StrictGpu]) -> Iterator[LocalCluster]:
    with quick_cluster(0, 3) as cluster:
        yield cluster


@for_each("optimizer", OPTIMIZERS)
def test_each_optimizer_updates_there_to_the_bits_of_numpy(
    optimizer: Any, three: LocalCluster
) -> None:
    how = {"topology": "ring", "optimizer": optimizer}
    on_cpus = begin(three, fit, device="cpu", **how).wait(20)
    run = begin(three, **how).wait(20)

    assert same_bits(run.params, on_cpus.params)
    assert not same_bits(run.params, initial())


@for_each(("n_ps", "topology"), WAYS)
def test_nothing_is_announced_before_the_gpu_has_computed_it(
    n_ps: int, topology: str
) -> None:
    did: dict[int, list[str]] = {}  # by thread

    def noting(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            did.setdefault(threading.get_ident(), []).append(name)
            return plain(*args)

        return call

    with pytest.MonkeyPatch.context() as patch, quick_cluster(n_ps, 3) as cluster:
        for kind, name in ((StrictGpu, "wait"), (StrictGpu, "read")):
            patch.setattr(kind, name, noting(name, getattr(kind, name)))
        patch.setattr(SharedPort, "post", noting("post", SharedPort.post))
        begin(cluster, noting("step", fit_there), topology=topology).wait(20)

    workers = [
        calls[calls.index("step") :] for calls in did.values() if "step" in calls
    ]
    assert len(workers) == 3
    for calls in workers:
        before = [name for name, after in pairwise(calls) if after == "post"]
        assert before != []
        assert {*before} <= {"wait", "read"}


def test_each_worker_of_a_host_has_the_next_gpu_and_gets_all_arrays_there() -> None:
    seen: set[tuple[str, ...]] = set()

    def step(params: Mapping[str, Any], batch: Sequence[Any]) -> Any:
        everything = [*params.values(), *batch]
        seen.add(tuple({array.device for array in everything}))
        return fit_there(params, batch)

    with quick_cluster(0, 3) as cluster:
        begin(cluster, step, topology="ring").wait(20)

    assert seen == {("strict:0",), ("strict:1",)}


def test_what_need_not_travel_stays_there_from_step_to_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies, counts = moved(monkeypatch), []
    for steps in (3, 30):
        copies.clear()
        with quick_cluster(0, 1, digest_every=0) as cluster:
            begin(cluster, topology="ring", steps=steps, optimizer="adam").wait(20)
        counts.append(sum(copies))

    assert counts[0] == counts[1] > 0


def test_memory_of_the_gpu_goes_back_when_the_training_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, plain = list[weakref.ref[Any]](), StrictGpu.empty

    def empty(gpu: StrictGpu, n_bytes: int) -> StrictArray:
        array = plain(gpu, n_bytes)
        made.append(weakref.ref(array.host))
        return array

    monkeypatch.setattr(StrictGpu, "empty", empty)
    with quick_cluster(0, 2) as cluster:
        run = begin(cluster, topology="ring", optimizer="adam").wait(20)
        HANDLES.clear()

        until(lambda: all(memory() is None for memory in made), 10)
        assert same_bits(run.params, replayed(7, 2, kit.Adam()))
    assert made != []


def test_at_a_boundary_nobody_has_the_memory_of_another_open(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, plain = list[StrictArray](), StrictGpu.open

    def open_(gpu: StrictGpu, handle: bytes, n_bytes: int) -> StrictArray:
        opened.append(plain(gpu, handle, n_bytes))
        return opened[-1]

    monkeypatch.setattr(StrictGpu, "open", open_)
    with quick_cluster(0, 2) as cluster:
        run = begin(cluster, topology="ring", steps=10**6)
        until(lambda: run.step > 0, 20)
        run.pause()
        settled(run)

        assert [array for array in opened if hasattr(array, "host")] == []
        run.advance(3)
        run.stop()
        run.wait(20)
    is_open = request.node.callspec.params["gpus"] == OPEN
    assert bool(opened) == is_open


def test_topologies_can_be_switched_and_slots_move_with_their_owners() -> None:
    optimizer = kit.Adam(0.02)
    with quick_cluster(1, 3) as cluster:
        run = begin(cluster, steps=30, topology="ps", optimizer=optimizer)
        run.switch("ring", at=7)
        run.switch("mesh", at=15)
        run.switch("ps", at=22)
        run.wait(20)

    assert same_bits(run.params, replayed(30, 3, optimizer))


def test_what_was_saved_is_gone_on_from_on_cpus_and_the_other_way(
    tmp_path: Path,
) -> None:
    how: dict[str, Any] = {"topology": "ring", "optimizer": kit.Momentum(0.01)}
    how["checkpoint"] = kit.Checkpoints(str(tmp_path), every_steps=3)
    with quick_cluster(0, 2) as cluster:
        begin(cluster, steps=6, **how).wait(20)
        begin(cluster, fit, steps=12, device="cpu", **how).wait(20)
        run = begin(cluster, steps=18, **how).wait(20)

    assert resumed_at(run) == 12
    assert same_bits(run.params, replayed(18, 2, kit.Momentum(0.01)))


def test_slots_are_saved_as_they_are_while_steps_go_on(tmp_path: Path) -> None:
    how: dict[str, Any] = {"topology": "ring", "optimizer": kit.Momentum(0.01)}
    how["checkpoint"] = kit.Checkpoints(str(tmp_path), every_steps=4, keep=9)
    with quick_cluster(0, 2) as cluster:
        begin(cluster, steps=7, **how).wait(20)
        how["restore"] = "step-4"
        run = begin(cluster, fit, steps=7, device="cpu", **how).wait(20)

    assert same_bits(run.params, replayed(7, 2, kit.Momentum(0.01)))


def test_parameters_are_read_between_two_steps() -> None:
    def ones(params: Mapping[str, Any], batch: Any) -> Any:
        return 0.0, {"w": strict.full(3, -1, np.float32)}

    with quick_cluster(0, 2) as cluster:
        run = kit.train(
            *(ones, {"w": np.zeros(3, np.float32)}, DATA),
            optimizer=kit.GradientDescent(1.0),
            steps=10**6,
            batch=BATCH,
            cluster=cluster,
            topology="ring",
            device="gpu",
        )
        until(lambda: run.step > 0, 20)
        values = set[float]()
        while len(values) < 5:
            (value,) = {*run.params["w"].tolist()}
            values.add(value)
        run.pause()
        step, (value,) = settled(run), {*run.params["w"].tolist()}
        run.stop()
        run.wait(20)

    assert value == step
    assert 0 < max(values) <= step


def test_hooks_read_the_newest_parameters() -> None:
    seen: list[kit.hooks.SessionRunHook] = []

    class Looks(kit.hooks.SessionRunHook):
        def __init__(self) -> None:
            self.values: list[Any] = []
            seen.append(self)

        def before_run(self, run_context: Any) -> Any:
            return kit.hooks.SessionRunArgs({"w": "w"})

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.values.append(run_values.results["w"])

    hook = Looks()
    with quick_cluster(0, 2) as cluster:
        run = begin(cluster, topology="ring", hooks=[hook]).wait(20)

    assert np.array_equal(hook.values[-1], run.params["w"])
    assert len({value.tobytes() for value in hook.values}) == 7


def writes(params: Any, batch: Any, grads: Any) -> Any:
    loss: Any
    loss, gradients = fit_there(params, batch)
    for name, gradient in gradients.items():
        grads[name][...] = gradient
    return loss


def hands_over(params: Any, batch: Any) -> Any:
    loss, gradients = fit_there(params, batch)
    yield from reversed(gradients.items())
    return loss


def writes_in_turn(params: Any, batch: Any, grads: Any) -> Any:
    loss, gradients = fit_there(params, batch)
    for name, gradient in reversed(gradients.items()):
        grads[name] = gradient
        yield name
    return loss


def on_host(params: Any, batch: Any) -> Any:
    loss, gradients = fit_there(params, batch)
    return loss, {name: gradient.get() for name, gradient in gradients.items()}


def in_order(params: Any, batch: Any) -> Any:
    loss, gradients = fit_there(params, batch)
    return float(loss), list(gradients.values()), {"double": 2 * loss}


HOW: list[dict[str, Any]] = [
    {},
    {"accumulate": 2},
    {"compress": "int8"},
    {"compress": kit.TopK(0.5), "optimizer": "adam"},
    {"local_steps": 2, "optimizer": kit.Momentum(0.05), "accumulate": 2},
    {"local_steps": 1, "topology": "gossip", "batch": 12},
    {"optimizer": "lamb"},
]
FORMS = [fit_there, writes, hands_over, on_host, writes_in_turn, in_order]


@for_each("how", HOW)
def test_gradients_in_any_form_give_the_bits_of_cpus_in_any_way_to_train(
    how: dict[str, Any],
) -> None:
    how = {"topology": "ring", "steps": 4} | how
    with quick_cluster(0, 3) as cluster:
        on_cpus = begin(cluster, fit, device="cpu", **how).wait(20)
        for step in FORMS:
            run = begin(cluster, step, **how).wait(20)

            assert same_bits(run.params, on_cpus.params), step
            assert bytes_of(run) == bytes_of(on_cpus), step


@for_each("how", [{"sync": False}, {"aggregate": 1}, {"elastic": True}])
def test_other_ways_to_train_go_on_with_steps_on_gpus(how: dict[str, Any]) -> None:
    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, steps=30, **how).wait(20)

    assert run.step == 30
    assert not same_bits(run.params, initial())


def changed(name: str, change: Callable[[Any], Any]) -> Any:
    def step(params: Any, batch: Any) -> Any:
        loss, gradients = fit_there(params, batch)
        return loss, gradients | {name: change(gradients[name])}

    return step


def forgets(params: Any, batch: Any, grads: Any) -> float:
    return 0.0


@for_each(
    ("step", "kind", "words"),
    [
        (changed("w", lambda g: g[:2]), GradientMismatch, r"'w' is float32\[2\]"),
        (changed("b", lambda g: g * np.nan), NotFinite, "'b' holds 2 NaN and 0 inf"),
        (changed("b", lambda g: None), GradientMismatch, "'b' is None"),
        (forgets, GradientMismatch, r"did not write grads\['"),
    ],
)
def test_a_bad_gradient_is_named_and_the_parameters_stay(
    step: Any, kind: type[Exception], words: str
) -> None:
    with quick_cluster(0, 2) as cluster:
        run = begin(cluster, step, topology="ring")
        with pytest.raises(kind, match=words):
            run.wait(20)

        assert same_bits(run.params, initial())


def test_after_a_failure_the_parameters_are_those_of_the_last_step() -> None:
    calls: list[int] = []

    def fails(params: Any, batch: Any) -> Any:
        calls.append(1)
        if len(calls) > 5:
            raise RuntimeError("enough")
        return fit_there(params, batch)

    with quick_cluster(0, 1) as cluster:
        run = begin(cluster, fails, topology="ring")
        with pytest.raises(kit.errors.StepFailed, match="enough"):
            run.wait(20)

        assert run.step == 5
        assert same_bits(run.params, replayed(5, 1, kit.GradientDescent()))


def test_without_a_gpu_the_training_ends_before_its_first_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrays, "all_gpus", lambda: ())
    monkeypatch.setattr(arrays, "DRIVERS", ("/dev/no-such-driver",))

    with quick_cluster(0, 2) as cluster:
        run = begin(cluster, topology="ring")
        with pytest.raises(FailedPreconditionError, match='with device="cpu"'):
            run.wait(20)

        assert run.step == 0
        begin(cluster, fit, topology="ring", device="cpu").wait(20)


def test_a_tensor_is_refused_with_the_line_that_places_it() -> None:
    with kit.Graph().as_default():
        x: Any = kit.placeholder("float32", (None,))
        loss: Any = np.mean(x * kit.Variable(np.float32(1), name="v"))
        with (
            quick_cluster(1, 2) as cluster,
            pytest.raises(kit.errors.InvalidArgumentError, match=r"kit\.device"),
        ):
            kit.train(loss, {x: DATA[1]}, device="gpu", cluster=cluster)
