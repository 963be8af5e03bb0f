"""Trainings with compressed gradients have the bits of their replay in plain numpy."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import kit
from kit.exchange import register
from kit.testing.cluster import LocalCluster
from tests.cases import for_each
from tests.cluster.hub import Hub, forget_topologies
from tests.training import compressed
from tests.training.compressed import DATA, Oracle, fit, initial, replayed
from tests.training.toy import BATCH, Hasty, quick_cluster, same_bits

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


def begin(cluster: LocalCluster, *, step: Any = fit, **changes: Any) -> kit.Run:
    options: dict[str, Any] = {"steps": 7, "batch": BATCH, "cluster": cluster} | changes
    return kit.train(step, initial(), DATA, **options)


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


@pytest.mark.slow
@for_each(("compressor", "oracle"), COMPRESSORS)
def test_a_topology_and_an_optimizer_of_ones_own_keep_the_bits(
    compressor: Any, oracle: Oracle, three: LocalCluster, monkeypatch: Any
) -> None:
    forget_topologies(monkeypatch)
    register(Hub())
    options: dict[str, Any] = {"compress": compressor, "optimizer": Hasty()}

    for topology in ("hub", "mesh"):
        run = begin(three, topology=topology, **options).wait(20)

        assert same_bits(run.params, replayed(7, 3, Hasty(), oracle))
        assert all(entry.agrees for entry in run.traffic)


@pytest.mark.slow
@for_each(("compressor", "oracle"), COMPRESSORS)
def test_switches_keep_the_bits_and_what_was_not_sent_yet(
    compressor: Any, oracle: Oracle, three: LocalCluster
) -> None:
    all_is_requested = threading.Event()

    def held(params: Any, batch: Any) -> Any:
        assert all_is_requested.wait(20)
        return fit(params, batch)

    optimizer = kit.Momentum(0.02)
    run = begin(three, step=held, compress=compressor, optimizer=optimizer, steps=9)
    for step, topology in enumerate(TOPOLOGIES[1:] + TOPOLOGIES[:1], 2):
        run.switch(topology, at=step)
    all_is_requested.set()
    run.wait(20)

    assert [row.topology for row in run.trace.epochs] == [*TOPOLOGIES, "ps"]
    assert same_bits(run.params, replayed(9, 3, optimizer, oracle))
    assert all(entry.agrees for entry in run.traffic)
    # Every worker has all parameters and all slots: a switch moves nothing.
    assert [measured for _, measured, _ in run.moved_once][1:] == [0] * 5


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["ps", "ring", "mesh"])
def test_bits_and_bytes_are_the_same_over_sockets(topology: str) -> None:
    with quick_cluster(2, 3, transport="tcp", insecure=True) as cluster:
        runs = [
            begin(cluster, compress=compressor, topology=topology).wait(20)
            for compressor, _ in COMPRESSORS
        ]

    for run, (_, oracle) in zip(runs, COMPRESSORS, strict=True):
        assert same_bits(run.params, replayed(7, 3, kit.GradientDescent(), oracle))
        assert all(entry.agrees for entry in run.traffic)


@pytest.mark.slow
def test_tasks_that_play_several_hosts_have_the_same_bits() -> None:
    with quick_cluster(0, 4) as cluster:
        cluster.hosts = ["a", "b", "a", "b"]
        for compressor, oracle in COMPRESSORS:
            run = begin(cluster, compress=compressor, topology="hierarchical").wait(20)

            assert same_bits(run.params, replayed(7, 4, kit.GradientDescent(), oracle))
            assert all(entry.agrees for entry in run.traffic)


@pytest.mark.slow
@for_each(("compressor", "oracle"), COMPRESSORS[2:])
def test_a_training_resumes_on_another_topology_with_what_was_not_sent_yet(
    compressor: Any, oracle: Oracle, three: LocalCluster
) -> None:
    optimizer = kit.Momentum(0.02)
    options: dict[str, Any] = {"compress": compressor, "optimizer": optimizer}
    with tempfile.TemporaryDirectory() as folder:
        options["checkpoint"] = kit.Checkpoints(folder)
        begin(three, topology="mesh", steps=4, **options).wait(20)
        run = begin(three, topology="ps", steps=9, **options).wait(20)
        saved = kit.load_checkpoint(folder)

    assert run.resumed_from is not None
    assert run.resumed_from.step == 4
    assert same_bits(run.params, replayed(9, 3, optimizer, oracle))
    assert sorted(saved.states) == ["worker:0", "worker:1", "worker:2"]


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
