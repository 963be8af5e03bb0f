"""All plans of a step fit together, whatever the model and the group."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit.exchange  # noqa: F401  # fills the table of topologies
from kit.errors import InvalidArgumentError
from kit.exchange import state_transfer
from kit.exchange.layout import Layout, Range, Spec, lay_out
from kit.exchange.plan import GRAD, NOW, SLOT, Add, Group, Receive, Send
from kit.exchange.topologies.topology import by_name, names, per_member
from kit.testing import check_topology
from tests.cases import for_each
from tests.exchange.models import group_on, models

TOPOLOGIES = st.sampled_from(
    [
        *("ring", "ps", "ring-whole", "mesh", "hierarchical", "gossip"),
        *("tree", "recursive-doubling"),
    ]
)
GROUPS = st.tuples(st.integers(1, 8), st.integers(1, 3))


def make(
    specs: list[Spec], n: int, n_ps: int, bucket: int = 64
) -> tuple[Layout, Group]:
    layout = lay_out(specs, n, bucket)
    return layout, group_on(layout, n_ps, n)


@pytest.mark.slow
@given(models(), GROUPS, TOPOLOGIES, st.integers(0, 2**32))
def test_every_topology_keeps_the_contract_whatever_the_model_and_the_group(
    specs: list[Spec], sizes: tuple[int, int], name: str, seed: int
) -> None:
    n, n_ps = sizes

    check_topology(
        by_name(name), models=[specs], workers=[n], servers=[n_ps], seed=seed
    )


@given(models(), st.integers(1, 8))
def test_in_a_ring_a_worker_talks_to_its_neighbours_alone(
    specs: list[Spec], n: int
) -> None:
    layout, group = make(specs, n, 1)

    for member, plan in by_name("ring").plans(layout, group).items():
        rank = group.workers.index(member)
        assert {op.to for op in plan.ops if isinstance(op, Send)} <= {
            group.workers[(rank + 1) % n]
        }
        assert {op.source for op in plan.ops if isinstance(op, Receive)} <= {
            group.workers[(rank - 1) % n]
        }


@for_each("n", range(1, 9))
@for_each("name", ["ring", "mesh", "ring-whole"])
def test_bytes_and_messages_of_a_worker_are_those_of_the_literature(
    name: str, n: int
) -> None:
    layout, group = make([Spec("w", (840,), "float32")], n, 1, bucket=0)
    size, topology = 840 * 4, by_name(name)
    # There and back in chunks, or each gradient as a whole to each other worker.
    n_messages = (n - 1) if name == "ring-whole" else 2 * (n - 1)
    n_bytes = n_messages * (size if name == "ring-whole" else size // n)

    plans = topology.plans(layout, group)

    for worker in group.workers:
        for kind in (Send, Receive):
            carrying = [op for op in plans[worker].ops if isinstance(op, kind)]
            assert sum(op.range.size > 0 for op in carrying) == n_messages
        traffic = topology.traffic(layout, group)
        assert per_member(traffic, worker) == (n_bytes, n_bytes)


@given(models(), st.integers(1, 8))
def test_no_message_of_a_mesh_waits_for_another_worker_s_sum(
    specs: list[Spec], n: int
) -> None:
    """What is sent in the first part is the sender's own gradient, never a sum."""
    layout, group = make(specs, n, 1)

    for plan in by_name("mesh").plans(layout, group).values():
        written: set[Range] = set()
        for op in plan.ops:
            if isinstance(op, Add):
                written.add(op.range)
            elif isinstance(op, Send) and op.region == GRAD and op.range.size:
                assert op.range not in written


@for_each("n_ps", [1, 2, 3])
@for_each("n", [1, 3, 8])
def test_a_parameter_server_takes_a_gradient_from_each_worker(
    n: int, n_ps: int
) -> None:
    specs = [Spec(f"w{i}", (60,), "float32") for i in range(6)]
    layout, group = make(specs, n, n_ps, bucket=0)
    size = 6 * 60 * 4

    traffic = by_name("ps").traffic(layout, group)

    for worker in group.workers:
        assert per_member(traffic, worker) == (size, size)
    for server in group.ps:
        assert per_member(traffic, server) == (n * size // n_ps,) * 2


@given(models(), GROUPS, TOPOLOGIES, TOPOLOGIES, st.integers(0, 3))
def test_a_switch_gives_each_new_owner_its_slots_once(
    specs: list[Spec], sizes: tuple[int, int], old: str, new: str, n_slots: int
) -> None:
    layout, group = make(specs, *sizes)
    before, after = (by_name(n).owners(layout, group) for n in (old, new))

    handed = state_transfer.handover(before, after, n_slots, group)

    had: set[tuple[int, int]] = {
        (m, at) for copy in before for m in copy.members for at in range(*copy.range)
    }
    needs = {
        (m, at) for copy in after for m in copy.members for at in range(*copy.range)
    } - had
    for slot in range(n_slots):
        got = [
            (move.target, at)
            for move in handed
            if move.region == 3 + slot
            for at in range(*move.range)
        ]
        assert Counter(got) == Counter(needs)
    assert all((m.source, at) in had for m in handed for at in range(*m.range))


@given(models(), GROUPS, TOPOLOGIES, st.integers(0, 3))
def test_what_first_owners_have_read_comes_to_all_that_need_it(
    specs: list[Spec], sizes: tuple[int, int], name: str, n_slots: int
) -> None:
    layout, group = make(specs, *sizes)
    owners = by_name(name).owners(layout, group)
    regions = [NOW, *range(SLOT, SLOT + n_slots)]
    has = {
        (owner.members[0], region, at)
        for owner in owners
        for region in regions
        for at in range(*owner.range)
    }
    whole = {at for owner in owners for at in range(*owner.range)}

    for move in state_transfer.resumed(owners, group, n_slots):
        moved = {(move.region, at) for at in range(*move.range)}
        assert {(move.source, *item) for item in moved} <= has
        assert not {(move.target, *item) for item in moved} & has  # nothing comes twice
        has |= {(move.target, *item) for item in moved}

    assert has >= {(worker, NOW, at) for worker in group.workers for at in whole}
    assert has >= {
        (member, region, at)
        for owner in owners
        for member in owner.members
        for region in regions
        for at in range(*owner.range)
    }


@given(models(), st.integers(3, 8), st.sampled_from(["ring", "mesh"]))
def test_workers_resume_with_links_to_two_others_each(
    specs: list[Spec], n: int, name: str
) -> None:
    layout, group = make(specs, n, 0)
    moves = state_transfer.resumed(by_name(name).owners(layout, group), group, 1)

    for worker in group.workers:
        ends = {*(m.source for m in moves if m.target == worker)}
        ends |= {m.target for m in moves if m.source == worker}
        assert len(ends) <= 2


def test_an_unknown_topology_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidArgumentError, match=r"ps, .*ring.*Did you mean 'ring'"):
        by_name("rnig")
    assert {"hierarchical", "mesh", "ps", "ring", "tree"} <= set(names())
