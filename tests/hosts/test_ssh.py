"""A cluster whose tasks are on two hosts, brought there by ssh."""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.cluster.processes import host_calls
from kit.cluster.report import ClusterState
from kit.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    PeerLost,
    StartFailed,
    UnavailableError,
)
from kit.exchange.topologies import topology as table
from kit.testing.task_process import until
from tests.cluster.test_own_topology import define, titles
from tests.cluster.test_training_on_engines import begin, replayed
from tests.hosts.two_hosts import TwoHosts, run

pytestmark = [
    *(pytest.mark.slow, pytest.mark.engines, pytest.mark.net),
    pytest.mark.timeout(
        300
    ),  # hosts are lost by silence, and ssh is slow on a busy one
]

STEPS = 240


def launcher(hosts: TwoHosts, *, slots: int = 2, **changes: Any) -> kit.launchers.SSH:
    options = {"ssh_args": hosts.ssh_args, "python": sys.executable} | changes
    return kit.launchers.SSH(dict.fromkeys(hosts.address.values(), slots), **options)


@pytest.fixture(scope="module")
def cluster(hosts: TwoHosts) -> Iterator[kit.Cluster]:
    """Server and first worker on one host, the other workers on the other one."""
    with kit.Cluster(ps=1, worker=3, launcher=launcher(hosts)) as running:
        yield running


def folder_of(cluster: kit.Cluster) -> Path:
    """Return the cluster's folder here; those on the hosts begin with its name."""
    there = Path(cluster.log_path("worker:0")).parents[1]
    return there.with_name(there.name.rsplit("-10-", 1)[0])


def left_of(folder: Path, hosts: TwoHosts) -> list[object]:
    """Return what is there of a cluster: processes anywhere, folders."""
    return [*hosts.processes(folder.name), *Path("/tmp").glob(f"{folder.name}*")]


def test_training_over_two_hosts_ends_with_the_bits_of_one_process(
    cluster: kit.Cluster,
) -> None:
    training = begin(cluster, steps=STEPS, topology="ps")
    until(lambda: training.step > 3, 30)
    training.topology = "ring"
    until(lambda: training.topology == "ring", 30)
    training.switch("hierarchical", at=STEPS - 20)

    training.wait(60)

    found = [epoch.topology for epoch in training.trace.epochs]
    assert found == ["ps", "ring", "hierarchical"]
    assert training.job.hosts == ("nodea", "nodea", "nodeb", "nodeb")

    expected = replayed(STEPS, n_workers=3)
    for name, value in expected.items():
        np.testing.assert_array_equal(training.params[name], value)


@pytest.mark.lasting("process", "descriptor")  # the task has a new process
def test_an_elastic_training_survives_a_far_task_with_the_same_bits(
    cluster: kit.Cluster,
) -> None:
    training = begin(cluster, steps=10**6, topology="ring", elastic=True)
    until(lambda: training.copied > 0, 30)
    cluster.kill("worker:2")
    until(lambda: len(training.losses) == 1, 30)
    seen = training.step
    until(lambda: training.step > seen + 5, 30)
    cluster.restart("worker:2")
    until(lambda: len(training.history()) == 2, 60)
    seen = training.step
    until(lambda: training.step > seen + 5, 30)
    training.stop()
    training.wait(60)

    assert training.history()[0].lost == ("worker:2",)
    assert training.history()[1].joined == ("worker:2",)
    for name, value in replayed(training.step, n_workers=3).items():
        np.testing.assert_array_equal(training.params[name], value)


def test_times_of_tasks_whose_clocks_differ_are_told_by_the_notebooks(
    cluster: kit.Cluster,
) -> None:
    clocks = cluster.call("worker", time.monotonic)
    assert clocks[0] - clocks[1] > 3000  # two hosts, booted at different times
    before = time.monotonic_ns()

    training = begin(cluster, steps=60, checkpoint=f"/run/timed-{os.getpid()}").wait(60)

    slack, after = 50_000_000, time.monotonic_ns()  # of an answer that was on its way
    trace = training.trace
    times = [trace.steps, trace.spans, trace.transfers]
    told = [
        *(int(rows[name].min()) for rows in times for name in ("start", "end")),
        *(int(rows[name].max()) for rows in times for name in ("start", "end")),
        *(row.at for row in trace.epochs),
        *(row.begin for row in trace.saves),
    ]
    assert min(told) > before - slack
    assert max(told) < after + slack


def test_training_is_saved_and_goes_on_though_the_hosts_share_no_folder(
    cluster: kit.Cluster,
) -> None:
    folder = Path(
        "/run", f"saved-{os.getpid()}"
    )  # each of the two has a /run of its own
    training = begin(cluster, steps=30, checkpoint=str(folder))
    assert training.wait(60).checkpoints.refused == ""

    def names(folder: str) -> list[str]:
        return sorted(path.name for path in Path(folder).glob("*/*.safetensors"))

    assert cluster.call("worker:2", names, str(folder)) == []
    assert "worker-2.safetensors" in cluster.call("worker:0", names, str(folder))
    again = begin(cluster, steps=60, topology="ps", checkpoint=str(folder)).wait(60)
    assert again.resumed_from is not None
    assert again.resumed_from.step == 30
    for name, value in replayed(60, n_workers=3).items():
        np.testing.assert_array_equal(again.params[name], value)


def test_a_topology_of_ones_own_reaches_the_tasks_of_all_hosts(
    cluster: kit.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "_table", dict(table._table))
    define("circle", "of a cell")

    training = begin(cluster, steps=20, topology="circle").wait(60)

    assert cluster.call("all", titles, "circle") == ["of a cell"] * 4
    expected = replayed(20, n_workers=3)
    for name, value in expected.items():
        np.testing.assert_array_equal(training.params[name], value)


def test_each_task_is_where_it_was_placed_and_says_so(cluster: kit.Cluster) -> None:
    assert cluster.call("all", platform.node) == ["nodea", "nodea", "nodeb", "nodeb"]
    assert [one.host for one in cluster.status] == ["nodea", "nodea", "nodeb", "nodeb"]
    until(lambda: cluster._repr_html_().count("<td>") == 16, 10)  # with memory
    assert "MiB of the tasks on all hosts" in cluster.memory_told


def test_cell_on_a_far_task_prints_here(cluster: kit.Cluster) -> None:
    outcome = cluster.on("worker:2", "print('from afar'); 6 * 7")[0]

    assert (outcome.stdout, outcome.result) == ("from afar\n", "42")


def test_cell_that_takes_too_long_on_a_far_task_is_interrupted_there(
    cluster: kit.Cluster,
) -> None:
    with pytest.raises(DeadlineExceededError, match=r"worker:2"):
        cluster.on(
            "worker:2", "import time\nfor _ in range(600): time.sleep(0.1)", timeout_s=1
        )

    assert (
        cluster.on("worker:2", "'free again'", timeout_s=10)[0].result == "'free again'"
    )


def test_session_places_an_op_on_a_far_task(cluster: kit.Cluster) -> None:
    with kit.Graph().as_default():
        with kit.device("/job:worker/task:2"):
            doubled = kit.constant(np.arange(3.0)) * 2.0
        with kit.Session(cluster) as session:
            np.testing.assert_array_equal(session.run(doubled), [0.0, 2.0, 4.0])


def test_two_clusters_from_one_folder_train_side_by_side(
    cluster: kit.Cluster, hosts: TwoHosts
) -> None:
    with kit.Cluster(ps=0, worker=2, launcher=launcher(hosts, slots=1)) as other:
        runs = [begin(cluster, steps=60), begin(other, steps=60)]
        for run, n_workers in zip(runs, (3, 2), strict=True):
            run.wait(60)
            for name, value in replayed(60, n_workers=n_workers).items():
                np.testing.assert_array_equal(run.params[name], value)

    assert cluster.call("worker:2", platform.node) == "nodeb"  # the other one's end


def test_killed_far_task_is_named_and_restarted_and_a_stop_leaves_nothing(
    hosts: TwoHosts,
) -> None:
    cluster = kit.Cluster(ps=0, worker=2, launcher=launcher(hosts, slots=1)).start()
    folder, before = folder_of(cluster), cluster.spec
    pid = cluster.call("worker:1", os.getpid)

    with pytest.raises(PeerLost, match=r"worker:1 killed by signal 9"):
        cluster.on("worker:1", f"import os; os.kill({pid}, 9)")
    until(lambda: cluster.status[1].state is ClusterState.LOST, 5)
    cluster.restart("worker:1")

    assert cluster.spec == before
    assert cluster.call("worker:1", platform.node) == "nodeb"
    until(lambda: "Completed registration" in cluster.log("worker:1", 100), 10)
    assert left_of(folder, hosts)
    cluster.stop()
    assert left_of(folder, hosts) == []


def test_host_that_is_cut_off_is_lost_with_its_tasks(hosts: TwoHosts) -> None:
    with kit.Cluster(ps=0, worker=2, launcher=launcher(hosts, slots=1)) as cluster:
        training = begin(cluster, steps=100_000)
        until(lambda: training.step > 3, 30)
        try:
            hosts.cut("nodeb")
            until(lambda: cluster.status[1].state is ClusterState.LOST, 30)
            assert "host nodeb" in cluster.status[1].reason
            with pytest.raises(KitError, match=r"task:1 is gone"):
                training.wait(30)
            folder = folder_of(cluster)
            with pytest.raises(FailedPreconditionError, match="nodeb does not answer"):
                cluster.restart("worker:1")
            with pytest.raises(PeerLost, match="cannot be restarted, because its host"):
                cluster.call("worker:1", os.getpid)
            cluster.stop()
        finally:
            hosts.join("nodeb")
    until(lambda: left_of(folder, hosts) == [], 31)


@pytest.mark.lasting("process")  # the host that is on again
def test_host_that_loses_its_power_is_lost_with_its_tasks(hosts: TwoHosts) -> None:
    with kit.Cluster(ps=0, worker=2, launcher=launcher(hosts, slots=1)) as cluster:
        training, folder = begin(cluster, steps=100_000), folder_of(cluster)
        until(lambda: training.step > 3, 30)
        hosts.power_off("nodeb")
        try:
            until(lambda: cluster.status[1].state is ClusterState.LOST, 30)
            assert "host nodeb" in cluster.status[1].reason
            with pytest.raises(KitError, match=r"task:1 is gone"):
                training.wait(30)
            assert cluster.call("worker:0", platform.node) == "nodea"
            cluster.stop()
        finally:
            hosts.power_on("nodeb")
    until(lambda: hosts.processes(folder.name) == [], 31)
    (kept,) = Path("/tmp").glob(f"{folder.name}*")  # on the disk of that host
    shutil.rmtree(kept)


def test_kernel_that_is_killed_leaves_nothing_on_any_host(
    hosts: TwoHosts, tmp_path: Path
) -> None:
    script = tmp_path / "kernel.py"
    script.write_text(
        "import sys, time, kit\n"
        f"launcher = kit.launchers.SSH({launcher(hosts, slots=1).hosts!r},\n"
        f"    ssh_args={hosts.ssh_args!r}, python=sys.executable)\n"
        "cluster = kit.Cluster(ps=0, worker=2, lease_s=1, launcher=launcher).start()\n"
        "print(cluster.log_path('worker:0').parents[1].name, flush=True)\n"
        "time.sleep(600)\n"
    )
    kernel = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, text=True
    )
    assert kernel.stdout is not None
    folder = Path("/tmp", kernel.stdout.readline().strip().rsplit("-10-", 1)[0])
    assert left_of(folder, hosts)

    kernel.send_signal(signal.SIGKILL)
    kernel.wait()
    kernel.stdout.close()

    until(lambda: left_of(folder, hosts) == [], 31)


# -- machines that differ --------------------------------------------------------------


def python_of(hosts: TwoHosts, folder: Path, on_nodeb: str) -> str:
    """Return a Python that runs a line of shell first on the second host."""
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\nif [ "$(uname -n)" = nodeb ]; then {on_nodeb}; fi\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    return str(python)


def arithmetic() -> tuple[str, tuple[str, ...], bytes]:
    """Return what a task computes with, and the bits of what depends on it."""
    values = np.linspace(-4, 4, 1000, dtype=np.float32)
    return host_calls.blas(), host_calls.simd(), np.exp(values).tobytes()


def computed_with(
    far: kit.launchers.SSH,
) -> tuple[list[tuple[str, tuple[str, ...], bytes]], list[str]]:
    """Return what each task of two computes with, and what the start warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with kit.Cluster(ps=0, worker=2, launcher=far) as cluster:
            found = cluster.call("all", arithmetic)
    return found, [str(one.message) for one in caught]


def test_hosts_with_different_kernels_are_told_how_to_compute_the_same_bits(
    hosts: TwoHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)  # it would go to all hosts
    python = python_of(hosts, tmp_path, "export OPENBLAS_CORETYPE=Nehalem")
    far = launcher(hosts, slots=1, python=python)

    (mine, theirs), warned = computed_with(far)

    assert mine[0] != theirs[0]
    assert re.search(r"nodeb .* has openblas .* Nehalem.*OPENBLAS_CORETYPE", warned[0])
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Nehalem")
    assert computed_with(launcher(hosts, slots=1)) == ([theirs] * 2, [])


@pytest.mark.skipif(not host_calls.simd(), reason="numpy uses the least of this CPU")
def test_hosts_with_different_instructions_are_told_how_to_compute_the_same_bits(
    hosts: TwoHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NPY_DISABLE_CPU_FEATURES", raising=False)
    without = ",".join(host_calls.simd())
    python = python_of(hosts, tmp_path, f"export NPY_DISABLE_CPU_FEATURES={without}")

    (mine, theirs), warned = computed_with(launcher(hosts, slots=1, python=python))

    assert mine[1] == host_calls.simd()
    assert theirs[1] == ()
    assert mine[2] != theirs[2]
    found = re.search(r"nodeb .*DISABLE_CPU_FEATURES'\] = '(\S+)' before", warned[0])
    assert found is not None
    monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", found[1])  # as the warning says
    assert computed_with(launcher(hosts, slots=1)) == ([theirs] * 2, [])


def test_host_with_another_version_of_the_kit_is_refused_with_both_versions(
    hosts: TwoHosts, tmp_path: Path
) -> None:
    shutil.copytree(Path(kit.__file__).parent, tmp_path / "kit")
    other = tmp_path / "psring-99.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: psring\nVersion: 99.0\n"
    )
    python = python_of(hosts, tmp_path, f"export PYTHONPATH={tmp_path}")

    message = refused(hosts, python=python)

    assert f"nodeb has psring 99.0, the notebook has {version('psring')}" in message


# -- what cannot start -----------------------------------------------------------------


def refused(hosts: TwoHosts, **changes: Any) -> str:
    with pytest.raises(StartFailed) as caught:
        kit.Cluster(
            ps=0, worker=2, launcher=launcher(hosts, slots=1, **changes)
        ).start()
    return str(caught.value)


def test_wrong_key_is_told_in_the_words_of_ssh(hosts: TwoHosts, tmp_path: Path) -> None:
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other"))
    arguments = [
        str(tmp_path / "other") if word == str(hosts.folder / "key") else word
        for word in hosts.ssh_args
    ]

    message = refused(hosts, ssh_args=arguments)

    for address in hosts.address.values():
        assert f"{address} cannot be logged in to" in message
    assert "Permission denied" in message


def test_closed_port_is_told_in_the_words_of_ssh(hosts: TwoHosts) -> None:
    one = f"{hosts.address['nodea']}:2299"
    far = kit.launchers.SSH({one: 2}, ssh_args=hosts.ssh_args, python=sys.executable)

    with pytest.raises(StartFailed, match="Connection refused") as caught:
        kit.Cluster(ps=0, worker=2, launcher=far).start()

    assert one in str(caught.value)


def test_missing_python_is_told_with_the_host(hosts: TwoHosts) -> None:
    message = refused(hosts, python="/nowhere/python3")

    assert "cannot run tasks with '/nowhere/python3'" in message
    assert "No such file" in message


def test_python_without_the_kit_is_told_with_the_host(hosts: TwoHosts) -> None:
    message = refused(hosts, python=os.path.realpath(sys.executable))

    assert "No module named" in message


def test_firewall_between_two_hosts_is_told_with_both_ends(hosts: TwoHosts) -> None:
    hosts.part("nodea", "nodeb")
    try:
        with pytest.raises(UnavailableError) as caught:
            kit.Cluster(ps=0, worker=2, launcher=launcher(hosts, slots=1)).start()
    finally:
        hosts.unpart("nodea", "nodeb")

    message = str(caught.value)
    assert f"nodea ({hosts.address['nodea']}) cannot connect to nodeb" in message
    assert f"at {hosts.address['nodeb']}:" in message


def test_too_few_places_are_refused_before_anything_starts(hosts: TwoHosts) -> None:
    with pytest.raises(InvalidArgumentError, match=r"can hold 4 tasks, .* has 5"):
        kit.Cluster(ps=1, worker=4, launcher=launcher(hosts))
