"""A cluster whose tasks mpiexec starts on two hosts."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import cloudpickle
import numpy as np
import psutil
import pytest

import kit
from kit.errors import PeerLost, PermissionDeniedError, StartFailed
from kit.testing.task_process import until
from tests.cluster.engine_training import begin, patient_step, replayed
from tests.hosts import uses
from tests.hosts.two_hosts import TwoHosts
from tests.zygote import forking

pytestmark = [
    *(pytest.mark.slow, pytest.mark.engines, pytest.mark.net),
    pytest.mark.timeout(300),
]

STEPS = 240
ROOT = Path(__file__).parents[2]


def mpiexec() -> str:
    """Return MPICH's mpiexec of this environment, or the system's."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = shutil.which("mpiexec.hydra", path=path)
    if result is None:
        pytest.skip("no MPI: mpiexec.hydra not installed (pip install mpich)")
    return result


def launcher(hosts: TwoHosts, *, slots: int = 2) -> kit.launchers.MPI:
    """Return one that starts this many ranks on each of the two hosts."""
    agent = hosts.folder / "ssh"
    words = " ".join(f"'{word}'" for word in hosts.ssh_args)
    agent.write_text(f'#!/bin/sh\nexec ssh {words} "$@"\n')
    agent.chmod(0o755)
    return kit.launchers.MPI(
        command=[mpiexec()],
        args=[
            *("-launcher", "ssh", "-launcher-exec", str(agent)),
            *("-localhost", hosts.here),
            *(
                "-hosts",
                ",".join(f"{value}:{slots}" for value in hosts.address.values()),
            ),
        ],
        address=hosts.here,
    )


@pytest.fixture(scope="module")
def cluster(hosts: TwoHosts) -> Iterator[kit.Cluster]:
    """Server and first worker on one host, the other workers on the other one."""
    with kit.Cluster(ps=1, worker=3, launcher=launcher(hosts)) as running:
        yield running
        folders = uses.folders_of(running)
        launchers = uses.launchers_of(folders)
        assert names(launchers) == ["hydra_pmi_proxy"] * 2 + ["mpiexec.hydra"]
    # A stop has left nothing when it returns.
    assert uses.left_of(folders, launchers) == []


def names(processes: Iterable[psutil.Process]) -> list[str]:
    return sorted(process.name() for process in processes)


def test_training_that_mpi_starts_ends_with_the_bits_of_one_process(
    cluster: kit.Cluster,
) -> None:
    assert cluster.call("all", platform.node) == ["nodea"] * 2 + ["nodeb"] * 2
    training = begin(cluster, patient_step, steps=STEPS, topology="ps")
    until(lambda: training.step > 3, 30)
    training.topology = "ring"

    training.wait(60)

    for name, value in replayed(STEPS, n_workers=3).items():
        np.testing.assert_array_equal(training.params[name], value)


def test_cell_on_a_far_task_prints_here(cluster: kit.Cluster) -> None:
    (message,) = cluster.on("worker:2", "print('from afar'); 6 * 7")

    assert (message.stdout, message.result) == ("from afar\n", "42")


def test_each_task_says_where_it_is_and_what_memory_it_has(
    cluster: kit.Cluster,
) -> None:
    assert uses.hosts_told(cluster) == ["nodea"] * 2 + ["nodeb"] * 2
    until(lambda: "Completed registration" in cluster.log("worker:2", 100), 10)


def test_cell_that_takes_too_long_on_a_far_task_is_interrupted_there(
    cluster: kit.Cluster,
) -> None:
    assert uses.interrupt(cluster, "worker:2").startswith("'free again' after: ")


def test_session_places_an_op_on_a_far_task(cluster: kit.Cluster) -> None:
    assert uses.compute(cluster, "worker:2") == [0.0, 2.0, 4.0]


def test_group_of_the_tasks_of_both_hosts_sums_and_counts(
    cluster: kit.Cluster,
) -> None:
    assert uses.exchange(cluster) == uses.EXCHANGED


@pytest.mark.lasting("process")  # the new one of the module's cluster
def test_task_that_is_killed_in_a_training_is_named_and_gets_a_new_process(
    cluster: kit.Cluster,
) -> None:
    training = begin(cluster, steps=10**6, topology="ring")

    reply = uses.named_within(cluster, training, "worker:2", by="worker:1")
    with pytest.raises(PeerLost, match="worker:2 killed by signal 9"):
        cluster.call("worker:2", os.getpid)
    cluster.restart("worker:2")

    assert "killed by signal 9" in reply
    assert cluster.call("worker:2", platform.node) == "nodeb"
    again = begin(cluster, steps=20, topology="ring").wait(60)
    for name, value in replayed(20, n_workers=3).items():
        np.testing.assert_array_equal(again.params[name], value)


KERNEL = """
import sys, cloudpickle, kit
from tests.hosts import uses

launcher = cloudpickle.loads(bytes.fromhex(sys.argv[1]))
cluster = kit.Cluster(ps=0, worker=2, lease_s=1, launcher=launcher).start()
print(*uses.folders_of(cluster), flush=True)
sys.stdin.read()
"""


def test_kernel_that_is_killed_leaves_nothing_on_any_host(hosts: TwoHosts) -> None:
    plain = cloudpickle.dumps(launcher(hosts, slots=1)).hex()
    with forking():
        kernel = subprocess.Popen(
            [sys.executable, "-c", KERNEL, plain],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    with kernel:
        assert kernel.stdout is not None
        folders = [Path(name) for name in kernel.stdout.readline().split()]
        launchers = uses.launchers_of(folders)
        assert len(folders) == 3
        assert names(launchers) == ["hydra_pmi_proxy"] * 2 + ["mpiexec.hydra"]
        kernel.kill()

    until(lambda: uses.left_of(folders, launchers) == [], 31)


def test_root_that_mpi_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    mpi = tmp_path / "mpiexec"  # what Open MPI's says, version 5
    mpi.write_text(
        """#!/bin/sh
if [ "$1" = --version ]; then echo "mpiexec (Open MPI) 5.0.11"; exit; fi
cat >&2 <<'END'
--------------------------------------------------------------------------
prterun has detected an attempt to run as root.

Running as root is *strongly* discouraged as any mistake (e.g., in
defining TMPDIR) or bug can result in catastrophic damage to the OS
file system, leaving your system in an unusable state.

We strongly suggest that you run prterun as a non-root user.

You can override this protection by adding the --allow-run-as-root
option to your command line.  However, we reiterate our strong advice
against doing so - please do so at your own risk.
--------------------------------------------------------------------------
END
exit 1
"""
    )
    mpi.chmod(0o755)
    launcher = kit.launchers.MPI(command=[str(mpi)], address="127.0.0.1")

    with pytest.raises(StartFailed, match=r"(?s)attempt to run as root.*--allow-run-"):
        kit.Cluster(ps=0, worker=2, launcher=launcher).start()


@pytest.mark.parametrize("insecure", [False, True])
def test_gradients_between_hosts_travel_over_mpi_if_they_need_no_encryption(
    hosts: TwoHosts, insecure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mpi4py")
    # The endpoints of MPICH's other way, UCX, time out on a busy machine.
    monkeypatch.setenv("MPIR_CVAR_CH4_NETMOD", "ofi")
    monkeypatch.setenv("FI_PROVIDER", "tcp")
    made = kit.Cluster(
        ps=0,
        worker=2,
        launcher=launcher(hosts, slots=1),
        transport="mpi",
        insecure=insecure,
    )
    with made as cluster:
        assert cluster.call("all", platform.node) == ["nodea", "nodeb"]
        if not insecure:
            with pytest.raises(PermissionDeniedError, match="insecure=True"):
                begin(cluster, steps=20, topology="ring").wait(30)
            return

        training = begin(cluster, steps=20, topology="ring").wait(30)

        for name, value in replayed(20).items():
            np.testing.assert_array_equal(training.params[name], value)
        assert all(entry.agrees for entry in training.traffic)
