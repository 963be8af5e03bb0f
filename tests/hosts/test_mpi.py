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
from kit.errors import PeerLost
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
        folder = Path(running.log_path("worker:0")).parents[1]
        yield running
    assert not folder.exists()
    until(lambda: hosts.processes(folder.name) == [], 30)


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


def test_task_that_is_killed_is_named_and_gets_a_new_process(
    cluster: kit.Cluster,
) -> None:
    (pid,) = cluster.call("worker:2", os.getpid)

    with pytest.raises(PeerLost, match="worker:2 killed by signal 9"):
        cluster.call("worker:2", os.kill, pid, signal.SIGKILL)
    cluster.restart("worker:2")

    assert cluster.call("worker:2", platform.node) == ["nodeb"]
    training = begin(cluster, steps=20, topology="ring")
    training.wait(60)
