"""Strategies against plain arithmetic, beside what the original gave (tests/tf1)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.devices.replica import (
    GreedyLoadBalancingStrategy,
    RandomStrategy,
    RoundRobinStrategy,
    byte_size_load_fn,
)
from tests.cases import for_each


@dataclass
class Output:
    shape: tuple[int | None, ...] | None
    dtype: Any = np.float32


@dataclass
class Op:
    name: str = "w"
    outputs: list[Output] = field(default_factory=list)
    type: str = "VariableV2"
    device: str = ""


def variable(*shape: int | None, dtype: Any = "f4") -> Op:
    return Op(outputs=[Output(shape, np.dtype(dtype))])


@given(st.integers(1, 9), st.integers(0, 40))
def test_round_robin_gives_each_task_its_turn(n_tasks: int, n_ops: int) -> None:
    strategy = RoundRobinStrategy(n_tasks)

    inputs = [strategy(Op()) for _ in range(n_ops)]

    assert inputs == [i % n_tasks for i in range(n_ops)]


@given(st.integers(1, 5), st.lists(st.integers(-9, 100)))
def test_greedy_never_loads_a_task_that_had_more_than_another(
    n_tasks: int, loads: list[int]
) -> None:
    todo = iter(loads)
    strategy = GreedyLoadBalancingStrategy(n_tasks, lambda op: next(todo))
    totals = np.zeros(n_tasks, dtype=np.int64)

    for load in loads:
        task = strategy(Op())
        assert task == np.argmin(totals)
        totals[task] += load


def test_greedy_keeps_count_of_loads_beyond_the_digits_of_a_float() -> None:
    strategy = GreedyLoadBalancingStrategy(2, int)

    # As floats the first two would be equal, and the third task the first.
    inputs = [strategy(load) for load in (2**53 + 1, 2**53, 0)]

    assert inputs == [0, 1, 1]


def test_greedy_counts_nothing_for_an_op_whose_load_is_not_known() -> None:
    strategy = GreedyLoadBalancingStrategy(2, byte_size_load_fn)

    with pytest.raises(ValueError, match="not known"):
        strategy(variable(None))

    assert strategy(variable(1)) == 0


@given(st.text(), st.integers(1, 9), st.integers(0, 99))
def test_random_is_the_digest_of_name_and_seed(
    name: str, n_tasks: int, seed: int
) -> None:
    digest = hashlib.md5(f"{name}_{seed}".encode()).hexdigest()

    assert RandomStrategy(n_tasks, seed)(Op(name)) == int(digest, 16) % n_tasks


@for_each(
    ("op", "n_bytes"),
    [
        (variable(), 4),
        (variable(3, 4, dtype="f8"), 96),
        (variable(2, 3, dtype="?"), 6),
        (variable(2, 3, dtype="O"), 48),
        (variable(0, 3), 0),
        (variable(2**30, 2**30, 2**30), 2**92),
    ],
)
def test_the_byte_size_is_elements_times_element_size(op: Op, n_bytes: int) -> None:
    assert byte_size_load_fn(op) == n_bytes


@for_each(
    ("op", "why"),
    [
        (Op("none", []), "'none' has 0 outputs"),
        (Op("two", [Output((1,)), Output((1,))]), "'two' has 2 outputs"),
        (Op("open", [Output((None, 2))]), r"'open' is \(None, 2\)"),
        (Op("unknown", [Output(None)]), "'unknown' is None"),
    ],
)
def test_an_op_without_one_full_shape_has_no_byte_size(op: Op, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        byte_size_load_fn(op)


STRATEGIES = [
    RoundRobinStrategy,
    RandomStrategy,
    lambda n: GreedyLoadBalancingStrategy(n, byte_size_load_fn),
]


@for_each("make", STRATEGIES)
@for_each(
    ("n_tasks", "error", "words"),
    [
        *((n, ValueError, f"at least one task, not {n}") for n in (0, -1)),
        *((n, TypeError, "integer") for n in ("2", 1.5, None)),
    ],
)
def test_a_strategy_needs_a_whole_number_of_tasks(
    make: Any, n_tasks: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        make(n_tasks)


def test_a_load_that_is_no_function_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"load_fn must be a function .* not 4"):
        GreedyLoadBalancingStrategy(2, 4)  # type: ignore[arg-type]
