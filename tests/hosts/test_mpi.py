"""A cluster whose tasks mpiexec starts on two hosts."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kit
from kit.errors import PeerLost, StartFailed
from kit.testing.task_process import until
from tests.cluster.test_training_on_engines import begin, replayed
from tests.hosts.two_hosts import TwoHosts

pytestmark = [
    *(pytest.mark.slow, pytest.mark.engines, pytest.mark.net),
    pytest.mark.timeout(300),
]

STEPS = 240


def mpiexec() -> str:
    """Return MPICH's mpiexec of this environment, or the system's."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    found = shutil.which("mpiexec.hydra", path=path)
    if found is None:
        pytest.skip("no MPI: mpiexec.hydra not installed (pip install mpich)")
    return found


@pytest.fixture(scope="module")
def cluster(hosts: TwoHosts) -> Iterator[kit.Cluster]:
    """Server and first worker on one host, the other workers on the other one."""
    agent = hosts.folder / "ssh"
    words = " ".join(f"'{word}'" for word in hosts.ssh_args)
    agent.write_text(f'#!/bin/sh\nexec ssh {words} "$@"\n')
    agent.chmod(0o755)
    launcher = kit.launchers.MPI(
        command=[mpiexec()],
        args=[
            *("-launcher", "ssh", "-launcher-exec", str(agent)),
            *("-localhost", hosts.here),
            *("-hosts", ",".join(f"{one}:2" for one in hosts.address.values())),
        ],
        address=hosts.here,
    )
    with kit.Cluster(ps=1, worker=3, launcher=launcher) as running:
        logs = [Path(running.log_path(task)) for task in ("worker:0", "worker:2")]
        yield running
    folders = [log.parents[1] for log in logs]
    until(lambda: not any(hosts.processes(folder.name) for folder in folders), 30)
    until(lambda: not any(folder.exists() for folder in folders), 30)


def test_training_that_mpi_starts_ends_with_the_bits_of_one_process(
    cluster: kit.Cluster,
) -> None:
    assert cluster.call("all", platform.node) == ["nodea"] * 2 + ["nodeb"] * 2
    training = begin(cluster, steps=STEPS, topology="ps")
    until(lambda: training.step > 3, 30)
    training.topology = "ring"

    training.wait(60)

    for name, value in replayed(STEPS, n_workers=3).items():
        np.testing.assert_array_equal(training.params[name], value)


def test_cell_on_a_far_task_prints_here(cluster: kit.Cluster) -> None:
    (told,) = cluster.on("worker:2", "print('from afar'); 6 * 7")

    assert (told.stdout, told.result) == ("from afar\n", "42")


@pytest.mark.lasting("process")  # the new one of the module's cluster
def test_task_that_is_killed_is_named_and_gets_a_new_process(
    cluster: kit.Cluster,
) -> None:
    pid = cluster.call("worker:2", os.getpid)

    with pytest.raises(PeerLost, match="worker:2 killed by signal 9"):
        cluster.call("worker:2", os.kill, pid, signal.SIGKILL)
    cluster.restart("worker:2")

    assert cluster.call("worker:2", platform.node) == "nodeb"
    training = begin(cluster, steps=20, topology="ring")
    training.wait(60)


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
