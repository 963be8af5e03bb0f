"""Streams of random ops: what repeats them, what does not, and how wide they spread."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from kit import random
from kit.errors import InvalidArgumentError
from kit.graph.graph import Graph
from kit.graph.node import from_plain, node_of, to_plain
from kit.graph.ops.state.source import constant, placeholder
from kit.session.client.session import Session
from tests.cases import for_each

DRAWS: dict[str, Callable[..., Any]] = {
    "uniform": lambda **more: random.uniform([50], **more),
    "normal": lambda **more: random.normal([50], **more),
    "truncated_normal": lambda **more: random.truncated_normal([50], **more),
    "integers": lambda **more: random.integers([50], 0, 1000, **more),
    "shuffle": lambda **more: random.shuffle(np.arange(50), **more),
    "wide bounds": lambda **more: random.normal([50], stddev=constant(3.0), **more),
}


def run(fetches: Any, feeds: Any = None) -> Any:
    with Session() as session:
        return session.run(fetches, feeds)


def differ(*arrays: Any) -> bool:
    return not any(np.array_equal(*pair) for pair in combinations(arrays, 2))


@for_each("draw", DRAWS.values(), ids=DRAWS)
def test_runs_draw_on_and_equal_seeds_repeat_them(draw: Callable[..., Any]) -> None:
    drawn, twin, other, unseeded = draw(seed=3), draw(seed=3), draw(seed=4), draw()

    with Session() as session:
        first, second = session.run(drawn), session.run(drawn)

    assert differ(first, second, run(other), run(unseeded), run(unseeded))
    assert np.array_equal(run(drawn), first)
    assert np.array_equal(run(twin), first)


@for_each("draw", DRAWS.values(), ids=DRAWS)
def test_graphs_seed_repeats_a_program_whose_ops_differ(
    draw: Callable[..., Any],
) -> None:
    values = []
    for seed in (7, 7, 8):
        with Graph().as_default() as graph:
            graph.seed = seed
            values.append(run([draw(), draw()]))

    assert np.array_equal(values[0], values[1])
    assert differ(*values[0], values[2][0])


def test_op_that_is_used_twice_is_drawn_once_in_a_run() -> None:
    drawn = random.normal([20])

    difference, values = run([drawn - drawn, drawn])

    assert not difference.any()
    assert values.any()


def test_tensors_as_bounds_are_used_as_they_are_fed() -> None:
    low, high = placeholder("float32", ()), placeholder("float32", (2,))
    least, most = placeholder("int32", ()), placeholder("int32", ())
    numbers = random.uniform([300, 2], low, high, seed=1)
    whole = random.integers([300], least, most, seed=2)

    result, counted = run([numbers, whole], {low: 5, high: [6, 9], least: 4, most: 6})

    assert numbers.shape == (300, 2)
    assert result.min() >= 5
    assert result.max(axis=0) == pytest.approx([6, 9], abs=0.1)
    assert set(counted.tolist()) == {4, 5}


def test_shape_may_be_a_tensor_of_which_the_graph_knows_what_can_be_known() -> None:
    x = placeholder("float32", (None, 4))
    shape = placeholder("int32", (3,))

    like, whole = random.normal([x.shape[1], 2]), random.uniform(shape)
    rows = random.normal([np.shape(x)[0], 4])

    assert (like.shape, whole.shape) == ((4, 2), (None, None, None))
    assert rows.shape == (None, 4)
    result = run([rows, whole], {x: np.zeros((7, 4)), shape: [1, 0, 2]})
    assert [tensor.shape for tensor in result] == [(7, 4), (1, 0, 2)]


def test_seeds_of_any_size_travel_as_plain_data(graph: Graph) -> None:
    seed: Any = np.int64(-5)
    drawn = random.normal([3], seed=seed)
    random.uniform([2], seed=2**70)

    plain, arrays = to_plain([node_of(op) for op in graph.ops])
    back = from_plain(plain, arrays)

    assert [item.attrs for item in back] == [op.attrs for op in graph.ops]
    assert drawn.op.attrs["seeds"][1] == -5


REFUSED: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "integers by normal": (
        TypeError,
        "integers",
        lambda: random.normal([2], dtype=int),
    ),
    "small integers": (TypeError, "int8", lambda: random.integers([2], 0, 5, "int8")),
    "no integer": (ValueError, "low < high", lambda: random.integers([2], 5, 5)),
    "negative size": (ValueError, "-1", lambda: random.uniform([2, -1])),
    "no shape": (TypeError, "None", lambda: random.uniform(None)),
    "shape of floats": (TypeError, "float", lambda: random.uniform([1.5])),
}


@for_each(("kind", "words", "line"), REFUSED.values(), ids=REFUSED)
def test_line_that_cannot_be_is_refused_when_it_is_written(
    kind: type[Exception], words: str, line: Callable[[], Any]
) -> None:
    with pytest.raises(kind, match=words):
        line()


def test_fed_bounds_without_an_integer_between_them_end_the_run() -> None:
    most = placeholder("int32", ())

    with pytest.raises(InvalidArgumentError, match="minval < maxval"):
        run(random.integers([2], 3, most), {most: 3})
