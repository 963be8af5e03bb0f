"""From a worker's gradients to the flat buffer, one step at a time."""

from __future__ import annotations

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


def made(specs: Any = SPECS, bucket_bytes: int = 0) -> tuple[GradientBuffer, Memory]:
    memory = Memory(lay_out(specs, n_workers=2, bucket_bytes=bucket_bytes))
    return GradientBuffer(memory, TASK), memory


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


def test_large_values_are_finite_though_their_squares_are_not() -> None:
    gradient_buffer, _ = made()
    gradient_buffer.begin(0)

    assert list(gradient_buffer.take("w", np.full((2, 3), 1e30, np.float32))) == [1]


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
