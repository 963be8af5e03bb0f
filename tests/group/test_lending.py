"""Large sums work on the caller's own arrays, with the bits and bytes of small ones."""

from __future__ import annotations

from itertools import cycle, product
from typing import Any

import numpy as np
import pytest

import kit
from kit.exchange.topologies.topology import registered
from tests.group.model import ORDERS, Step, summed
from tests.group.scene import scene

ALGORITHMS = [item.name for item in registered() if item.agrees and not item.needs_ps]
BUCKET = 1 << 18
SIZE = 300_021  # five buckets of float32, and ten of float64


def wanted(values: list[Any], op: str, algorithm: str) -> Any:
    """Return the sum, bucket by bucket, each in the order of the algorithm."""
    n_buckets = -(-values[0].nbytes // BUCKET)
    step = Step("all_reduce", "", 0, 0, 0, op, algorithm)
    parts = zip(*(np.array_split(value, n_buckets) for value in values), strict=True)
    return np.concatenate([summed(step, part) for part in parts])


def numbers(rank: int, dtype: str) -> Any:
    rng = np.random.default_rng(rank)
    return (rng.standard_normal(SIZE) * 10.0 ** rng.integers(-3, 3, SIZE)).astype(dtype)


# How a task gives its array, and where its result goes.
def in_place(group: kit.Group, x: Any, **how: Any) -> Any:
    assert group.all_reduce(x, out=x, **how) is x
    return x


def to_another(group: kit.Group, x: Any, **how: Any) -> Any:
    before, out = x.copy(), np.zeros_like(x)
    group.all_reduce(x, out=out, **how)
    assert np.array_equal(x, before)
    return out


def to_a_new_one(group: kit.Group, x: Any, **how: Any) -> Any:
    before = x.copy()
    result = group.all_reduce(x, **how)
    assert np.array_equal(x, before)
    return result


def with_gaps(group: kit.Group, x: Any, **how: Any) -> Any:
    room = np.zeros((len(x), 2), x.dtype)
    room[:, 0] = x
    group.all_reduce(room[:, 0], out=room[:, 0], **how)
    assert not room[:, 1].any()
    return room[:, 0]


def one_further(group: kit.Group, x: Any, **how: Any) -> Any:
    both = np.concatenate([x[:1], x])
    return group.all_reduce(both[1:], out=both[:-1], **how)


WAYS = (in_place, to_another, to_a_new_one, with_gaps, one_further)


KINDS = ("sum", "float32"), ("mean", "float64")


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_tasks_that_give_their_arrays_in_any_way_get_the_same_bits(n: int) -> None:
    # First all in the same way, then each in its own; of each algorithm both kinds.
    turns = list(zip(product(ALGORITHMS, range(3)), cycle(KINDS), strict=False))

    def program(group: kit.Group) -> Any:
        results = list[Any]()
        for (algorithm, turn), (op, dtype) in turns:
            way = WAYS[(0, group.rank, group.rank + 2)[turn] % len(WAYS)]
            x = numbers(group.rank, dtype)
            results.append(way(group, x, op=op, algorithm=algorithm).copy())
        return results

    with scene(n, values={"bucket_bytes": BUCKET}) as stage:
        every = stage.play(program)
        traffic = stage.groups[0].traffic

    assert traffic.measured == traffic.formula
    for number, ((algorithm, _), (op, dtype)) in enumerate(turns):
        values = [numbers(rank, dtype) for rank in range(n)]
        total = wanted(values, op, algorithm if algorithm in ORDERS else "ring")
        for results in every:
            assert results[number].tobytes() == total.tobytes(), (algorithm, op)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{"native": False}, {"transport": "tcp", "insecure": True}]
)
def test_array_that_cannot_be_lent_is_summed_all_the_same(
    settings: dict[str, Any],
) -> None:
    with scene(2, values=settings | {"bucket_bytes": BUCKET}) as stage:
        results = stage.play(lambda group: in_place(group, numbers(group.rank, "f4")))

    total = wanted([numbers(rank, "f4") for rank in range(2)], "sum", "ring")
    assert [result.tobytes() for result in results] == [total.tobytes()] * 2
