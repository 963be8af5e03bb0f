"""An optimizer's updates in a graph: their bits, their rows, and nobody in between."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import FailedPreconditionError, InvalidArgumentError
from kit.graph.graph import Graph
from kit.graph.variable import Variable
from kit.session.client.session import Session
from kit.training.optimizers.graph_rules import update_rows, update_whole
from kit.training.optimizers.rule import Rule
from tests.cases import for_each
from tests.strict_arrays import strict
from tests.training.graph_scene import RULES, START, Array, Scene, every_rule


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
