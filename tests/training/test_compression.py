"""Trainings with compressed gradients have the bits of their replay in plain numpy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kit
from kit.testing.cluster import LocalCluster
from tests.cases import for_each
from tests.training.compressed import ORACLES, replayed
from tests.training.toy import BATCH, DATA, fit, initial, quick_cluster, same_bits

TOPOLOGIES = ["ps", "ring", "ring-whole", "mesh", "hierarchical"]
COMPRESSORS: dict[str, Any] = {"float16": "float16"}


@pytest.fixture
def three() -> Iterator[LocalCluster]:
    with quick_cluster(2, 3) as cluster:  # ten examples: 4, 3 and 3
        yield cluster


def begin(cluster: LocalCluster, **changes: Any) -> kit.Run:
    given: dict[str, Any] = {"steps": 7, "batch": BATCH, "cluster": cluster} | changes
    return kit.train(fit, initial(), DATA, **given)


@pytest.mark.slow
@for_each("topology", TOPOLOGIES)
@for_each("name", COMPRESSORS)
def test_any_compressor_has_the_bits_of_its_replay_on_every_topology(
    name: str, topology: str, three: LocalCluster
) -> None:
    optimizer = kit.Adam(0.02)

    run = begin(
        three, compress=COMPRESSORS[name], topology=topology, optimizer=optimizer
    ).wait(20)

    assert same_bits(run.params, replayed(7, 3, optimizer, ORACLES[name]))
    assert not same_bits(run.params, initial())
    assert all(entry.agrees for entry in run.traffic)
    assert all(measured == formula for _, measured, formula in run.moved_once)
