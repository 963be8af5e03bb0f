"""Optimizers in a graph: the names, places and settings of what they make; misuse."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kit
from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.graph.graph import Graph
from kit.graph.op import IndexedSlices
from kit.graph.ops.state.source import constant, placeholder
from kit.graph.variable import Variable, initialize_all
from kit.session.client.session import Session
from kit.testing.cluster import LocalCluster
from kit.training.optimizers.graph_rules import update_rows, update_whole
from kit.training.optimizers.minimize import Minimizer
from kit.training.optimizers.rule import Rule
from tests.cases import for_each
from tests.strict_arrays import strict
from tests.training import toy

Array = npt.NDArray[Any]
RULES: dict[str, Rule] = {
    "descent": kit.GradientDescent(0.02),
    "momentum": kit.Momentum(0.02),
    "nesterov": kit.Momentum(0.02, use_nesterov=True),
    "adagrad": kit.Adagrad(0.02),
    "rmsprop": kit.RMSProp(0.02, momentum=0.5),
    "centered": kit.RMSProp(0.02, momentum=0.5, centered=True),
    "adam": kit.Adam(0.02),
}
every_rule = for_each("rule", RULES.values(), RULES)
START = np.array([[0.5, -1.0], [0.25, 2.0], [-0.125, 0.75]])


class Scene:
    """A graph with one variable `v` whose gradient is fed, and a session."""

    def __init__(self, rule: Rule, start: Array, rows: bool = False) -> None:
        self.graph = Graph()
        with self.graph.as_default():
            self.variable = Variable(start, name="v")
            dtype, tail = start.dtype, start.shape[1:]
            self.fed = placeholder(dtype, (None, *tail) if rows else start.shape)
            self.indices = placeholder(np.int64, (None,))
            gradient = IndexedSlices(self.fed, self.indices) if rows else self.fed
            self.train = rule.apply_gradients([(gradient, self.variable)])
            self.minimizer: Minimizer = self.graph.notes["minimizers"][id(rule)]
            self.session = Session()
            self.session.run(initialize_all())

    def step(self, gradient: Array, indices: Sequence[int] = ()) -> None:
        feeds = {self.fed: gradient, self.indices: np.array(indices, np.int64)}
        assert self.session.run(self.train, feeds) is None

    @property
    def value(self) -> Array:
        result: Array = self.session.run(self.variable)
        return result

    def slot(self, name: str) -> Array:
        result: Array = self.session.run(self.minimizer.slot(self.variable, name))
        return result


@for_each(
    ("rule", "names"),
    [
        (RULES["descent"], []),
        (RULES["momentum"], ["v/Momentum"]),
        (RULES["adagrad"], ["v/Adagrad"]),
        (RULES["rmsprop"], ["v/RMSProp", "v/RMSProp_1"]),
        (RULES["centered"], ["v/RMSProp", "v/RMSProp_1", "v/RMSProp_2"]),
        (RULES["adam"], ["beta1_power", "beta2_power", "v/Adam", "v/Adam_1"]),
    ],
)
def test_slots_are_named_after_variable_and_optimizer(
    rule: Rule, names: list[str]
) -> None:
    scene = Scene(rule, START)

    result = scene.minimizer.variables(scene.graph)

    assert [tensor.op.name for tensor in result] == names
    assert not any(item.trainable for item in result)


def test_equal_optimizers_keep_slots_of_their_own() -> None:
    with Graph().as_default():
        variable, first, other = Variable([1.0], name="v"), kit.Adam(), kit.Adam()
        for rule in (first, other, first):
            rule.apply_gradients([([1.0], variable)])

        result = [rule.slot(variable, "m") for rule in (first, other)]

        assert [slot.op.name for slot in result if slot is not None] == [
            "v/Adam",
            "v/Adam_2",
        ]
        assert first.slot(variable, "momentum") is None


def test_updates_and_slots_are_placed_with_their_variable() -> None:
    graph, rule = Graph(), kit.Adam()
    with graph.as_default():
        with graph.device("/job:ps/task:1"):
            late = Variable([1.0], name="z")
        with graph.device("/job:ps/task:0"):
            early = Variable([1.0], name="a")
        with graph.device("/job:worker/task:0"):
            rule.apply_gradients([([1.0], late), ([1.0], early)])

    where = {op.name: op.device for op in graph.ops}
    assert where["z/Adam"] == where["z/Adam_1"] == "/job:ps/task:1"
    assert where["a/Adam"] == where["beta2_power"] == "/job:ps/task:0"
    assert where["Adam/update_z/ApplyAdam"] == "/job:ps/task:1"
    assert where["Adam/update_a/ApplyAdam"] == "/job:ps/task:0"


def test_learning_rate_may_be_a_tensor() -> None:
    with Graph().as_default(), Session() as session:
        rate, variable = placeholder("float32", ()), Variable([10.0], name="v")
        rule = kit.GradientDescent(rate)
        train = rule.apply_gradients([([1.0], variable)])
        session.run(initialize_all())

        seen = []
        for value in (1.0, 0.5, 0.25):
            session.run(train, {rate: value})
            seen.append(float(session.run(variable)[0]))

    assert seen == [9.0, 8.5, 8.25]


def test_rate_that_is_not_finite_is_refused_when_it_is_used() -> None:
    with Graph().as_default(), Session() as session:
        rate, variable = placeholder("float32", ()), Variable([10.0], name="v")
        train = kit.Adam(rate).apply_gradients([([1.0], variable)])
        session.run(initialize_all())

        with pytest.raises(InvalidArgumentError, match="learning_rate is nan"):
            session.run(train, {rate: np.nan})
        assert session.run(variable).tolist() == [10.0]


def test_exchange_refuses_a_setting_that_is_a_tensor(cluster: LocalCluster) -> None:
    with Graph().as_default():
        rule = kit.Adam(constant(0.1))

        with pytest.raises(InvalidArgumentError, match="learning_rate is <tensor"):
            toy.begin(cluster, optimizer=rule)


def test_global_step_counts_after_the_updates() -> None:
    graph = Graph()
    with graph.as_default(), Session() as session:
        step = Variable(np.int64(0), trainable=False, name="global_step")
        variable = Variable([1.0], name="v")
        train = kit.GradientDescent(0.5).apply_gradients([([1.0], variable)], step)
        session.run(initialize_all())

        fetched = [session.run([train, variable, step])[0] for _ in range(3)]

        assert fetched == [None, None, None]
        assert (session.run(variable), session.run(step)) == (-0.5, 3)
    before = {op.name for op in train.control_inputs}
    assert {
        control_input.name
        for control_input in graph.op("GradientDescent/update").control_inputs
    } == {"GradientDescent/update_v/ApplyGradientDescent"}
    assert before == {"GradientDescent/update"}


def pairs_of(make: Callable[[Any], Any]) -> Any:
    variable = Variable([1.0, 2.0], name="v")
    return kit.GradientDescent().apply_gradients(make(variable))


@for_each(
    ("misuse", "error", "words"),
    [
        (lambda v: [], ValueError, "no variables"),
        (lambda v: [(None, v)], ValueError, "'v:0'"),
        (lambda v: [(object(), v)], TypeError, "not a gradient of"),
        (lambda v: [("word", v)], TypeError, "string"),
        (lambda v: [(constant([1, 2]), v)], TypeError, "int32"),
        (lambda v: [([1.0, 2.0, 3.0], v)], ValueError, "3"),
        (lambda v: [([1.0], constant([1.0]))], NotImplementedError, "variable"),
    ],
)
def test_misuse_of_apply_gradients_is_refused(
    misuse: Callable[[Any], Any], error: type[Exception], words: str
) -> None:
    with Graph().as_default(), pytest.raises(error, match=words):
        pairs_of(misuse)


@for_each(
    ("is_trained", "loss", "words"),
    [(True, 3, "int32"), (False, 3.0, "no variables"), (True, 3.0, "'v:0'")],
)
def test_loss_that_cannot_be_minimized_is_refused(
    is_trained: bool, loss: float, words: str
) -> None:
    with Graph().as_default():
        Variable([1.0], trainable=is_trained, name="v")

        with pytest.raises(ValueError, match=words):
            kit.GradientDescent().minimize(constant(loss))


def test_minimize_touches_only_its_variables() -> None:
    with Graph().as_default(), Session() as session:
        first, other = Variable(2.0, name="a"), Variable(3.0, name="b")
        train = kit.GradientDescent(1.0).minimize(first * other, variables=[other])
        session.run(initialize_all())

        session.run(train)

        assert session.run([first, other]) == [2.0, 1.0]


def test_slots_can_be_of_a_class_and_title_of_the_callers() -> None:
    class Own(Variable):
        pass

    def make(value: Any, name: str) -> Own:
        return Own(value, trainable=False, name=name)

    with Graph().as_default():
        variable = Variable([1.0], name="v")
        minimizer = Minimizer(kit.Momentum(0.1), "Mine", make)
        train = minimizer.apply([([1.0], variable)])

        slot = minimizer.slot(variable, "momentum")

    assert isinstance(slot, Own)
    assert (slot.op.name, train.name) == ("v/Mine", "Mine")


# -- updates ---------------------------------------------------------------------------


def flat_steps(
    rule: Rule, start: Array, gradients: Sequence[Array]
) -> tuple[Array, dict[str, Array]]:
    """Do what an exchange does with a flat buffer."""
    flat = start.ravel().copy()
    slots = {s.name: np.full_like(flat, s.initial) for s in rule.slots}
    for step, gradient in enumerate(gradients):
        rule.apply(flat, gradient.ravel(), list(slots.values()), flat, step)
    return flat.reshape(start.shape), {
        name: slot.reshape(start.shape) for name, slot in slots.items()
    }


@every_rule
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_update_in_a_graph_has_the_bits_of_the_flat_rule(
    rule: Rule, dtype: Any
) -> None:
    dice = np.random.default_rng(3)
    start = dice.normal(0, 1, (7, 5)).astype(dtype)
    gradients = [dice.normal(0, 1, (7, 5)).astype(dtype) for _ in range(6)]
    scene = Scene(rule, start)

    for gradient in gradients:
        scene.step(gradient)

    value, slots = flat_steps(rule, start, gradients)
    assert scene.value.tobytes() == value.tobytes()
    for name, slot in slots.items():
        assert scene.slot(name).tobytes() == slot.tobytes()


@every_rule
def test_update_on_a_device_has_the_same_bits(rule: Rule) -> None:
    dice = np.random.default_rng(6)
    old, gradient = (dice.normal(0, 1, (4, 3)).astype(np.float32) for _ in range(2))
    slots = [np.full_like(old, slot.initial) for slot in rule.slots]
    rows, rate = np.array([1, 0, 1]), np.float32(0.1)

    for update, inputs in (
        (update_whole, [gradient]),
        (update_rows, [gradient[:3], rows]),
    ):
        value, moved = update(rule, np, old, slots, inputs, rate)
        kept, fed = (
            [strict.asarray(item) for item in part] for part in (slots, inputs)
        )
        new, others = update(rule, strict, strict.asarray(old), kept, fed, rate)

        assert new.get().tobytes() == value.tobytes()
        for first, other in zip(moved, others, strict=True):
            assert other.get().tobytes() == first.tobytes()


def lazily(rule: Rule, rows: Sequence[tuple[list[int], Array]]) -> Array:
    """Do each row that has a gradient by itself, as often as it comes."""
    value = START.astype(np.float32)
    slots = [np.full_like(value, slot.initial) for slot in rule.slots]
    for indices, gradients in rows:
        for row in set(indices):
            total = np.zeros(2, np.float32)
            for index, gradient in zip(indices, gradients, strict=True):
                total = total + gradient if index == row else total
            mine = [slot[row] for slot in slots]
            rule.apply(value[row], total, mine, value[row], 0)
    return value


@for_each("name", [name for name in RULES if name != "adam"])
def test_rows_without_a_gradient_stay_and_repeated_rows_are_summed(name: str) -> None:
    rule, dice = RULES[name], np.random.default_rng(5)
    rows = [
        (indices, dice.normal(0, 1, (3, 2)).astype(np.float32))
        for indices in ([2, 0, 2], [0, 0, 0], [2, 2, 0])
    ]
    scene = Scene(rule, START.astype(np.float32), rows=True)

    for indices, gradients in rows:
        scene.step(gradients, indices)

    np.testing.assert_array_equal(scene.value, lazily(rule, rows))
    assert scene.value[1].tolist() == START[1].tolist()


def test_adam_moves_every_row_also_those_without_a_gradient() -> None:
    rule, start = kit.Adam(0.1), START.astype(np.float32)
    rows, whole = Scene(rule, start, rows=True), Scene(rule, start)

    rows.step(np.array([[1, 2], [3, 4]], np.float32), [1, 1])
    rows.step(np.array([[5, 6]], np.float32), [0])
    whole.step(np.array([[0, 0], [4, 6], [0, 0]], np.float32))
    whole.step(np.array([[5, 6], [0, 0], [0, 0]], np.float32))

    np.testing.assert_array_equal(rows.value, whole.value)
    before = START[1] - 0.1  # after a first step of the size of the rate
    assert (np.abs(rows.value[1] - before) > 1e-3).all()


def test_row_that_is_not_there_is_refused_and_changes_nothing() -> None:
    scene = Scene(kit.Momentum(0.1), START, rows=True)

    with pytest.raises(InvalidArgumentError, match="update_v"):
        scene.step(np.ones((1, 2)), [3])

    assert scene.value.tolist() == START.tolist()
    assert not scene.slot("momentum").any()


@pytest.mark.slow
def test_updates_of_several_threads_never_mix() -> None:
    n_threads, n_steps = 4, 50
    scene = Scene(kit.Momentum(1.0, momentum=1.0), np.zeros(3, np.float32))

    def work() -> None:
        for _ in range(n_steps):
            scene.step(np.ones(3, np.float32))

    threads = [threading.Thread(target=work) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    # The n-th update adds n to the slot's sum, whichever thread makes it.
    n = n_threads * n_steps
    assert scene.slot("momentum").tolist() == [n] * 3
    assert scene.value.tolist() == [-n * (n + 1) / 2] * 3


def test_value_that_was_read_is_not_changed_by_an_update() -> None:
    scene = Scene(kit.Momentum(0.5), START)
    value, slot = scene.value, scene.slot("momentum")

    scene.step(np.ones_like(START))

    assert value.tolist() == START.tolist()
    assert not slot.any()


def test_update_of_an_uninitialised_variable_is_refused() -> None:
    with Graph().as_default(), Session() as session:
        variable = Variable([1.0], name="v")
        train = kit.Momentum(0.1).apply_gradients([([1.0], variable)])

        with pytest.raises(FailedPreconditionError, match="variable 'v'"):
            session.run(train)
        session.run(variable.initializer)
        with pytest.raises(FailedPreconditionError, match="variable 'v/Momentum'"):
            session.run(train)
        assert session.run(variable) == [1.0]
