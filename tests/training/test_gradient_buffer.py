"""From a worker's gradients to the flat buffer, one step at a time."""

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
from kit.exchange.layout import Spec, intersect, lay_out
from kit.exchange.plan import GRAD
from kit.exchange.ports.memory import Memory
from kit.training.worker.gradient_buffer import GradientBuffer
from tests.cases import for_each
from tests.exchange.models import models

TASK = "/job:worker/task:1"
SPECS = [Spec("w", (2, 3), "float32"), Spec("b", (3,), "float64")]


def made(
    specs: Any = SPECS, bucket_bytes: int = 0, native: bool = True
) -> tuple[GradientBuffer, Memory]:
    memory = Memory(lay_out(specs, n_workers=2, bucket_bytes=bucket_bytes))
    return GradientBuffer(memory, TASK, native=native), memory


def values(specs: Any = SPECS, seed: int = 0) -> dict[str, Any]:
    dice = np.random.default_rng(seed)
    return {
        spec.name: np.asarray(dice.normal(size=spec.shape)).astype(spec.dtype)
        for spec in specs
    }


@given(models(), st.integers(1, 64), st.randoms(use_true_random=False))
def test_every_bucket_is_told_once_when_all_its_bytes_are_there(
    specs: list[Spec], bucket_bytes: int, order: Any
) -> None:
    gradient_buffer, memory = made(specs, bucket_bytes)
    layout, given_values = memory.layout, values(specs)
    names = list(given_values)
    order.shuffle(names)
    there: set[str] = set()
    lines: list[int] = []

    gradient_buffer.begin(0)
    for name in names:
        ready = list(gradient_buffer.take(name, given_values[name]))
        there.add(name)
        for bucket in ready:
            inside = {
                leaf.spec.name
                for leaf in layout.leaves
                if intersect(leaf.range, layout.buckets[bucket].range)
            }
            assert inside <= there
        lines += ready
    gradient_buffer.end()

    assert sorted(lines) == list(range(len(layout.buckets)))
    for name, target in memory.gradients().items():
        np.testing.assert_array_equal(target, given_values[name])


@given(st.floats(0.1, 10))
def test_gradients_are_weighted_in_their_own_dtype(weight: float) -> None:
    gradient_buffer, memory = made()
    given_values = values()

    gradient_buffer.begin(3, weight)
    gradient_buffer.take_all(given_values)

    for name, target in memory.gradients().items():
        wanted = given_values[name] * given_values[name].dtype.type(weight)
        np.testing.assert_array_equal(target, wanted)


def test_list_is_taken_in_the_order_of_params() -> None:
    gradient_buffer, memory = made()
    given_values = values()

    gradient_buffer.begin(0)
    gradient_buffer.take_all(list(given_values.values()))

    np.testing.assert_array_equal(memory.leaves(GRAD)["b"], given_values["b"])


def test_source_arrays_are_left_alone() -> None:
    gradient_buffer, _ = made()
    given_values = values()

    gradient_buffer.begin(0, 2.0)
    gradient_buffer.take_all(given_values)

    for name, value in values().items():
        np.testing.assert_array_equal(given_values[name], value)


@pytest.mark.parametrize(
    ("bad", "counted"),
    [
        (np.array([1, np.nan, np.nan]), "2 NaN and 0 infinite values of 3"),
        (np.array([np.inf, 0, -np.inf]), "0 NaN and 2 infinite values of 3"),
    ],
)
def test_values_that_are_not_finite_are_counted(bad: Any, counted: str) -> None:
    gradient_buffer, _ = made()
    gradient_buffer.begin(5)

    with pytest.raises(NotFinite) as caught:
        gradient_buffer.take("b", bad)

    assert counted in str(caught.value)
    assert f"{TASK}, step 5: the gradient of 'b'" in str(caught.value)
    assert (caught.value.task, caught.value.step) == (TASK, 5)


def test_weight_that_overflows_is_noticed() -> None:
    gradient_buffer, _ = made()
    gradient_buffer.begin(0, 1e10)
    largest = np.full((2, 3), np.finfo(np.float32).max)

    with np.errstate(over="ignore"), pytest.raises(NotFinite, match="6 infinite"):
        gradient_buffer.take("w", largest)


@for_each(
    ("given_gradients", "words"),
    [
        ({}, "no gradient for 'w', 'b'"),
        ({**values(), "x": 1, "y": 2}, "a gradient for 'x', 'y', unknown here"),
        ({"w": values()["w"], "x": 1}, "no gradient for 'b' and a gradient for 'x'"),
        ([values()["w"]], "a list of 2 arrays"),
        (7, "int as gradients"),
        (None, "NoneType as gradients"),
    ],
)
def test_wrong_set_of_gradients_is_described(given_gradients: Any, words: str) -> None:
    gradient_buffer, memory = made()
    gradient_buffer.begin(0)

    with pytest.raises(GradientMismatch, match=words):
        gradient_buffer.take_all(given_gradients)

    assert not any(target.any() for target in memory.gradients().values())


def test_second_gradient_of_one_parameter_is_refused() -> None:
    gradient_buffer, _ = made()
    gradient_buffer.begin(0)
    gradient_buffer.take("b", np.zeros(3))

    with pytest.raises(GradientMismatch, match="'b' was handed over twice"):
        gradient_buffer.take("b", np.zeros(3))


def test_each_step_expects_all_gradients_again() -> None:
    gradient_buffer, _ = made()
    for step in range(3):
        gradient_buffer.begin(step)
        gradient_buffer.take_all(values(seed=step))
        gradient_buffer.end()
    gradient_buffer.begin(3)

    with pytest.raises(GradientMismatch, match=r"step 3: .*'w', 'b'"):
        gradient_buffer.end()


# -- many small gradients at once ------------------------------------------------------

MANY = [Spec(f"p{number}", (2, 3), "float32") for number in range(201)]
Change = Callable[[Any], Any]


@pytest.fixture(params=[True, False], ids=["compiled", "python"])
def native(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def hand_over(gradient_buffer: GradientBuffer, gradients: Any, step: int = 0) -> None:
    gradient_buffer.begin(step)
    gradient_buffer.take_all(gradients)
    gradient_buffer.end()


def assert_taken(memory: Memory, gradients: dict[str, Any]) -> None:
    for name, target in memory.leaves(GRAD).items():
        np.testing.assert_array_equal(target, gradients[name], err_msg=name)


def assert_as_one_by_one(
    specs: list[Spec], weight: float, steps: int = 1, native: bool = True
) -> None:
    joint, first = made(specs, native=native)
    alone, second = made(specs, native=native)
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


@given(models(30), st.floats(0.1, 10), st.integers(1, 4))
def test_all_at_once_fills_the_buffer_as_one_by_one_does(
    specs: list[Spec], weight: float, steps: int
) -> None:
    assert_as_one_by_one(specs, weight, steps)


@pytest.mark.slow
@for_each("weight", [0.1, 1.0, 3.0])
def test_thousands_are_weighed_as_one_by_one(native: bool, weight: float) -> None:
    assert_as_one_by_one(MANY, weight, native=native)


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
    gradient_buffer, memory = made(MANY, native=native)
    given_values = values(MANY)
    given_values["p7"] = change(given_values["p7"])

    hand_over(gradient_buffer, given_values)

    assert_taken(memory, given_values)


def used(native: bool, repeats: int) -> tuple[GradientBuffer, dict[str, Any]]:
    """Return a buffer that has had the same arrays so often, and these."""
    gradient_buffer, _ = made(MANY, native=native)
    given_values = values(MANY)
    for step in range(repeats):
        hand_over(gradient_buffer, given_values, step)
    return gradient_buffer, given_values


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
    gradient_buffer, given_values = used(native, repeats)
    given_values["p42"] = change(given_values["p42"])

    with pytest.raises(GradientMismatch, match=rf"step 9: .*'p42'.*{words}"):
        hand_over(gradient_buffer, given_values, 9)


@for_each("repeats", [0, 3])
def test_one_gradient_that_is_not_finite_is_named_and_counted(
    repeats: int, native: bool
) -> None:
    gradient_buffer, given_values = used(native, repeats)
    given_values["p42"][1] = [np.nan, np.inf, np.nan]

    with pytest.raises(NotFinite, match=r"'p42' holds 2 NaN and 1 infinite .* of 6"):
        hand_over(gradient_buffer, given_values)


def test_large_values_are_finite_though_their_squares_are_not(native: bool) -> None:
    gradient_buffer, memory = made(MANY, native=native)
    given_values = {name: item * 1e30 for name, item in values(MANY).items()}

    hand_over(gradient_buffer, given_values)

    assert_taken(memory, given_values)


def test_order_of_the_names_does_not_matter(native: bool) -> None:
    gradient_buffer, memory = made(MANY, native=native)
    given_values = values(MANY)

    hand_over(gradient_buffer, dict(reversed(given_values.items())))

    assert_taken(memory, given_values)


def test_gradients_written_into_the_same_arrays_are_read_anew_each_step(
    native: bool,
) -> None:
    gradient_buffer, memory = made(MANY, native=native)
    given_values = values(MANY)

    for step in range(5):
        for value in given_values.values():
            value += step
        hand_over(gradient_buffer, given_values, step)
        assert_taken(memory, given_values)


def test_one_new_array_among_those_that_come_again_is_taken(native: bool) -> None:
    gradient_buffer, memory = made(MANY, native=native)
    given_values = values(MANY)

    for step in range(6):
        given_values["p99"] = np.full((2, 3), step, np.float32)
        hand_over(gradient_buffer, given_values, step)
        assert_taken(memory, given_values)


@for_each("lasting", [(), ("p99",), ("p0",)])
def test_gradients_of_past_steps_are_not_kept_alive(
    lasting: tuple[str, ...], native: bool
) -> None:
    gradient_buffer, _ = made(MANY, native=native)
    constant = values(MANY)
    seen: list[weakref.ref[Any]] = []

    for step in range(6):
        fresh = values(MANY, step) | {name: constant[name] for name in lasting}
        seen.append(weakref.ref(fresh["p50"]))
        hand_over(gradient_buffer, fresh, step)
    del fresh
    gc.collect()

    assert [function() for function in seen] == [None] * 6
