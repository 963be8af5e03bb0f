"""Hosts with other numbers of tasks: all compute as one machine does, bit for bit."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kit
from kit import machine
from kit.testing.task_process import until
from tests.hosts.ready_python import STANDS_FOR
from tests.hosts.two_hosts import TwoHosts
from tests.training import products

pytestmark = [
    *(pytest.mark.slow, pytest.mark.engines, pytest.mark.net),
    pytest.mark.timeout(300),  # ssh is slow on a busy machine
]


def slowly(params: Any, batch: Any) -> Any:
    """Do a step that takes so long that a switch can be asked for in time."""
    time.sleep(0.05)
    return products.step(params, batch)


@pytest.fixture(scope="module")
def cluster(hosts: TwoHosts) -> Iterator[kit.Cluster]:
    """Two tasks on one host and one, with as many cores, on the other."""
    slots = dict(zip(hosts.address.values(), (2, 1), strict=True))
    far = kit.launchers.SSH(slots, ssh_args=hosts.ssh_args, python=hosts.python)
    with kit.Cluster(ps=1, worker=2, launcher=far) as running:
        yield running


def test_a_task_alone_on_its_host_computes_with_as_many_threads_as_two_on_theirs(
    cluster: kit.Cluster,
) -> None:
    share = max(1, machine.physical_cores() // 2)

    assert cluster.call("all", products.n_threads) == [share] * 3
    assert cluster.threads == share
    assert f"{share} BLAS thread" in repr(cluster)


@pytest.mark.lasting("descriptor", "thread")  # of the client, as long as the cluster
def test_training_on_two_and_one_tasks_has_the_bits_of_one_process(
    cluster: kit.Cluster,
) -> None:
    run = products.begin(cluster, slowly, topology="ps", steps=40)
    run.switch("ring", at=20)
    run.wait(60)

    expected = products.alone(cluster.threads, steps=40)
    assert [epoch.topology for epoch in run.trace.epochs] == ["ps", "ring"]
    assert run.job.hosts == ("nodea", "nodea", "nodeb")
    assert products.digest(run.params) == products.digest(expected)


@pytest.mark.lasting("process", "descriptor")  # the task has a new process
def test_a_worker_that_moves_to_another_host_and_back_keeps_its_bits(
    cluster: kit.Cluster,
) -> None:
    run = products.begin(cluster, topology="ring", steps=10**6, elastic=True)
    until(lambda: run.copied > 0, 30)
    cluster.kill("worker:1")
    until(lambda: len(run.losses) == 1, 30)
    cluster.restart("worker:1")
    until(lambda: len(run.history()) == 2, 60)
    seen = run.step
    until(lambda: run.step > seen + 5, 30)
    run.stop()
    run.wait(60)

    expected = products.alone(cluster.threads, steps=run.step)
    assert cluster.call("worker:1", products.n_threads) == cluster.threads
    assert products.digest(run.params) == products.digest(expected)


@pytest.mark.lasting("process", "descriptor")  # the task has a new process
def test_the_threads_of_a_checkpoint_hold_on_all_hosts_and_after_the_coordinators_loss(
    cluster: kit.Cluster, tmp_path: Path
) -> None:
    saved, other = tmp_path / "saved", 2 if cluster.threads == 1 else 1
    with kit.Cluster(ps=1, worker=2, threads=other) as here:
        products.begin(here, steps=10, checkpoint=saved).wait(60)

    run = products.begin(cluster, steps=10**6, checkpoint=saved, elastic=True)
    until(lambda: run.copied > 10, 30)
    cluster.kill("worker:0")
    until(lambda: len(run.losses) == 1, 30)
    seen = run.step
    until(lambda: run.step > seen + 5, 30)
    run.stop()
    run.wait(60)
    cluster.restart("worker:0")

    expected = products.alone(other, steps=run.step)
    assert run.resumed_from is not None
    assert run.resumed_from.threads == other
    assert products.digest(run.params) == products.digest(expected)
    assert cluster.call("all", products.n_threads) == [cluster.threads] * 3


ONE_CORE_ON_NODEB = """#!/bin/sh
export {stands_for}="$0"
case $(uname -n) in
nodeb) exec taskset -c {cpu} {python} "$@" ;;
*) exec {python} "$@" ;;
esac
"""


@pytest.mark.lasting("descriptor")  # of zmq: the first launch over ssh makes one more
@pytest.mark.skipif(machine.physical_cores() < 2, reason="there is one core")
def test_hosts_of_unequal_cores_compute_with_the_share_of_the_smallest(
    hosts: TwoHosts, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    cpu = min(os.sched_getaffinity(0))
    words = {"cpu": cpu, "python": hosts.python, "stands_for": STANDS_FOR}
    python.write_text(ONE_CORE_ON_NODEB.format(**words))
    python.chmod(0o755)
    slots = dict.fromkeys(hosts.address.values(), 1)
    far = kit.launchers.SSH(slots, ssh_args=hosts.ssh_args, python=str(python))

    with kit.Cluster(ps=0, worker=2, launcher=far) as cluster:
        cores = cluster.call("all", machine.physical_cores)
        run = products.begin(cluster, topology="ring").wait(60)

        assert cores == [machine.physical_cores(), 1]
        assert cluster.call("all", products.n_threads) == [1, 1]
        assert products.digest(run.params) == products.digest(products.alone(1))
