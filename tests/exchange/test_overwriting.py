"""The next parameters where the gradients were: no one still needs what is lost."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kit.exchange  # noqa: F401  # fills the table of topologies
from kit.exchange.layout import Layout, Spec, lay_out
from kit.exchange.pipeline import pipelined
from kit.exchange.plan import Group, Plan, Receive, Send
from kit.exchange.topologies.placement import place
from kit.exchange.topologies.topology import by_name
from tests.exchange.interleaving import Members
from tests.exchange.models import models

STEPS = 3
TOPOLOGIES = st.sampled_from(["ring", "ps", "ring-whole", "mesh"])
GROUPS = st.tuples(st.integers(1, 5), st.integers(1, 2))
WAYS = st.sampled_from(["bucket by bucket", "woven", "woven, updated early"])


def planned(
    specs: list[Spec], sizes: tuple[int, int], name: str, way: str
) -> tuple[Layout, Group, dict[int, Plan]]:
    n, n_ps = sizes
    layout = lay_out(specs, n, 64)
    workers, servers = tuple(range(n_ps, n_ps + n)), tuple(range(n_ps))
    group = Group(servers, workers, place(layout, n_ps))
    made = {m: by_name(name).plan(layout, group, m) for m in group.members}
    plans = {member: plan for member, plan in made.items() if plan}
    if way != "bucket by bucket":
        early = way == "woven, updated early"
        plans = {m: pipelined(p, layout, early=early) for m, p in plans.items()}
    return layout, group, plans


def assert_trained(
    layout: Layout, group: Group, plans: dict[int, Plan], seed: int, **how: Any
) -> None:
    values = np.random.default_rng(seed)
    start = values.integers(0, 2**40, layout.n_bytes)
    gradients = [
        {worker: values.integers(0, 2**40, start.size) for worker in group.workers}
        for _ in range(STEPS)
    ]
    want = start - sum(sum(of_step.values()) for of_step in gradients)

    found = Members(plans, start, **how).run(gradients, random.Random(seed))

    used = np.zeros(layout.n_bytes, bool)  # between dtypes there may be a gap
    for leaf in layout.leaves:
        used[slice(*leaf.range)] = True
    for worker in group.workers:
        np.testing.assert_array_equal(found[worker][used], want[used])


@given(models(), GROUPS, TOPOLOGIES, WAYS, st.booleans(), st.integers(0, 2**32))
def test_members_that_run_ahead_or_fall_behind_lose_nothing(
    specs: list[Spec],
    sizes: tuple[int, int],
    name: str,
    way: str,
    overwrites: bool,
    seed: int,
) -> None:
    layout, group, plans = planned(specs, sizes, name, way)

    assert all(plan.overwrites for plan in plans.values())
    assert_trained(layout, group, plans, seed, overwrites=overwrites)


@pytest.mark.parametrize("overwrites", [False, True])
def test_a_sum_that_does_not_wait_for_its_reader_is_found_out(overwrites: bool) -> None:
    """Without this the test above could not fail."""
    specs = [Spec("w", (24,), "float32")]
    layout, group, plans = planned(specs, (3, 0), "ring-whole", "bucket by bucket")
    hasty = {
        member: plan._replace(
            reduce=tuple(
                tuple(
                    op
                    for op in ops
                    if not isinstance(op, Send | Receive) or op.range.size
                )
                for ops in plan.reduce
            )
        )
        for member, plan in plans.items()
    }

    def many_orders() -> None:
        for seed in range(50):
            assert_trained(layout, group, hasty, seed, overwrites=overwrites)

    with pytest.raises(AssertionError, match="not equal"):
        many_orders()
