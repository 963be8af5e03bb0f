"""Many small gradients at once: the buffer and the complaints are as one by one."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import GradientMismatch, NotFinite
from kit.exchange.layout import Spec, lay_out
from kit.exchange.plan import GRAD
from kit.exchange.ports.memory import Memory
from kit.training.worker.gradient_buffer import GradientBuffer
from tests.cases import for_each
from tests.exchange.models import models

MANY = [Spec(f"p{number}", (2, 3), "float32") for number in range(201)]
Change = Callable[[Any], Any]


@pytest.fixture(params=[True, False], ids=["compiled", "python"])
def native(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def made(specs: list[Spec], native: bool = True) -> tuple[GradientBuffer, Memory]:
    memory = Memory(lay_out(specs, n_workers=2))
    return GradientBuffer(memory, "/job:worker/task:1", native=native), memory


def values(specs: list[Spec], seed: int = 0) -> dict[str, Any]:
    dice = np.random.default_rng(seed)
    return {
        spec.name: np.asarray(dice.normal(size=spec.shape)).astype(spec.dtype)
        for spec in specs
    }


def hand_over(gradient_buffer: GradientBuffer, gradients: Any, step: int = 0) -> None:
    gradient_buffer.begin(step)
    gradient_buffer.take_all(gradients)
    gradient_buffer.end()


def assert_taken(memory: Memory, gradients: dict[str, Any]) -> None:
    for name, target in memory.leaves(GRAD).items():
        np.testing.assert_array_equal(target, gradients[name], err_msg=name)


@given(models(30), st.floats(0.1, 10), st.integers(1, 4))
def test_all_at_once_fills_the_buffer_as_one_by_one_does(
    specs: list[Spec], weight: float, steps: int
) -> None:
    joint, first = made(specs)
    alone, second = made(specs)
    given_values = values(specs)

    for step in range(steps):
        for value in given_values.values():
            value += 1
        joint.begin(step, weight)
        joint.take_all(given_values)
        alone.begin(step, weight)
        for name, value in given_values.items():
            alone.take(name, value)

    for name, target in first.leaves(GRAD).items():
        assert target.tobytes() == second.leaves(GRAD)[name].tobytes()


@for_each(
    "change",
    [
        lambda value: np.asfortranarray(value),
        lambda value: np.repeat(value, 2, axis=1)[:, ::2],
        lambda value: value[::-1].copy()[::-1],
    ],
)
def test_array_that_lies_otherwise_in_memory_is_taken_by_its_elements(
    change: Change, native: bool
) -> None:
    gradient_buffer, memory = made(MANY, native)
    given_values = values(MANY)
    given_values["p7"] = change(given_values["p7"])

    hand_over(gradient_buffer, given_values)

    assert_taken(memory, given_values)


@pytest.mark.slow
@for_each(
    ("change", "words"),
    [
        (lambda value: value.T.copy(), r"float32\[3, 2\]"),
        (lambda value: value.ravel(), r"float32\[6\]"),
        (lambda value: value.astype(np.float64), r"float64\[2, 3\]"),
        (lambda value: value.astype(">f4"), r">f4\[2, 3\]"),
        (lambda value: value.view(np.int32), r"int32\[2, 3\]"),
        (lambda value: 1.0, r"float64\[\]"),
        (lambda value: None, "is None, as torch gives it"),
    ],
)
@for_each("repeats", [0, 3])
def test_one_unfit_gradient_among_many_is_named(
    change: Change, words: str, repeats: int, native: bool
) -> None:
    gradient_buffer, _ = made(MANY, native)
    given_values = values(MANY)
    for step in range(repeats):
        hand_over(gradient_buffer, given_values, step)
    given_values["p42"] = change(given_values["p42"])

    with pytest.raises(GradientMismatch, match=rf"step 9: .*'p42'.*{words}"):
        hand_over(gradient_buffer, given_values, 9)


@pytest.mark.parametrize("repeats", [0, 3])
def test_one_gradient_that_is_not_finite_is_named_and_counted(
    repeats: int, native: bool
) -> None:
    gradient_buffer, _ = made(MANY, native)
    given_values = values(MANY)
    for step in range(repeats):
        hand_over(gradient_buffer, given_values, step)
    given_values["p42"][1] = [np.nan, np.inf, np.nan]

    with pytest.raises(NotFinite, match=r"'p42' holds 2 NaN and 1 infinite .* of 6"):
        hand_over(gradient_buffer, given_values)


def test_large_values_are_finite_though_their_squares_are_not(native: bool) -> None:
    gradient_buffer, memory = made(MANY, native)
    given_values = {name: item * 1e30 for name, item in values(MANY).items()}

    hand_over(gradient_buffer, given_values)

    assert_taken(memory, given_values)


@pytest.mark.slow
@pytest.mark.parametrize("weight", [0.1, 1.0, 3.0])
def test_thousands_are_weighed_as_one_by_one(native: bool, weight: float) -> None:
    joint, first = made(MANY, native)
    alone, second = made(MANY, native)
    given_values = values(MANY)

    joint.begin(0, weight)
    joint.take_all(given_values)
    alone.begin(0, weight)
    for name, value in given_values.items():
        alone.take(name, value)

    for name, target in first.leaves(GRAD).items():
        assert target.tobytes() == second.leaves(GRAD)[name].tobytes()


def test_order_of_the_names_does_not_matter(native: bool) -> None:
    gradient_buffer, memory = made(MANY, native)
    given_values = values(MANY)

    hand_over(gradient_buffer, dict(reversed(given_values.items())))

    assert_taken(memory, given_values)


def test_gradients_written_into_the_same_arrays_are_read_anew_each_step(
    native: bool,
) -> None:
    gradient_buffer, memory = made(MANY, native)
    given_values = values(MANY)

    for step in range(5):
        for value in given_values.values():
            value += step
        hand_over(gradient_buffer, given_values, step)
        assert_taken(memory, given_values)


def test_one_new_array_among_those_that_come_again_is_taken(native: bool) -> None:
    gradient_buffer, memory = made(MANY, native)
    given_values = values(MANY)

    for step in range(6):
        given_values["p99"] = np.full((2, 3), step, np.float32)
        hand_over(gradient_buffer, given_values, step)
        assert_taken(memory, given_values)


@for_each("lasting", [(), ("p99",), ("p0",)])
def test_gradients_of_past_steps_are_not_kept_alive(
    lasting: tuple[str, ...], native: bool
) -> None:
    gradient_buffer, _ = made(MANY, native)
    constant = values(MANY)
    seen: list[weakref.ref[Any]] = []

    for step in range(6):
        fresh = values(MANY, step) | {name: constant[name] for name in lasting}
        seen.append(weakref.ref(fresh["p50"]))
        hand_over(gradient_buffer, fresh, step)
    del fresh
    gc.collect()

    assert [function() for function in seen] == [None] * 6
