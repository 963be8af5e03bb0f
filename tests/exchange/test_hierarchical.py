"""The ring of hosts: its bytes and messages between hosts, by formulas of its own."""

from __future__ import annotations

import pytest

from benchmarks.hosts import between_hosts, hops_in_a_row
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
    large = lay_out([Spec("w", (1_000_000,), "float32")], 8, 1 << 30)
    _, group = on_hosts(2, 4)

    assert topology.hops(small, group) == 2
    assert topology.hops(large, group) == 3
    _, pairs = on_hosts(2, 2)
    assert topology.hops(lay_out(large_specs(), 4, 1 << 30), pairs) == 2


@for_each("n_hosts", [2, 3, 4])
@for_each("each", [1, 2, 4])
def test_steps_that_follow_each_other_take_a_ring_of_tasks_fewer_messages(
    n_hosts: int, each: int
) -> None:
    layout, group = on_hosts(n_hosts, each)
    ring, hosts, n = by_name("ring"), Short(), n_hosts * each

    in_a_row = hops_in_a_row(ring.plans(layout, group), group)

    assert in_a_row == pytest.approx(2 * (n - 1) * n_hosts / n)
    assert in_a_row <= ring.hops(layout, group) < in_a_row + 1
    wanted = hosts.hops(layout, group)  # its leaders wait for all tasks of all hosts
    assert hops_in_a_row(hosts.plans(layout, group), group) == wanted


def large_specs() -> list[Spec]:
    return [Spec("w", (1_000_000,), "float32")]


@for_each("each", [2, 4])
def test_a_ring_takes_more_of_both_on_two_hosts(each: int) -> None:
    layout, group = on_hosts(2, each)
    ring, n = by_name("ring"), 2 * each

    moved = between_hosts(ring.traffic(layout, group), group)

    assert set(moved) == {(0, 1), (1, 0)}  # one link out and one in
    assert sum(moved.values()) == 2 * 2 * (n - 1) / n * layout.payload_bytes
    # Each link is crossed once in n messages, of which 2(n-1) follow on each other.
    assert ring.hops(layout, group) == {2: 3, 4: 4}[each]
    own = by_name("hierarchical")
    assert own.hops(layout, group) < ring.hops(layout, group)
    ours = between_hosts(own.traffic(layout, group), group)
    assert sum(ours.values()) <= sum(moved.values())
