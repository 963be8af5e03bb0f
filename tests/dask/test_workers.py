"""A cluster whose tasks run beside the workers of a dask cluster, over TLS."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import distributed
import numpy as np
import psutil
import pytest

import kit
from kit.cluster.dask_workers import hosts
from kit.cluster.dask_workers.workers import (
    DaskWorker,
    check_client,
    check_python,
    check_same,
    spread,
    who_are_you,
)
from kit.cluster.report import ClusterState
from kit.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    PeerLost,
    StartFailed,
)
from kit.testing.task_process import until
from tests.cases import for_each
from tests.cluster.engine_training import begin, patient_step, replayed
from tests.zygote import forking

# Those of dask's cluster, which lasts as long as the module, come and go at any time.
pytestmark = pytest.mark.lasting("descriptor", "thread", "process")
real = [pytest.mark.slow, pytest.mark.engines]
N_WORKERS = 3
new_local_cluster: Any = distributed.LocalCluster  # it has no types
new_client: Any = distributed.Client


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of three dask workers, which are processes, of one thread each."""
    with (
        new_local_cluster(
            n_workers=N_WORKERS,
            threads_per_worker=1,
            security=True,
            dashboard_address="127.0.0.1:0",
        ) as local,
        new_client(local) as item,
    ):
        yield item


@pytest.fixture(scope="module")
def cluster(client: Any) -> Iterator[kit.Cluster]:
    with kit.Cluster.from_dask(client, ps=1, worker=2) as running:
        yield running


def plugins(client: Any) -> list[str]:
    """Return the names of our plugins in all workers of dask."""
    result = client.run(lambda dask_worker: list(dask_worker.plugins))
    return [name for names in result.values() for name in names if "psring" in name]


def worker_of(cluster: kit.Cluster, task: str) -> psutil.Process:
    """Return the process of the dask worker that a task belongs to."""
    fork_server = cluster.call(task, os.getppid)
    return psutil.Process(psutil.Process(fork_server).ppid())


def address_of(client: Any, worker: psutil.Process) -> str:
    pids: dict[str, int] = client.run(os.getpid)
    return next(address for address, pid in pids.items() if pid == worker.pid)


def marked(cluster: kit.Cluster) -> list[psutil.Process]:
    """Return all processes of the cluster's tasks, and what has forked them."""
    result = []
    folders = {str(cluster.log_path(task.short).parents[1]) for task in cluster.tasks}
    for process in psutil.process_iter():
        try:
            mark = process.environ().get("PSRING_CLUSTER", "")
        except psutil.Error:
            continue
        if mark in folders:
            result.append(process)
    return result


def lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def is_lost(cluster: kit.Cluster, number: int) -> bool:
    return cluster.status[number].state is ClusterState.LOST


NOTEBOOK = """
import json, os, sys, time
import distributed
import kit

security = distributed.Security(require_encryption=True, **json.loads(sys.argv[2]))
client = distributed.Client(sys.argv[1], security=security)
with kit.Cluster.from_dask(client, ps=0, worker=2, lease_s=1) as cluster:
    print(*cluster.call("all", os.getpid), flush=True)
    time.sleep(600)
"""


class TestReal:
    pytestmark = real

    def test_training_ends_with_the_bits_of_one_process(
        self, cluster: kit.Cluster
    ) -> None:
        training = begin(cluster, patient_step, steps=240, topology="ps")
        until(lambda: training.step > 3, 30)
        training.topology = "ring"

        training.wait(60)

        for name, value in replayed(240, n_workers=2).items():
            np.testing.assert_array_equal(training.params[name], value)

    def test_each_task_has_a_worker_of_its_own_and_what_tasks_have(
        self, cluster: kit.Cluster, client: Any
    ) -> None:
        outcome = cluster.on("worker:1", "print('from there'); 6 * 7")[0]
        workers = {worker_of(cluster, task.short).pid for task in cluster.tasks}

        assert (outcome.stdout, outcome.result) == ("from there\n", "42")
        assert workers == set(client.run(os.getpid).values())
        assert cluster.status[2].host == platform.node()
        assert "registration" in cluster.log("worker:1", 100)
        assert client.submit(sum, [1, 2]).result(30) == 3  # a place for dask's own

    def test_task_of_a_killed_worker_is_named_and_restarted_only_when_asked_for(
        self, cluster: kit.Cluster, client: Any
    ) -> None:
        before = cluster.spec
        training = begin(cluster, steps=100_000)
        until(lambda: training.step > 3, 30)

        worker_of(cluster, "worker:1").kill()

        with pytest.raises(PeerLost, match="task:1 is gone"):
            training.wait(30)
        until(lambda: is_lost(cluster, 2), 5)
        assert "was lost with its dask worker 2 (tls://" in cluster.status[2].reason
        # A nanny has put another one in its place, where nothing of ours is.
        until(lambda: len(client.nthreads()) == N_WORKERS, 30)
        assert is_lost(cluster, 2)
        assert len(plugins(client)) == N_WORKERS - 1
        cluster.restart("worker:1")
        assert cluster.spec == before
        begin(cluster, steps=20).wait(30)

    def test_task_of_a_closed_worker_waits_for_another_one_there(
        self, cluster: kit.Cluster, client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = cluster.call("ps:0", os.getpid)
        monkeypatch.setattr(hosts, "PLACE_S", 0.1)

        client.retire_workers([address_of(client, worker_of(cluster, "worker:0"))])

        until(lambda: is_lost(cluster, 1), 5)
        assert "which is gone" in cluster.status[1].reason
        with pytest.raises(StartFailed, match="no dask worker with a free thread"):
            cluster.restart("worker:0")
        client.cluster.scale(N_WORKERS + 1)
        until(lambda: len(client.nthreads()) >= N_WORKERS, 30)
        cluster.restart("worker:0")
        begin(cluster, steps=20).wait(30)
        assert cluster.call("ps:0", os.getpid) == before

    def test_stop_leaves_nothing_in_the_workers_and_dask_as_it_was(
        self, cluster: kit.Cluster, client: Any
    ) -> None:
        processes, workers = marked(cluster), client.nthreads()
        assert len(processes) > 2 * N_WORKERS
        assert len(plugins(client)) == N_WORKERS

        cluster.stop()

        until(lambda: not any(map(lives, processes)), 10)
        assert plugins(client) == []
        assert client.nthreads() == workers
        assert client.submit(sum, [1, 2]).result(30) == 3

    def test_stop_with_a_closed_client_ends_the_tasks_all_the_same(
        self, client: Any
    ) -> None:
        with new_client(client.cluster) as other:
            cluster = kit.Cluster.from_dask(other, ps=0, worker=1).start()
            processes = marked(cluster)
        assert cluster.on("worker", "2 + 2")[0].result == "4"
        with pytest.raises(FailedPreconditionError, match="is closed"):
            kit.Cluster.from_dask(other)

        cluster.stop()

        until(lambda: not any(map(lives, processes)), 10)
        until(lambda: plugins(client) == [], 30)

    def test_notebook_that_is_killed_leaves_nothing_beside_the_workers(
        self, client: Any
    ) -> None:
        names = ("tls_ca_file", "tls_client_cert", "tls_client_key")
        output = {name: getattr(client.security, name) for name in names}
        command = [sys.executable, "-c", NOTEBOOK, client.scheduler.address]
        with forking():
            notebook = subprocess.Popen(
                [*command, json.dumps(output)], stdout=subprocess.PIPE, text=True
            )
        with notebook:
            assert notebook.stdout is not None
            running = [
                psutil.Process(int(pid)) for pid in notebook.stdout.readline().split()
            ]
            assert len(running) == 2
            assert all(map(lives, running))

            notebook.kill()

        until(lambda: not any(map(lives, running)), 31)
        until(lambda: plugins(client) == [], 31)
        assert client.submit(sum, [1, 2]).result(30) == 3

    def test_more_tasks_than_threads_are_refused_and_leave_nothing(
        self, client: Any
    ) -> None:
        with pytest.raises(StartFailed, match="a worker holds as many") as caught:
            kit.Cluster.from_dask(client, ps=1, worker=8).start()

        assert "9 tasks" in str(caught.value)
        assert "scale(9)" in str(caught.value)
        assert plugins(client) == []


# -- who is taken ----------------------------------------------------------------------


def named(host: str, name: str, nthreads: int = 1) -> DaskWorker:
    return DaskWorker(f"tls://{host}:{name}", host, name, nthreads)


def test_workers_are_in_order_of_host_and_number() -> None:
    mixed = [named("b", "0"), named("a", "n-10"), named("a", "n-9"), named("a", "n")]

    names = [item.name for item in sorted(mixed, key=lambda item: item.in_order)]

    assert names == ["n", "n-9", "n-10", "0"]


@for_each(
    ("threads", "n_tasks", "expected"),
    [
        ([1, 1, 1], 2, [1, 1]),
        ([4, 4], 5, [3, 2]),
        ([1, 4], 5, [1, 4]),
        ([2, 1, 1], 4, [2, 1, 1]),
    ],
)
def test_tasks_are_spread_over_workers_as_far_as_threads_reach(
    threads: list[int], n_tasks: int, expected: list[int]
) -> None:
    workers = [named("a", str(i), n) for i, n in enumerate(threads)]

    assert list(spread(workers, n_tasks).values()) == expected


def dask_client(**changes: Any) -> SimpleNamespace:
    usual: dict[str, Any] = {
        "get_versions": dict,
        "asynchronous": False,
        "status": "running",
        "scheduler": SimpleNamespace(address="tls://127.0.0.1:8786"),
    }
    return SimpleNamespace(**{**usual, **changes})


PLAIN = SimpleNamespace(address="tcp://127.0.0.1:8786")


@for_each(
    ("client", "error", "words"),
    [
        (object(), InvalidArgumentError, "is not a client of dask"),
        (dask_client(asynchronous=True), InvalidArgumentError, "asynchronous=False"),
        (dask_client(status="closed"), FailedPreconditionError, "is closed"),
        (dask_client(scheduler=PLAIN), InvalidArgumentError, "insecure=True"),
    ],
)
def test_client_that_does_not_serve_is_refused_at_once(
    client: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        kit.Cluster.from_dask(client)


def test_client_without_tls_is_taken_if_that_is_said() -> None:
    check_client(dask_client(scheduler=PLAIN), insecure=True)
    check_client(dask_client(), insecure=False)


def test_worker_with_another_python_is_refused_and_another_patch_is_not() -> None:
    ours, near, other = (
        {"host": {"python": f"{version}.final.0"}}
        for version in ("3.11.7", "3.11.2", "3.13.1")
    )

    check_python("tls://far:1", near, ours)
    with pytest.raises(StartFailed, match=r"has Python 3\.13\.1, the notebook has"):
        check_python("tls://far:1", other, ours)


@for_each(
    ("changes", "words"),
    [
        ({"process": ("Darwin", "far", 7)}, "runs on Darwin"),
        ({"versions": {"psring": ""}}, "has no psring; install psring"),
        ({"versions": {"ipyparallel": "1.0"}}, "has ipyparallel 1.0, the notebook has"),
        ({}, "is a thread of this process"),
    ],
)
def test_worker_that_cannot_run_tasks_is_refused_in_words(
    changes: dict[str, Any], words: str
) -> None:
    answer = who_are_you()() | changes  # it was asked in this very process
    if changes and "process" not in changes:
        answer["process"] = ("Linux", "far", 7)

    with pytest.raises(StartFailed, match=words):
        check_same("tls://far:1", answer)
