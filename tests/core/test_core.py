"""What the core of the package does by itself, without any of its features.

These tests pass in a copy of the package in which all that can be deleted is deleted
(`tests/test_features.py`), so they use nothing of it, nor do the files that they need.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

import kit
from kit.errors import PeerLost
from kit.task import Task
from kit.testing.cluster import BareCluster
from kit.testing.processes import process_cluster
from kit.trace.traffic import TransferKind
from tests.cases import for_each
from tests.training.toy import (
    BATCH,
    DATA,
    by_kind,
    fit,
    initial,
    quick_cluster,
    replayed,
    same_bits,
)

ENDLESS = 1_000_000


def begin(cluster: BareCluster, **changes: Any) -> kit.Run:
    options: dict[str, Any] = {"steps": 7, "batch": BATCH, "cluster": cluster} | changes
    return kit.train(fit, initial(), DATA, **options)


def bits_of(steps: int, n_workers: int) -> dict[str, Any]:
    return replayed(steps, n_workers, kit.GradientDescent())


@for_each(("n_ps", "topology"), [(1, "ps"), (2, "ps"), (0, "ring"), (0, "mesh")])
def test_each_topology_has_the_bits_of_numpy_and_the_bytes_of_its_formula(
    n_ps: int, topology: str
) -> None:
    with quick_cluster(n_ps, 3) as cluster:
        run = begin(cluster, topology=topology).wait(20)

    assert same_bits(run.params, bits_of(7, 3))
    assert all(entry.agrees for entry in run.traffic)
    if n_ps:  # each worker's gradient, once a step
        n_bytes = sum(value.nbytes for value in initial().values())
        assert by_kind(run, TransferKind.PUSH) == 7 * 3 * n_bytes


def test_switches_change_no_bit() -> None:
    with quick_cluster(1, 3) as cluster:
        run = begin(cluster, steps=30)
        run.switch("ring", at=10)
        run.switch("mesh", at=20)
        run.wait(20)

    assert [(row.topology, row.first_step) for row in run.trace.epochs] == [
        *(("ps", 0), ("ring", 10), ("mesh", 20))
    ]
    assert same_bits(run.params, bits_of(30, 3))


def test_a_training_pauses_does_single_steps_goes_on_and_stops() -> None:
    with quick_cluster(1, 2) as cluster:
        run = begin(cluster, steps=ENDLESS)
        run.until(5).wait(20)
        run.pause()
        run.advance(3)
        run.resume()
        run.until(run.step + 5).wait(20)
        run.stop()
        run.wait(20)

    assert run.state == "done"
    assert 5 < run.step < ENDLESS
    assert same_bits(run.params, bits_of(run.step, 2))


@pytest.mark.slow
@pytest.mark.lasting("process", "descriptor")
@for_each("lost", ["worker:1", "worker:0", "ps:0"])
def test_whoever_is_lost_is_named(lost: str, tmp_path: Path) -> None:
    task = Task.parse(lost)
    with process_cluster(ps=1, worker=2) as cluster:
        run = begin(cluster, steps=ENDLESS)
        run.until(3).wait(20)
        cluster[task].signal(signal.SIGKILL)
        with pytest.raises(PeerLost) as caught:
            run.wait(20)

    assert caught.value.task == str(task)
    assert run.state == "failed"
