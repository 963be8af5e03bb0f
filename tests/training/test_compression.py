"""Trainings with compressed gradients have the bits of their replay in plain numpy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kit
from kit.testing.cluster import LocalCluster
from tests.cases import for_each
from tests.training import compressed
from tests.training.compressed import DATA, Oracle, fit, initial, replayed
from tests.training.toy import BATCH, quick_cluster, same_bits

TOPOLOGIES = ["ps", "ring", "ring-whole", "mesh", "hierarchical"]
COMPRESSORS: list[tuple[Any, Oracle]] = [
    ("float16", compressed.float16),
    ("int8", compressed.int8),
    (kit.TopK(0.05), compressed.top_k),
    (kit.PowerSGD(2), compressed.power_sgd),
]


@pytest.fixture
def three() -> Iterator[LocalCluster]:
    with quick_cluster(2, 3) as cluster:  # ten examples: 4, 3 and 3
        yield cluster


def begin(cluster: LocalCluster, **changes: Any) -> kit.Run:
    given: dict[str, Any] = {"steps": 7, "batch": BATCH, "cluster": cluster} | changes
    return kit.train(fit, initial(), DATA, **given)


@pytest.mark.slow
@for_each("topology", TOPOLOGIES)
@for_each(("compressor", "oracle"), COMPRESSORS)
def test_any_compressor_has_the_bits_of_its_replay_on_every_topology(
    compressor: Any, oracle: Oracle, topology: str, three: LocalCluster
) -> None:
    optimizer = kit.Adam(0.02)

    run = begin(three, compress=compressor, topology=topology, optimizer=optimizer)
    run.wait(20)

    assert same_bits(run.params, replayed(7, 3, optimizer, oracle))
    assert not same_bits(run.params, initial())
    assert all(entry.agrees for entry in run.traffic)
    assert all(measured == formula for _, measured, formula in run.moved_once)
