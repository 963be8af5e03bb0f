"""Topologies with an order of addition of their own: sums by hand, and in trainings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kit
from kit.errors import InvalidArgumentError
from kit.exchange.layout import Spec, lay_out
from kit.exchange.plan import Group
from kit.exchange.topologies.topology import by_name, has_own_order, registered
from tests.cases import for_each
from tests.training.toy import (
    BATCH,
    DATA,
    Params,
    fit,
    gradients,
    initial,
    quick_cluster,
    same_bits,
)

ORDERS: dict[tuple[str, int], Any] = {
    ("tree", 2): (0, 1),
    ("tree", 4): (0, (1, 3), 2),
    ("tree", 7): (0, (1, 3, 4), (2, 5, 6)),
    ("recursive-doubling", 2): (0, 1),
    ("recursive-doubling", 3): ((0, 1), 2),
    ("recursive-doubling", 4): ((0, 1), (2, 3)),
    ("recursive-doubling", 6): (((0, 1), (2, 3)), (4, 5)),
}


@for_each("case", list(ORDERS))
def test_the_order_of_addition_is_the_documented_one(case: tuple[str, int]) -> None:
    name, n = case

    assert by_name(name).order(n, 0) == ORDERS[case]


@for_each("n", [1, 2, 3, 4, 7, 8])
def test_messages_in_a_row_grow_with_the_logarithm(n: int) -> None:
    layout = lay_out([Spec("w", (40,), "float32")], n)
    group = Group((), tuple(range(n)), (), tuple(range(n)))
    depth = n.bit_length() - 1
    power = 2**depth

    assert by_name("tree").hops(layout, group) == 2 * depth
    # One more says that the last buffer has been read; two are for the rest of a power.
    wanted = (depth + 1) * (n > 1) + (n > power)
    assert by_name("recursive-doubling").hops(layout, group) == wanted


def test_only_these_have_an_order_of_their_own() -> None:
    own = {
        topology.name
        for topology in registered()
        if topology.agrees and has_own_order(topology)
    }

    assert own == {"tree", "recursive-doubling"}


def summed(shares: list[Any], order: Any) -> Any:
    if isinstance(order, int):
        return shares[order].copy()
    total = summed(shares, order[0])
    for item in order[1:]:
        total += summed(shares, item)
    return total


def replayed(steps: int, name: str, n: int) -> Params:
    params, optimizer = initial(), kit.Adam(0.02)
    slots = {
        key: [np.full_like(value, slot.initial) for slot in optimizer.slots]
        for key, value in params.items()
    }
    for step in range(steps):
        own = gradients(params, step, n)
        for key, value in params.items():
            total = summed([row[key] for row in own], ORDERS[name, n])
            mean = total * total.dtype.type(1 / n)
            out = np.empty(value.size, value.dtype)
            kept = [slot.ravel() for slot in slots[key]]
            optimizer.apply(value.ravel(), mean.ravel(), kept, out, step)
            params[key] = out.reshape(value.shape)
    return params


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tree", "recursive-doubling"])
def test_a_training_has_the_bits_of_its_order_and_switches(name: str) -> None:
    with quick_cluster(0, 4) as cluster:
        how: dict[str, Any] = {"batch": BATCH, "cluster": cluster}
        how |= {"optimizer": kit.Adam(0.02), "topology": name}
        run = kit.train(fit, initial(), DATA, steps=6, **how).wait(20)
        other = kit.train(fit, initial(), DATA, steps=60, **how)
        other.switch("ring", at=40)
        other.wait(20)

    assert same_bits(run.params, replayed(6, name, 4))
    assert all(row.agrees for row in [*run.traffic, *other.traffic])
    assert {row.topology for row in other.traffic} == {name, "ring"}


def test_a_recommendation_leaves_them_out_and_says_why() -> None:
    result = kit.recommend(4000, worker=4)

    assert "order of its own" in result.left_out["tree"]
    with pytest.raises(InvalidArgumentError, match="no topology is called 'trie'"):
        kit.rehearse(4000, worker=4, topology="trie")
    assert kit.rehearse(4000, worker=4, topology="tree").n_bytes == 2 * 3 * 4000
