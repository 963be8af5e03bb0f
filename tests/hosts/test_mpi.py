"""A cluster whose tasks mpiexec starts on two hosts."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cloudpickle
import psutil
import pytest

import kit
from kit.errors import StartFailed
from kit.testing.task_process import until
from tests.cluster.engine_training import assert_replayed, begin
from tests.hosts import uses
from tests.hosts.two_hosts import TwoHosts
from tests.zygote import forking

pytestmark = [
    *(pytest.mark.slow, pytest.mark.engines, pytest.mark.net),
    pytest.mark.timeout(300),
]

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


def names(processes: Iterable[psutil.Process]) -> list[str]:
    return sorted(process.name() for process in processes)


STARTED = ["hydra_pmi_proxy", "hydra_pmi_proxy", "mpiexec.hydra"]


def test_cluster_that_mpi_starts_is_used_as_one_of_this_machine_and_leaves_nothing(
    hosts: TwoHosts,
) -> None:
    with kit.Cluster(ps=1, worker=3, launcher=launcher(hosts)) as cluster:
        uses.use(cluster)
        uses.lose(cluster)
        folders = uses.folders_of(cluster)
        launchers = uses.launchers_of(folders)
        assert names(launchers) == STARTED

    assert uses.left_of(folders, launchers) == []


KERNEL = """
import sys, cloudpickle, kit
from tests.hosts import uses

launcher = cloudpickle.loads(bytes.fromhex(sys.argv[1]))
cluster = kit.Cluster(ps=0, worker=4, lease_s=1, launcher=launcher).start()
print(*uses.folders_of(cluster), flush=True)
sys.stdin.read()
"""


def test_kernel_that_is_killed_leaves_nothing_on_any_host(hosts: TwoHosts) -> None:
    plain = cloudpickle.dumps(launcher(hosts)).hex()
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
        assert names(launchers) == STARTED
        kernel.kill()

    until(lambda: uses.left_of(folders, launchers) == [], 31)


AS_OPEN_MPI = """#!/bin/sh
if [ "$1" = --version ]; then echo "mpiexec (Open MPI) 5.0.11"; exit; fi
cat >&2 <<'END'
--------------------------------------------------------------------------
prterun has detected an attempt to run as root.

You can override this protection by adding the --allow-run-as-root
option to your command line.  However, we reiterate our strong advice
against doing so - please do so at your own risk.
--------------------------------------------------------------------------
END
exit 1
"""


def test_root_that_mpi_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    mpi = tmp_path / "mpiexec"
    mpi.write_text(AS_OPEN_MPI)
    mpi.chmod(0o755)
    launcher = kit.launchers.MPI(command=[str(mpi)], address="127.0.0.1")

    with pytest.raises(StartFailed, match=r"(?s)attempt to run as root.*--allow-run-"):
        kit.Cluster(ps=0, worker=2, launcher=launcher).start()


def test_gradients_between_hosts_travel_over_mpi(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mpi4py")
    # The endpoints of MPICH's other way, UCX, time out on a busy machine.
    monkeypatch.setenv("MPIR_CVAR_CH4_NETMOD", "ofi")
    monkeypatch.setenv("FI_PROVIDER", "tcp")
    options: dict[str, Any] = {"transport": "mpi", "insecure": True}
    launched = launcher(hosts, slots=1)
    with kit.Cluster(ps=0, worker=2, launcher=launched, **options) as cluster:
        assert cluster.call("all", platform.node) == ["nodea", "nodeb"]

        training = begin(cluster, steps=20, topology="ring").wait(30)

        assert_replayed(training)
        assert all(entry.agrees for entry in training.traffic)
