"""What travels in a step: the gradients, or what a compressor makes of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from kit.exchange.plan import Owned
from kit.exchange.topologies.counting import counted_traffic
from kit.exchange.topologies.topology import Topology, registered
from tests.training.jobs import COMPRESSED, made

SUITED = [topology for topology in registered() if topology.agrees]


@pytest.mark.parametrize("topology", SUITED, ids=lambda item: item.name)
@pytest.mark.parametrize("options", [{}, COMPRESSED], ids=["plain", "compressed"])
def test_bytes_by_formula_are_those_of_the_plans(
    topology: Topology, options: dict[str, Any]
) -> None:
    job = made(topology=topology.name, **options)
    plans = {member: job.payload.plan(topology, member) for member in job.group.members}
    done = {member: plan for member, plan in plans.items() if plan is not None}

    formula = {key: n for key, n in job.payload.traffic(topology).items() if n}

    assert counted_traffic(done) == formula
    woven = {member: job.payload.woven(plan) for member, plan in done.items()}
    assert counted_traffic(woven) == formula


def test_stages_lie_one_after_the_other_behind_the_parameters() -> None:
    job = made(**COMPRESSED)
    ranges = [job.payload.range_of(stage) for stage in range(2)]

    assert [stage.layout.payload_bytes for stage in job.payload.stages] == [4, 6]
    assert ranges[0].lo >= job.layout.n_bytes
    assert all(before.hi <= after.lo for before, after in pairwise(ranges))


def test_gradients_are_one_stage_of_their_own() -> None:
    job = made()

    assert job.payload.stages == ((job.layout, job.group),)
    assert job.payload.range_of(0).size == job.layout.n_bytes


def test_owners_are_those_of_the_topology_or_all_workers() -> None:
    for topology in SUITED:
        plain, compressed = made(), made(**COMPRESSED)
        owners = topology.owners(plain.layout, plain.group)
        parts = [bucket.range for bucket in compressed.layout.buckets]

        assert plain.payload.owners(topology) == owners
        assert compressed.payload.owners(topology) == tuple(
            Owned(part, compressed.workers) for part in parts
        )
