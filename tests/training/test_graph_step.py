"""A loss as a graph: its compiled step, random ops, stages, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit
from benchmarks import graph_step, mlp
from kit.cluster.cells import remote
from kit.errors import InvalidArgumentError
from kit.graph.graph import Graph
from kit.graph.node import Edge, Node
from kit.graph.op import Tensor
from kit.graph.ops.math import random
from kit.graph.ops.state.function import py_function
from kit.graph.ops.state.source import constant, placeholder
from kit.graph.variable import Variable, initialize_all
from kit.session.client.session import Session
from kit.task import Task
from kit.testing.cluster import LocalCluster
from kit.training.features.graph_step.loss import work_of
from kit.training.features.graph_step.step import GraphSection, GraphStep, cut, grouped
from tests.cases import for_each
from tests.training.graph_models import Array, Params
from tests.training.toy import DATA, fit, same_bits


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


# -- random ops ------------------------------------------------------------------------


class Noise:
    """A model whose gradient is what it draws: the loss is the sum of w * noise."""

    def __init__(self, seed: int | None = None) -> None:
        with Graph().as_default():
            self.x = placeholder("float64", (None,))
            noise = random.uniform((5,), dtype="float64", seed=seed)
            self.w = Variable(np.zeros(5), name="w")
            self.loss = (self.w * noise).sum() + self.x.mean() * 0.0

    def step(self, rank: int, seed: int = 0) -> Any:
        work = work_of(self.loss, {self.x: np.zeros(8)})
        assert isinstance(work.step, GraphStep)
        return work.step.for_worker(Task("worker", rank), rank, seed, in_parts=False)

    def drawn(self, rank: int, times: int, seed: int = 0) -> list[Array]:
        step, params = self.step(rank, seed), {"w": np.zeros(5)}
        return [step(params, (np.zeros(4),))[1]["w"].copy() for _ in range(times)]


@pytest.mark.parametrize("seed", [None, 3])
def test_each_worker_and_step_draws_other_numbers_and_the_same_again(
    seed: int | None,
) -> None:
    first, other = Noise(seed).drawn(0, 3), Noise(seed).drawn(1, 3)
    drawn = {value.tobytes() for value in (*first, *other)}

    assert len(drawn) == 6
    assert [array.tobytes() for array in Noise(seed).drawn(0, 3)] == [
        array.tobytes() for array in first
    ]
    assert Noise(seed).drawn(0, 1, seed=1)[0].tobytes() not in drawn


@pytest.mark.slow
def test_a_training_with_random_ops_has_the_mean_of_what_the_workers_draw(
    cluster: LocalCluster,
) -> None:
    noise = Noise()
    run = kit.train(
        noise.loss,
        {noise.x: np.zeros(8)},
        optimizer=kit.GradientDescent(1.0),
        steps=2,
        batch=4,
        seed=5,
        cluster=cluster,
    ).wait(20)

    by_worker = [noise.drawn(rank, 2, seed=5) for rank in (0, 1)]
    wanted = -sum(sum(draws) / 2 for draws in zip(*by_worker, strict=True))
    np.testing.assert_allclose(run.params["w"], wanted, rtol=1e-14)


def test_initial_values_that_are_drawn_depend_on_the_seed_alone() -> None:
    def begun(seed: int) -> Params:
        with Graph().as_default():
            x = placeholder("float64", (None,))
            w = Variable(random.normal((4,), dtype="float64"), name="w")
            work = work_of(w.sum() * x.mean(), {x: np.zeros(8)}, seed=seed)
        assert work.params is not None
        return work.params

    assert same_bits(begun(1), begun(1))
    assert not same_bits(begun(1), begun(2))
    assert np.abs(begun(1)["w"]).min() > 0


def test_initial_values_with_a_seed_of_their_own_are_those_of_a_session() -> None:
    with Graph().as_default(), Session() as session:
        x = placeholder("float64", (None,))
        w = Variable(random.normal((4,), dtype="float64", seed=9), name="w")
        work = work_of(w.sum() * x.mean(), {x: np.zeros(8)}, seed=1)
        session.run(initialize_all())

        assert work.params is not None
        assert same_bits(work.params, {"w": session.run(w)})


# -- stages ----------------------------------------------------------------------------


def node(name: str, *inputs: str, control: tuple[str, ...] = ()) -> Node:
    edges = tuple((item, 0) for item in inputs)
    return Node(name, "AddN", edges, control, {}, "", (), "", "")


def names(stage: GraphSection) -> list[str]:
    return [item.name for item in stage.nodes]


def test_a_stage_has_what_its_goals_need_and_no_stage_before_it_has() -> None:
    nodes = [node("h", "x"), node("loss", "h"), node("d2", "h", "w2"), node("d1", "d2")]
    fed: list[Edge] = [("x", 0), ("w2", 0)]

    first, second = cut(nodes, fed, [[("d2", 0)], [("d1", 0), ("loss", 0)]])

    assert (names(first), names(second)) == (["h", "d2"], ["loss", "d1"])
    assert first.takes == (("x", 0), ("w2", 0))
    assert first.gives == (("d2", 0), ("h", 0))
    assert second.takes == (("h", 0), ("d2", 0))
    assert second.gives == (("d1", 0), ("loss", 0))


def test_a_goal_that_is_fed_is_passed_on() -> None:
    (stage,) = cut([node("a", "x")], [("x", 0)], [[("x", 0)]])

    assert (names(stage), stage.takes, stage.gives) == ([], (("x", 0),), (("x", 0),))


def test_what_a_node_waits_for_is_in_its_stage_or_before() -> None:
    nodes = [node("first", "x"), node("then", "x", control=("first",))]

    (stage,) = cut(nodes, [("x", 0)], [[("then", 0)]])

    assert names(stage) == ["first", "then"]


@st.composite
def graphs(draw: Any) -> tuple[list[Node], list[list[Edge]]]:
    """Draw sums of earlier nodes, `x` being fed, and goals in groups."""
    nodes: list[Node] = []
    for number in range(draw(st.integers(1, 12))):
        expected = ["x", *(item.name for item in nodes)]
        chosen = draw(st.lists(st.sampled_from(expected), min_size=1, max_size=3))
        nodes.append(node(f"n{number}", *chosen))
    goal = st.sampled_from([("x", 0), *((item.name, 0) for item in nodes)])
    groups = draw(st.lists(st.lists(goal, min_size=1, max_size=3), min_size=1))
    return nodes, groups


def summed(nodes: list[Node], values: dict[Edge, int]) -> dict[Edge, int]:
    result = dict(values)
    for item in nodes:
        result[item.name, 0] = sum(result[edge] for edge in item.inputs) + 1
    return result


@given(graphs())
def test_stages_give_every_goal_its_value(
    drawn: tuple[list[Node], list[list[Edge]]],
) -> None:
    nodes, groups = drawn
    fed: dict[Edge, int] = {("x", 0): 1}

    stages, expected = cut(nodes, [*fed], groups), dict(fed)

    ran: list[str] = []
    for stage, goals in zip(stages, groups, strict=True):
        ran += names(stage)
        result = summed(
            list(stage.nodes), {edge: expected[edge] for edge in stage.takes}
        )
        expected |= {edge: result[edge] for edge in stage.gives}
        whole = summed(nodes, fed)
        assert {edge: expected[edge] for edge in goals} == {e: whole[e] for e in goals}
    assert len(ran) == len(set(ran))


@given(st.lists(st.integers(0, 100)), st.integers(1, 200))
def test_groups_keep_the_order_and_all_but_the_last_are_large(
    sizes: list[int], least: int
) -> None:
    groups = grouped(sizes, least)

    assert [number for group in groups for number in group] == [*range(len(sizes))]
    assert all(sum([sizes[n] for n in group]) >= least for group in groups[:-1])


# -- refused ---------------------------------------------------------------------------

ROWS = np.zeros((8, 3), np.float32)


class Scene:
    """A graph with a placeholder, a trained variable and a loss."""

    def __init__(self) -> None:
        self.x = placeholder("float32", (None, 3), name="x")
        self.w = Variable(np.ones(3, np.float32), name="w")
        self.loss: Tensor = (self.x * self.w).sum(axis=1).mean()


def counted(scene: Scene) -> Any:
    step = Variable(np.float32(0), trainable=False, name="global_step")
    return scene.loss * step, {scene.x: ROWS}


def assigning(scene: Scene) -> Any:
    average = Variable(np.float32(0), trainable=False, name="average")
    update = average.assign_add(1.0, name="update")
    with scene.x.graph.control_dependencies([update]):
        return scene.loss * 2.0, {scene.x: ROWS}


def behind_a_stop(scene: Scene) -> Any:
    frozen = Variable(np.float32(2), name="frozen")
    with scene.x.graph.control_dependencies([frozen]):
        stopped = np.floor(frozen)
    return scene.loss * stopped, {scene.x: ROWS}


def another_placeholder(scene: Scene) -> Any:
    scale = placeholder("float32", (), name="scale")
    return scene.loss * scale, {scene.x: ROWS}


CASES: dict[str, tuple[Callable[[Scene], Any], list[str]]] = {
    "a variable that is not trained": (counted, ["'global_step'", "does not train"]),
    "an update beside the loss": (assigning, ["'update'", "AssignAdd", "minimize()"]),
    "no gradient to a variable": (behind_a_stop, ["'frozen'"]),
    "a placeholder without data": (another_placeholder, ["'scale'", "dict"]),
    "several numbers": (lambda s: (s.x * s.w, {s.x: ROWS}), ["not a single number"]),
    "data without placeholders": (lambda s: (s.loss, (ROWS,)), ["tuple", "{x: images"]),
    "no data": (lambda s: (s.loss, {}), ["dict"]),
    "a list": (lambda s: (s.loss, {s.x: [1.0]}), ["list", "an array"]),
    "a name as key": (lambda s: (s.loss, {"x": ROWS}), ["'x'", "placeholders"]),
    "rows of another size": (
        lambda s: (s.loss, {s.x: ROWS[:, :2]}),
        ["'x:0'", "[?, 3]", "[8, 2]"],
    ),
}


@for_each(("make", "words"), CASES.values(), ids=CASES)
def test_loss_or_data_that_cannot_be_compiled_is_refused_by_name(
    make: Callable[[Scene], Any], words: list[str]
) -> None:
    with Graph().as_default():
        loss, data = make(Scene())

        with pytest.raises(InvalidArgumentError) as caught:
            work_of(loss, data)

    assert all(word in str(caught.value) for word in words), caught.value


def test_loss_of_no_variable_is_refused() -> None:
    with Graph().as_default():
        scene = Scene()

        with pytest.raises(ValueError, match="'w:0'"):
            work_of(constant(1.0), {scene.x: ROWS})


def test_variable_of_integers_is_refused(cluster: LocalCluster) -> None:
    with Graph().as_default():
        scene = Scene()
        wide = Variable(np.ones(3, np.float16), name="half")
        loss = scene.loss + (wide.astype("float32")).sum()

        with pytest.raises(InvalidArgumentError, match="'half' is float16"):
            kit.train(loss, {scene.x: ROWS}, cluster=cluster)


@pytest.mark.slow
def test_placeholder_of_a_fixed_batch_is_refused_by_the_workers(
    cluster: LocalCluster,
) -> None:
    with Graph().as_default():
        x = placeholder("float32", (8, 3), name="x")
        loss = (x * Variable(np.ones(3, np.float32))).mean()
        run = kit.train(loss, {x: ROWS}, batch=8, steps=1, cluster=cluster)

        with pytest.raises(InvalidArgumentError, match=r"'x'.*\[8, 3\].*\[4, 3\]"):
            run.wait(10)


@pytest.mark.slow
def test_op_that_fails_on_a_worker_is_named(cluster: LocalCluster) -> None:
    with Graph().as_default():
        x = placeholder("float32", (None,), name="x")
        w = Variable(np.ones((2, 2), np.float32), name="w")
        loss = (w @ x.reshape(2, -1)).mean()
        run = kit.train(loss, {x: np.zeros(6)}, batch=6, steps=1, cluster=cluster)

        with pytest.raises(kit.errors.KitError, match=r"'Reshape'"):
            run.wait(10)


def test_session_is_for_a_tensor_alone(cluster: LocalCluster) -> None:
    with pytest.raises(InvalidArgumentError, match="session="):
        kit.train(
            fit,
            {"w": np.zeros(3)},
            DATA,
            session=object(),  # type: ignore[call-overload]  # wrong on purpose
            cluster=cluster,
        )
