"""Buckets woven together: the same operations, in an order that still fits."""

from __future__ import annotations

from collections import Counter
from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

import kit.exchange  # noqa: F401  # fills the table of topologies
from kit.exchange.layout import Layout, Spec, lay_out
from kit.exchange.pipeline import pipelined
from kit.exchange.plan import NEXT, Add, Apply, Plan, Send
from kit.exchange.topologies.topology import by_name
from kit.testing.contracts.topology import carry_messages
from tests.exchange.models import group_on, models

TOPOLOGIES = st.sampled_from(
    ["ring", "ps", "ring-whole", "mesh", "hierarchical", "tree", "recursive-doubling"]
)
BUCKETS = st.sampled_from([1, 8, 24, 64])  # bytes: also fewer elements than chunks
GROUPS = st.tuples(st.integers(1, 6), st.integers(1, 3))


def plans(
    specs: list[Spec], sizes: tuple[int, int], name: str, bucket_bytes: int = 64
) -> tuple[Layout, dict[int, Plan]]:
    n, n_ps = sizes
    layout = lay_out(specs, n, bucket_bytes)
    return layout, by_name(name).plans(layout, group_on(layout, n_ps, n))


@given(models(), GROUPS, TOPOLOGIES, BUCKETS, st.booleans())
def test_woven_plans_have_the_same_operations_and_fit_together(
    specs: list[Spec], sizes: tuple[int, int], name: str, bucket: int, early: bool
) -> None:
    layout, late = plans(specs, sizes, name, bucket)

    soon = {m: pipelined(plan, layout, early=early) for m, plan in late.items()}

    for member, plan in late.items():
        assert Counter(soon[member].ops) == Counter(plan.ops)
    carry_messages(soon)


@given(models(), GROUPS, TOPOLOGIES)
def test_no_range_is_updated_before_it_is_summed_nor_sent_before_it_is_updated(
    specs: list[Spec], sizes: tuple[int, int], name: str
) -> None:
    layout, late = plans(specs, sizes, name)

    for plan in late.values():
        updated: set[int] = set()
        open_sums = [op.range for op in plan.ops if isinstance(op, Add)]
        own = {b for op in plan.ops if isinstance(op, Apply) for b in range(*op.range)}
        for op in pipelined(plan, layout, early=True).ops:
            covered = set(range(*op.range))
            if isinstance(op, Add):
                open_sums.remove(op.range)
                assert not covered & updated
            elif isinstance(op, Apply):
                assert not any(covered & set(range(*part)) for part in open_sums)
                updated |= covered
            elif isinstance(op, Send) and op.region == NEXT:
                assert covered & own <= updated


def test_each_slot_offers_the_next_bucket_before_it_waits_for_the_last() -> None:
    layout, late = plans([Spec("w", (64,), "float32")], (2, 0), "ring")

    plan = pipelined(late[0], layout, early=True)

    kinds = [[type(op).__name__ for op in ops] for ops in plan.reduce]
    take = ["Receive", "Add", "Apply", "Send"]
    assert kinds[0] == ["Send"]
    assert kinds[1] == ["Send", *take]
    assert kinds[2:] == [["Send", *take, "Receive", "Copy"]] * 2


@given(models(), GROUPS, TOPOLOGIES, st.booleans())
def test_gradient_is_offered_as_soon_as_its_bucket_is_complete(
    specs: list[Spec], sizes: tuple[int, int], name: str, early: bool
) -> None:
    layout, late = plans(specs, sizes, name)

    for plan in late.values():
        soon = pipelined(plan, layout, early=early)
        for before, after in zip(plan.reduce, soon.reduce, strict=True):
            offers = list(takewhile(lambda op: isinstance(op, Send), before))
            assert list(after[: len(offers)]) == offers


@given(models(), GROUPS, TOPOLOGIES)
def test_plans_for_slots_update_nothing_before_everything_is_summed(
    specs: list[Spec], sizes: tuple[int, int], name: str
) -> None:
    layout, late = plans(specs, sizes, name)
    soon = {m: pipelined(plan, layout, early=False) for m, plan in late.items()}

    for plan in soon.values():
        assert not any(isinstance(op, Apply) for ops in plan.reduce for op in ops)
        kinds = [type(op) for op in plan.ops if isinstance(op, Apply | Add)]
        assert kinds == sorted(kinds, key=lambda kind: kind is Apply)
