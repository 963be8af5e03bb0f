"""A cluster whose tasks are on two hosts, brought there by ssh."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.cluster.report import ClusterState
from kit.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    PeerLost,
    StartFailed,
    UnavailableError,
)
from kit.testing.task_process import until
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


def test_each_task_is_where_it_was_placed_and_says_so(cluster: kit.Cluster) -> None:
    assert cluster.call("all", platform.node) == ["nodea", "nodea", "nodeb", "nodeb"]
    assert [one.host for one in cluster.status] == ["nodea", "nodea", "nodeb", "nodeb"]
    until(lambda: cluster._repr_html_().count("<td>") == 16, 10)  # with memory
    assert "MiB of the tasks on all hosts" in cluster.memory_told


def test_cell_on_a_far_task_prints_here(cluster: kit.Cluster) -> None:
    outcome = cluster.on("worker:2", "print('from afar'); 6 * 7")[0]

    assert (outcome.stdout, outcome.result) == ("from afar\n", "42")


def test_session_places_an_op_on_a_far_task(cluster: kit.Cluster) -> None:
    with kit.Graph().as_default():
        with kit.device("/job:worker/task:2"):
            doubled = kit.constant(np.arange(3.0)) * 2.0
        with kit.Session(cluster) as session:
            np.testing.assert_array_equal(session.run(doubled), [0.0, 2.0, 4.0])


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
            cluster.stop()
        finally:
            hosts.join("nodeb")
    until(lambda: left_of(folder, hosts) == [], 60)


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

    until(lambda: left_of(folder, hosts) == [], 60)


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
