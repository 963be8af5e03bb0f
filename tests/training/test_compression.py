"""Trainings with compressed gradients have the bits of their replay in plain numpy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kit
from kit.exchange import register
from kit.testing.cluster import LocalCluster
from tests.cases import for_each
from tests.cluster.hub import Hub, forget_topologies
from tests.training.compressed import DATA, Oracle, fit, initial, replayed
from tests.training.scenario import COMPRESSORS, Scenario
from tests.training.toy import BATCH, Hasty, quick_cluster, same_bits

TOPOLOGIES = ["ps", "ring", "ring-whole", "mesh", "hierarchical"]


@pytest.fixture
def three() -> Iterator[LocalCluster]:
    with quick_cluster(2, 3) as cluster:  # ten examples: 4, 3 and 3
        yield cluster


def begin(cluster: LocalCluster, *, step: Any = fit, **changes: Any) -> kit.Run:
    options: dict[str, Any] = {"steps": 7, "batch": BATCH, "cluster": cluster} | changes
    return kit.train(step, initial(), DATA, **options)


@pytest.mark.slow
@for_each(("compressor", "oracle"), COMPRESSORS.values())
def test_a_topology_and_an_optimizer_of_ones_own_keep_the_bits(
    compressor: Any, oracle: Oracle, three: LocalCluster, monkeypatch: Any
) -> None:
    forget_topologies(monkeypatch)
    register(Hub())
    options: dict[str, Any] = {"compress": compressor, "optimizer": Hasty()}

    run = begin(three, topology="hub", **options).wait(20)

    assert same_bits(run.params, replayed(7, 3, Hasty(), oracle))
    assert all(entry.agrees for entry in run.traffic)


@pytest.mark.slow
@for_each("compress", COMPRESSORS)
def test_switches_move_nothing_and_keep_what_was_not_sent_yet(compress: str) -> None:
    switches = dict(enumerate(TOPOLOGIES[1:] + TOPOLOGIES[:1], 2))
    how: dict[str, Any] = {"optimizer": kit.Momentum(0.02), "compress": compress}

    run = Scenario("ps", steps=9, switches=switches, **how).check()

    # Every worker has all parameters and all slots.
    assert [measured for _, measured, _ in run.moved_once][1:] == [0] * 5


@pytest.mark.slow
def test_small_buckets_change_no_sum_of_whole_numbers() -> None:
    runs = []
    for bucket_bytes in (1, 24, 0):
        with quick_cluster(1, 2, bucket_bytes=bucket_bytes) as cluster:
            run = begin(cluster, compress="int8", topology="ring").wait(20)
        runs.append(run)
        assert all(entry.agrees for entry in run.traffic)

    assert same_bits(runs[0].params, runs[1].params)
    assert same_bits(runs[0].params, runs[2].params)


@pytest.mark.slow
def test_all_elements_of_top_k_are_the_training_without_it(three: LocalCluster) -> None:
    runs = [
        begin(three, compress=compressor, topology="ring").wait(20)
        for compressor in (None, kit.TopK(1))
    ]

    assert same_bits(runs[0].params, runs[1].params)


def test_the_bytes_of_a_step_are_known_before_it_begins(three: LocalCluster) -> None:
    run = begin(three, compress=kit.PowerSGD(2), topology="ps", steps=1).wait(20)
    # P is 8 x 2 and Q is 6 x 2, of float32; b and scale travel whole.
    n_bytes = 4 * 2 * (8 + 6) + 8 * (6 + 1)

    sent = {entry.task: entry.sent for entry in run.traffic}

    assert [sent[f"worker:{n}"] for n in range(3)] == [n_bytes] * 3
    assert sent["ps:0"] + sent["ps:1"] == 3 * n_bytes
