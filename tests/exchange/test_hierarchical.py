"""The ring of hosts: its bytes and messages between hosts, by formulas of its own."""

from __future__ import annotations

import pytest

from benchmarks.hosts import between_hosts
from kit.exchange.layout import Layout, Spec, lay_out
from kit.exchange.plan import Group
from kit.exchange.topologies.counting import counted_hops
from kit.exchange.topologies.hierarchical import Hierarchical
from kit.exchange.topologies.topology import by_name
from kit.testing import check_topology
from tests.cases import for_each

ITEMS = 840 * 64  # shared evenly by all groups here


class Long(Hierarchical):
    """Never sends the rests along where that takes more bytes."""

    hop_bytes = 0


class Short(Hierarchical):
    """Always sends them along."""

    hop_bytes = 1 << 40


def on_hosts(n_hosts: int, each: int) -> tuple[Layout, Group]:
    n = n_hosts * each
    layout = lay_out([Spec("w", (ITEMS,), "float32")], n, 4 * ITEMS)
    hosts = tuple(rank // each for rank in range(n))
    return layout, Group((), tuple(range(n)), (), hosts)


@pytest.mark.slow
@for_each("topology", [Short(), Long()])
def test_both_ways_keep_the_contract(topology: Hierarchical) -> None:
    check_topology(topology, workers=[7], servers=[0])


@for_each("n_hosts", [2, 3, 4])
@for_each("each", [1, 2, 4])
def test_bytes_and_messages_between_hosts_are_those_of_the_formulas(
    n_hosts: int, each: int
) -> None:
    layout, group = on_hosts(n_hosts, each)
    size, n = layout.payload_bytes, n_hosts * each
    around = 2 * (n_hosts - 1) / n_hosts * size
    for topology, rests, more in (
        (Short(), (each - 1) / (2 * n_hosts), False),
        (Long(), (each - 1) / n, each > 2),
    ):
        moved = between_hosts(topology.traffic(layout, group), group)
        assert sum(moved.values()) == pytest.approx(n_hosts * (around + rests * size))
        wanted = 2 * (n_hosts - 1) + more
        assert topology.hops(layout, group) == wanted
        assert counted_hops(topology.plans(layout, group), group) == wanted


def test_the_way_is_chosen_by_what_the_rests_cost() -> None:
    topology = by_name("hierarchical")
    small = lay_out([Spec("w", (1000,), "float32")], 8)
    large_specs = [Spec("w", (1_000_000,), "float32")]
    large = lay_out(large_specs, 8, 1 << 30)
    _, group = on_hosts(2, 4)

    assert topology.hops(small, group) == 2
    assert topology.hops(large, group) == 3
    _, pairs = on_hosts(2, 2)
    assert (
        topology.hops(lay_out([Spec("w", (1_000_000,), "float32")], 4, 1 << 30), pairs)
        == 2
    )
