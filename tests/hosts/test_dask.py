"""A cluster beside the workers that dask starts on two hosts, by ssh and by Slurm."""

from __future__ import annotations

import os
import re
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

# What both programs do with a dask cluster of four places on two hosts. Where dask's
# workers came from decides nothing when a task is lost: one of them tries that.
USE = """
def use(client, *more):
    with kit.Cluster.from_dask(client, ps=1, worker=3) as cluster:
        print("hosts", *cluster.call("all", platform.node))
        training = begin(cluster, steps=240, topology="ps")
        until(lambda: training.step > 3, 30)
        training.topology = "ring"
        print("bits", is_replay(training.wait(60), 240))
        print("printed", cluster.on("worker:2", "print('from afar')")[0].stdout)
        folders = uses.folders_of(cluster)
        for act in more:
            act(cluster, client)
            folders += uses.folders_of(cluster)
        print("processes", len(uses.processes_of(folders)) > 5)
    print("stopped", uses.left_of(folders))
    marks = client.run(marked)
    print("left", *[one for found in marks.values() for one in found])
    print("dask", client.submit(sum, [1, 2]).result(30))

def is_replay(training, steps):
    expected = replayed(steps, n_workers=3)
    return all(np.array_equal(training.params[k], v) for k, v in expected.items())

def lose(cluster, client):
    print("group", uses.exchange(cluster) == uses.EXCHANGED)
    training = begin(cluster, steps=10**6, topology="ring")
    told = uses.named_within(cluster, training, "worker:2", by="worker:1")
    print("killed", told)
    cluster.restart("worker:2")
    fork_server = cluster.call("worker:2", os.getppid)
    code = f"int(open('/proc/{fork_server}/stat').read().split(') ')[1].split()[1])"
    worker = int(cluster.on("worker:2", code)[0].result)
    with contextlib.suppress(kit.errors.PeerLost):
        cluster.on("worker:2", f"os = __import__('os'); os.kill({worker}, 9)")
    until(lambda: cluster.status[3].state == "lost", 20)
    print("lost", cluster.status[3].reason)
    until(lambda: len(client.nthreads()) == 2, 60)  # its nanny's new one
    for one in cluster.status:  # both tasks of the host were beside it
        if one.state == "lost":
            cluster.restart(one.task.short)
    print("again", cluster.call("worker:2", platform.node))
    print("bits again", is_replay(begin(cluster, steps=20).wait(60), 20))
"""
HEAD = f"""
import contextlib, os, platform, sys, time
import dask, distributed, psutil
import numpy as np
import kit
from kit.testing.task_process import until
from tests.cluster.engine_training import begin, replayed
from tests.hosts import uses

def marked(dask_worker):
    import psutil
    found = [name for name in dask_worker.plugins if "psring" in name]
    for one in psutil.process_iter():
        with __import__("contextlib").suppress(psutil.Error):
            if "PSRING_CLUSTER" in one.environ() and one.status() != "zombie":
                found.append(" ".join(one.cmdline()))
    return found

here, *arguments = sys.argv[1:]
{USE}
"""
BY_SSH = f"""{HEAD}
folder, nodea, nodeb = arguments
names = {{"ca-file": "ca"}}
for role in ("client", "scheduler", "worker"):
    names |= {{f"{{role}}.cert": f"{{role}}.cert", f"{{role}}.key": f"{{role}}.key"}}
encrypted = {{"distributed.comm.require-encryption": True}}
for name, file in names.items():
    encrypted[f"distributed.comm.tls.{{name}}"] = f"{{folder}}/{{file}}"
with dask.config.set(encrypted):
    with distributed.SSHCluster(
        [nodea, nodea, nodeb],
        connect_options={{"known_hosts": f"{{folder}}/known", "username": "root",
                         "client_keys": [f"{{folder}}/key"]}},
        worker_options={{"nthreads": 2, "protocol": "tls"}},
        scheduler_options={{"protocol": "tls", "dashboard": False}},
        remote_python=sys.executable,
        security=distributed.Security(),
    ) as started, distributed.Client(started) as client:
        client.wait_for_workers(2, 60)
        print("address", client.scheduler.address)
        use(client, lose)
"""
BY_SLURM = f"""{HEAD}
from dask_jobqueue import SLURMCluster

(folder,) = arguments
with SLURMCluster(
    queue="two", cores=2, processes=1, memory="500MB", protocol="tls", security=True,
    shared_temp_directory=folder, local_directory=folder, log_directory=folder,
    scheduler_options={{"host": here, "dashboard": False}},
    job_directives_skip=["--mem"],  # this Slurm counts no memory
    job_script_prologue=["export PYTHONPATH={ROOT}"],
) as started, distributed.Client(started) as client:
    started.scale(2)
    client.wait_for_workers(2, 60)
    print("address", client.scheduler.address)
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


def check(told: str) -> None:
    assert "address tls://" in told, told
    assert "hosts nodea nodea nodeb nodeb\n" in told, told
    assert "bits True\n" in told, told
    assert "printed from afar\n" in told, told
    assert "processes True\nstopped []\n" in told, told
    assert "left\n" in told, told
    assert "dask 3\n" in told, told


def test_tasks_beside_workers_that_dask_has_started_by_ssh(
    hosts: TwoHosts, tmp_path: Path
) -> None:
    pytest.importorskip("asyncssh", reason="asyncssh is not installed")
    for name in ("key", "known"):
        file = tmp_path / name
        file.touch(mode=0o600)
        file.write_text((hosts.folder / name).read_text())
    write_certificates(tmp_path)

    command = [sys.executable, "-c", BY_SSH, hosts.here, str(tmp_path)]
    with forking():
        done = subprocess.run(
            [*command, *hosts.address.values()],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=200,
        )

    told = done.stdout + done.stderr
    check(told)
    assert "group True\n" in told, told
    assert re.search(r"killed .*worker/task:2(.|\n)*\nkilled by signal 9 ", told), told
    assert "lost was lost with its dask worker" in told, told
    assert "again nodeb\nbits again True\n" in told, told


def test_tasks_beside_workers_that_dask_has_started_by_slurm(
    slurm: Slurm, tmp_path: Path
) -> None:
    if find_spec("dask_jobqueue") is None:  # importing it takes Ctrl-C away
        pytest.skip("dask-jobqueue is not installed")

    output = slurm.script(BY_SLURM, str(tmp_path))

    check(output)
    # Slurm forgets a job when its script has ended; then the workers take their leave.
    until(lambda: slurm.queue == "" and not has_workers(tmp_path), 60)


def has_workers(folder: Path) -> bool:
    """Whether a worker of dask that uses this folder is running."""
    words = {"distributed.cli.dask_worker", str(folder)}
    running = psutil.process_iter(["cmdline"])
    return any(words <= {*(item.info["cmdline"] or ())} for item in running)


__all__ = ["slurm"]
