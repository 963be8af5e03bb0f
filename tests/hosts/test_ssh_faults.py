"""Hosts that go wrong, differ or cannot be started on."""

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
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import kit
from kit import arithmetic
from kit.cluster.report import ClusterState
from kit.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    KitError,
    PeerLost,
    ResourceExhaustedError,
    StartFailed,
    UnavailableError,
)
from kit.testing.task_process import until
from tests.cluster.engine_training import begin
from tests.hosts.ready_python import STANDS_FOR
from tests.hosts.test_ssh import folder_of, launcher, left_of
from tests.hosts.two_hosts import TwoHosts, run
from tests.zygote import forking

pytestmark = [
    *(pytest.mark.slow, pytest.mark.engines, pytest.mark.net),
    # Hosts are lost by silence, and ssh is slow on a busy one.
    pytest.mark.timeout(300),
]

LOST_S = 12.0  # from a cut until the status says so; it is 9 s on a quiet machine
STOP_S = 10.0  # of a cluster with a host that does not answer


def test_host_that_is_cut_off_is_lost_with_its_tasks(hosts: TwoHosts) -> None:
    with kit.Cluster(ps=0, worker=2, launcher=launcher(hosts, slots=1)) as cluster:
        training = begin(cluster, steps=100_000)
        until(lambda: training.step > 3, 30)
        try:
            since = time.monotonic()
            hosts.cut("nodeb")
            until(lambda: cluster.status[1].state is ClusterState.LOST, LOST_S)
            assert time.monotonic() - since <= LOST_S
            assert "host nodeb" in cluster.status[1].reason
            with pytest.raises(KitError, match=r"task:1 is gone"):
                training.wait(30)
            folder = folder_of(cluster)
            with pytest.raises(FailedPreconditionError, match="nodeb does not answer"):
                cluster.restart("worker:1")
            with pytest.raises(PeerLost, match="cannot be restarted, because its host"):
                cluster.call("worker:1", os.getpid)
            assert cluster.call("worker:0", platform.node) == "nodea"
            begun = time.monotonic()
            cluster.stop()
            assert time.monotonic() - begun <= STOP_S
        finally:
            hosts.join("nodeb")
    until(lambda: left_of(folder, hosts) == [], 31)


def test_kernel_that_is_killed_leaves_nothing_on_any_host(
    hosts: TwoHosts, tmp_path: Path
) -> None:
    script = tmp_path / "kernel.py"
    script.write_text(
        "import sys, time, kit\n"
        f"launcher = kit.launchers.SSH({launcher(hosts, slots=1).hosts!r},\n"
        f"    ssh_args={hosts.ssh_args!r}, python={hosts.python!r})\n"
        "cluster = kit.Cluster(ps=0, worker=2, lease_s=1, launcher=launcher).start()\n"
        "print(cluster.log_path('worker:0').parents[1].name, flush=True)\n"
        "time.sleep(600)\n"
    )
    with forking():
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
        f'{STANDS_FOR}="$0" exec {hosts.python} "$@"\n'
    )
    python.chmod(0o755)
    return str(python)


def computes_with() -> tuple[str, tuple[str, ...], bytes]:
    """Return what a task computes with, and the bits of what depends on it."""
    values = np.linspace(-4, 4, 1000, dtype=np.float32)
    return arithmetic.blas(), arithmetic.simd(), np.exp(values).tobytes()


def computed_with(
    far: kit.launchers.SSH,
) -> tuple[list[tuple[str, tuple[str, ...], bytes]], list[str]]:
    """Return what each task of two computes with, and what the start warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with kit.Cluster(ps=0, worker=2, launcher=far) as cluster:
            result = cluster.call("all", computes_with)
    return result, [str(warning.message) for warning in caught]


@pytest.mark.skipif(not arithmetic.simd(), reason="numpy uses the least of this CPU")
def test_hosts_that_compute_differently_are_told_how_to_compute_the_same_bits(
    hosts: TwoHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES"):
        monkeypatch.delenv(name, raising=False)  # it would go to all hosts
    without = ",".join(arithmetic.simd())
    restricted = f"OPENBLAS_CORETYPE=Nehalem NPY_DISABLE_CPU_FEATURES={without}"
    python = python_of(hosts, tmp_path, f"export {restricted}")

    (mine, theirs), warned = computed_with(launcher(hosts, slots=1, python=python))

    assert mine[0] != theirs[0]
    assert mine[1] == arithmetic.simd()
    assert theirs[1] == ()
    assert mine[2] != theirs[2]
    reply = "\n".join(warned)
    assert re.search(r"nodeb .* has openblas .* Nehalem.*OPENBLAS_CORETYPE", reply)
    result = re.search(r"nodeb .*DISABLE_CPU_FEATURES'\] = '(\S+)' before", reply)
    assert result is not None
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Nehalem")
    monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", result[1])  # as the warnings say
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

    message = refused(launcher(hosts, slots=1, python=python))

    assert f"nodeb has psring 99.0, the notebook has {version('psring')}" in message


def test_host_on_which_tasks_may_not_open_enough_files_is_named_with_its_number(
    hosts: TwoHosts, tmp_path: Path
) -> None:
    far = launcher(hosts, slots=1, python=python_of(hosts, tmp_path, "ulimit -n 130"))

    with pytest.raises(ResourceExhaustedError, match=r"136 open files .* on nodeb"):
        kit.Cluster(ps=0, worker=2, launcher=far).start()


# -- what cannot start -----------------------------------------------------------------


def refused(launcher: kit.launchers.SSH) -> str:
    """Return why a cluster with a task on each host of a launcher does not start."""
    with pytest.raises(StartFailed) as caught:
        kit.Cluster(ps=0, worker=len(launcher.hosts), launcher=launcher).start()
    return str(caught.value)


def test_hosts_that_cannot_be_logged_in_to_are_told_in_the_words_of_ssh(
    hosts: TwoHosts, tmp_path: Path
) -> None:
    nodea, nodeb = hosts.address.values()
    key, known_hosts = tmp_path / "key", tmp_path / "known_hosts"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
    lines = (hosts.folder / "known").read_text().splitlines()
    known_hosts.write_text("".join(f"{x}\n" for x in lines if x.startswith(nodea)))
    arguments = ["-F", "/dev/null", "-i", str(key), "-o", "IdentitiesOnly=yes"]
    arguments += ["-o", f"UserKnownHostsFile={known_hosts}"]
    words = {
        nodea: "Permission denied",
        nodeb: "Host key verification failed",
        f"{nodea}:2299": "Connection refused",
        "nowhere.invalid": "Could not resolve hostname",
    }

    far = kit.launchers.SSH(dict.fromkeys(words, 1), ssh_args=arguments)
    message = refused(far)

    for host, reason in words.items():
        assert re.search(rf"(?m)^{host} cannot be logged in to: .*{reason}", message)


def test_host_that_lacks_python_or_the_kit_is_told_with_what_it_lacks(
    hosts: TwoHosts, tmp_path: Path
) -> None:
    bare = os.path.realpath(sys.executable)  # that of the system, not of the .venv
    for line, reason in {
        "exec /nowhere/python": "/nowhere/python: not found",
        f'exec {bare} "$@"': r"No module named .*Install psring there",
    }.items():
        python = python_of(hosts, tmp_path, line)

        message = refused(launcher(hosts, slots=1, python=python))

        where = rf"^{hosts.address['nodeb']} cannot run tasks with '{python}': "
        assert re.search(f"{where}.*{reason}", message), message
        assert hosts.address["nodea"] not in message


def test_firewall_is_told_with_both_ends_and_the_port(hosts: TwoHosts) -> None:
    nodea, nodeb = hosts.address.values()
    with (
        hosts.refusing("nodea", "nodeb"),
        pytest.raises(UnavailableError) as caught,
    ):
        kit.Cluster(ps=0, worker=2, launcher=launcher(hosts, slots=1)).start()

    ends = rf"nodea \({nodea}\) cannot connect to nodeb at {nodeb}:\d+: "
    assert re.match(rf"{ends}.*No route to host.* A firewall", str(caught.value))


def test_too_few_places_are_refused_before_anything_starts(hosts: TwoHosts) -> None:
    with pytest.raises(InvalidArgumentError, match=r"can hold 4 tasks, .* has 5"):
        kit.Cluster(ps=1, worker=4, launcher=launcher(hosts))
