"""A cluster beside the workers that dask starts on two hosts, by ssh and by Slurm."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed import Security

from kit.testing.task_process import until
from tests.hosts.test_slurm import ROOT, Slurm, slurm
from tests.hosts.two_hosts import TwoHosts
from tests.zygote import forking

pytestmark = [
    *(pytest.mark.slow, pytest.mark.engines, pytest.mark.net),
    pytest.mark.timeout(300),
]

# With certificates as the guide says; where dask's workers came from decides nothing.
BY_SSH = """
import platform, sys
import dask, distributed
import kit
from tests.cluster.engine_training import assert_replayed, begin

folder, *hosts = sys.argv[1:]
names = {"ca-file": "ca"}
for role in ("client", "scheduler", "worker"):
    names |= {f"{role}.cert": f"{role}.cert", f"{role}.key": f"{role}.key"}
encrypted = {"distributed.comm.require-encryption": True}
for name, file in names.items():
    encrypted[f"distributed.comm.tls.{name}"] = f"{folder}/{file}"
with dask.config.set(encrypted):
    with distributed.SSHCluster(
        hosts,
        connect_options={"known_hosts": f"{folder}/known", "username": "root",
                         "client_keys": [f"{folder}/key"]},
        worker_options={"nthreads": 2, "protocol": "tls"},
        scheduler_options={"protocol": "tls", "dashboard": False},
        remote_python=sys.executable,
        security=distributed.Security(),
    ) as started, distributed.Client(started) as client:
        client.wait_for_workers(1, 60)
        print(client.scheduler.address)
        with kit.Cluster.from_dask(client, ps=0, worker=2) as cluster:
            print(*cluster.call("all", platform.node))
            assert_replayed(begin(cluster, steps=20).wait(60))
        print("trained")
"""
BY_SLURM = """
import sys
import distributed
import kit
from dask_jobqueue import SLURMCluster
from tests.hosts import uses

here, folder, root = sys.argv[1:]

def marked(dask_worker):
    import psutil
    marks = [name for name in dask_worker.plugins if "psring" in name]
    for process in psutil.process_iter():
        with __import__("contextlib").suppress(psutil.Error):
            if "PSRING_CLUSTER" in process.environ() and process.status() != "zombie":
                marks.append(" ".join(process.cmdline()))
    return marks

def use(client):
    assert client.scheduler.address.startswith("tls://")
    with kit.Cluster.from_dask(client, ps=1, worker=3) as cluster:
        uses.use(cluster)
        folders = uses.folders_of(cluster)
        uses.lose(cluster)
        folders += uses.folders_of(cluster)
        assert len(uses.processes_of(folders)) > 5
    assert uses.left_of(folders) == []
    assert [*client.run(marked).values()] == [[], []]
    assert client.submit(sum, [1, 2]).result(30) == 3
    print("dask is as it was")

with SLURMCluster(
    queue="two", cores=2, processes=1, memory="500MB", protocol="tls", security=True,
    shared_temp_directory=folder, local_directory=folder, log_directory=folder,
    scheduler_options={"host": here, "dashboard": False},
    job_directives_skip=["--mem"],  # this Slurm counts no memory
    job_script_prologue=[f"export PYTHONPATH={root}"],
) as started, distributed.Client(started) as client:
    started.scale(2)
    client.wait_for_workers(2, 60)
    use(client)
"""


def write_certificates(folder: Path) -> None:
    """Write a certificate and key for each role of dask, as a site would have them."""
    new: Any = Security.temporary  # it has no types
    first = new()
    (folder / "ca").write_text(first.tls_ca_file)
    for role in ("client", "scheduler", "worker"):
        for kind in ("cert", "key"):
            file = folder / f"{role}.{kind}"
            file.touch(mode=0o600)
            file.write_text(getattr(first, f"tls_{role}_{kind}"))


def test_tasks_beside_workers_that_dask_has_started_by_ssh(
    hosts: TwoHosts, tmp_path: Path
) -> None:
    pytest.importorskip("asyncssh", reason="asyncssh is not installed")
    for name in ("key", "known"):
        file = tmp_path / name
        file.touch(mode=0o600)
        file.write_text((hosts.folder / name).read_text())
    write_certificates(tmp_path)

    command = [sys.executable, "-c", BY_SSH, str(tmp_path), *hosts.address.values()]
    with forking():
        done = subprocess.run(
            command,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=200,
        )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("tls://")
    assert done.stdout.endswith("\nnodeb nodeb\ntrained\n")


def test_tasks_beside_workers_that_dask_has_started_by_slurm(
    slurm: Slurm, tmp_path: Path
) -> None:
    if find_spec("dask_jobqueue") is None:  # importing it takes Ctrl-C away
        pytest.skip("dask-jobqueue is not installed")

    output = slurm.script(BY_SLURM, str(tmp_path), str(ROOT))

    assert "dask is as it was\n" in output, output
    # Slurm forgets a job when its script has ended; then the workers take their leave.
    until(lambda: slurm.queue == "" and not has_workers(tmp_path), 60)


def has_workers(folder: Path) -> bool:
    """Whether a worker of dask that uses this folder is running."""
    words = {"distributed.cli.dask_worker", str(folder)}
    running = psutil.process_iter(["cmdline"])
    return any(words <= {*(item.info["cmdline"] or ())} for item in running)


__all__ = ["slurm"]
