"""A cluster whose tasks a Slurm of this machine starts on two hosts."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from kit.testing.task_process import until
from tests.hosts.two_hosts import TwoHosts, run
from tests.hosts.uses import left_of
from tests.server.ports import free_ports
from tests.zygote import forking

pytestmark = [
    *(pytest.mark.slow, pytest.mark.engines, pytest.mark.net),
    pytest.mark.timeout(300),
]

ROOT = Path(__file__).parents[2]
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel")
CONFIGURATION = """
ClusterName=two
SlurmctldHost={here}({address})
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={folder}/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmctldPort={port}
SlurmdPort={node_port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
KillWait=5
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
PartitionName=two Nodes=ALL Default=YES State=UP
NodeName=nodea NodeAddr={nodea} CPUs=2 State=UNKNOWN
NodeName=nodeb NodeAddr={nodeb} CPUs=2 State=UNKNOWN
"""
TRAIN = """
import os, platform, subprocess, sys, time
import numpy as np
import kit
from kit.testing.task_process import until
from tests.cluster.engine_training import begin, replayed
from tests.hosts import uses

def is_replay(params, steps):
    expected = replayed(steps, n_workers=3)
    return all(params[name].tobytes() == expected[name].tobytes() for name in expected)
"""
CHECK = f"""{TRAIN}
launcher = kit.launchers.Slurm(address=sys.argv[1])
with kit.Cluster(ps=1, worker=3, launcher=launcher) as cluster:
    print("hosts", *cluster.call("all", platform.node))
    print("status", *uses.hosts_told(cluster))
    training = begin(cluster, steps=240, topology="ps")
    until(lambda: training.step > 3, 30)
    training.topology = "ring"
    print("bits", is_replay(training.wait(60).params, 240))
    print("printed", cluster.on("worker:2", "print('from afar')")[0].stdout)
    print("interrupted", uses.interrupt(cluster, "worker:2"))
    print("session", uses.compute(cluster, "worker:2"))
    print("group", uses.exchange(cluster) == uses.EXCHANGED)
    until(lambda: "Completed registration" in cluster.log("worker:2", 100), 10)
    print("log has", "Completed registration")

    training = begin(cluster, steps=10**6)
    print("killed", uses.named_within(cluster, training, "worker:2", by="worker:1"))
    cluster.restart("worker:2")
    print("again", cluster.call("worker:2", platform.node))
    print("bits again", is_replay(begin(cluster, steps=20).wait(60).params, 20))
    folders = uses.folders_of(cluster)
    print("folders", *(folder.name.partition("-")[0] for folder in folders))
    print("processes", len(uses.processes_of(folders)) > 5)
print("left", uses.left_of(folders))
"""
UNEQUAL = """
import sys
import kit
from tests.training import products

launcher = kit.launchers.Slurm(address=sys.argv[1])
with kit.Cluster(ps=1, worker=2, launcher=launcher) as cluster:
    run = products.begin(cluster, topology="ps", steps=40)
    run.switch("ring", at=20)
    params = run.wait(60).params
    expected = products.alone(cluster.threads, steps=40)
    print("hosts", *run.job.hosts)
    print("threads", {*cluster.call("all", products.n_threads)} == {cluster.threads})
    print("bits", products.digest(params) == products.digest(expected))
"""
TWO = f"""{TRAIN}
def make():
    launcher = kit.launchers.Slurm(address=sys.argv[1])
    return kit.Cluster(ps=0, worker=2, lease_s=1, launcher=launcher)

with make() as one, make() as other:
    queue = subprocess.run(["squeue", "-h"], capture_output=True).stdout
    where = [cluster.call("all", platform.node) for cluster in (one, other)]
    print(*where, len(queue.splitlines()))
    print(*uses.folders_of(one), *uses.folders_of(other))
    print(time.monotonic(), flush=True)
    os.kill(os.getpid(), 9)
"""
REFUSED = """
import sys
import kit

launcher = kit.launchers.Slurm(address=sys.argv[1], partition=sys.argv[2])
try:
    kit.Cluster(ps=0, worker=2, launcher=launcher, start_deadline_s=8).start()
except kit.errors.StartFailed as error:
    print(error)
"""
SERVE = f"""{TRAIN}
from pathlib import Path
from kit.wire.handshake.credentials import Credentials

folder = Path(sys.argv[1])
credentials = Credentials.load(folder / "credentials.json")
with kit.Server.from_environment(credentials=credentials) as server:
    if server.task.job == "ps":
        until(lambda: len([*folder.glob("done-*")]) == 3, 60)
    else:
        params = begin(server, topology="ps").wait(60).params
        print(server.task.short, platform.node(), is_replay(params, 60), flush=True)
        (folder / f"done-{{server.task.index}}").touch()
"""


class Slurm:
    """A controller here and a node on each host; `run` has them as its Slurm."""

    def __init__(self, hosts: TwoHosts, folder: Path) -> None:
        self._hosts, self._folder = hosts, folder
        self._environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}
        self._ending = ExitStack()

    def start(self) -> None:
        hosts, folder = self._hosts, self._folder
        folder.chmod(0o755)
        for name in ("state", "spool-nodea", "spool-nodeb"):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        port, node_port = free_ports(2)
        (folder / "slurm.conf").write_text(
            CONFIGURATION.format(
                **{"here": platform.node(), "address": hosts.here, "folder": folder},
                **{"port": port, "node_port": node_port},
                **hosts.address,
            )
        )
        named = [
            *(f"--key-file={key}", f"--socket={folder}/munge.socket"),
            *(f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log"),
            f"--seed-file={folder}/munge.seed",
        ]
        self._begin("munged", "--foreground", "--force", *named)
        until((folder / "munge.socket").exists, 10)
        hosts.call(partial(self._begin, "slurmctld", "-D", "-c"))
        for node in hosts.address:
            self._begin(*hosts.at(node, "slurmd", "-D", "-N", node))
        until(lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D") == "2\n", 30)

    def _begin(self, *command: str) -> None:
        with (self._folder / "daemons.log").open("a") as log:
            process = subprocess.Popen(
                command, env=self._environment, stdout=log, stderr=log
            )
        self._ending.callback(process.wait)
        self._ending.callback(process.terminate)

    def run(self, *command: str) -> str:
        """Run a command where Slurm is known; return what it wrote."""
        return self._hosts.call(partial(self._run, command))

    def _run(self, command: Sequence[str], **more: str) -> str:
        done = subprocess.run(
            command,
            env=self._environment | more,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        return done.stdout + done.stderr

    def python(self, text: str, *arguments: str) -> str:
        """Run a program of Python where Slurm is known."""
        command = [sys.executable, "-c", text, *arguments]
        with forking():
            return self._hosts.call(partial(self._run, command, PYTHONPATH=str(ROOT)))

    @staticmethod
    def program(text: str, *arguments: str) -> list[str]:
        """Return the command of a program of Python."""
        return ["env", f"PYTHONPATH={ROOT}", sys.executable, "-c", text, *arguments]

    def script(self, text: str, *arguments: str) -> str:
        """Run one with this machine's address before its arguments."""
        return self.python(text, self._hosts.here, *arguments)

    @property
    def queue(self) -> str:
        """The jobs that wait or run."""
        return self.run("squeue", "--noheader")

    def end(self) -> None:
        self._ending.close()


def why_no_slurm() -> str:
    """Say what is not installed; nothing if all is."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
    absent = [name for name in NEEDED if shutil.which(name, path=path) is None]
    return f"{', '.join(absent)} not installed" if absent else ""


@pytest.fixture(scope="module")
def slurm(hosts: TwoHosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """A Slurm over the two hosts; skips, saying why, where there is none."""
    if reason := why_no_slurm():
        pytest.skip(f"no Slurm: {reason}")
    first = Slurm(hosts, tmp_path_factory.mktemp("slurm"))
    try:
        first.start()
        yield first
    finally:
        first.end()


def test_training_that_slurm_starts_ends_with_the_bits_of_one_process(
    slurm: Slurm,
) -> None:
    output = slurm.script(CHECK)

    assert "hosts nodea nodea nodeb nodeb\n" in output, output
    assert "status nodea nodea nodeb nodeb\n" in output, output
    assert "\nbits True\n" in output, output
    assert "printed from afar\n" in output, output
    assert "interrupted 'free again' after: " in output, output
    assert "session [0.0, 2.0, 4.0]\ngroup True\n" in output, output
    assert "log has Completed registration\n" in output, output
    assert "killed by signal 9" in output, output
    assert "again nodeb\nbits again True\n" in output, output
    assert "folders psring psring psring .psring\nprocesses True\nleft []\n" in output
    until(lambda: slurm.queue == "", 30)


def test_two_and_one_tasks_on_hosts_of_slurm_have_the_bits_of_one_process(
    slurm: Slurm,
) -> None:
    output = slurm.script(UNEQUAL)

    assert "hosts nodea nodea nodeb\nthreads True\nbits True\n" in output, output
    until(lambda: slurm.queue == "", 30)


def test_two_clusters_of_one_folder_are_two_jobs_and_end_with_a_killed_kernel(
    slurm: Slurm,
) -> None:
    output = slurm.script(TWO)

    assert output.count("\n") == 3, output
    jobs, folders, killed_at = output.splitlines()
    ended_by = float(killed_at) + 31
    assert jobs == "['nodea', 'nodea'] ['nodeb', 'nodeb'] 2"
    made = [Path(folder) for folder in folders.split()]
    assert [path.parent for path in made if path.name[0] == "."] == [ROOT, ROOT]
    until(lambda: left_of(made) == [], ended_by - time.monotonic())
    until(lambda: slurm.queue == "", ended_by - time.monotonic())


def test_unknown_partition_is_told_in_the_words_of_slurm(slurm: Slurm) -> None:
    output = slurm.script(REFUSED, "nosuch")

    assert "could not be launched with slurm" in output
    assert "invalid partition specified: nosuch" in output


def test_queue_that_does_not_start_says_why_and_is_left_empty(slurm: Slurm) -> None:
    slurm.run("sbatch", "--ntasks=4", "--output=/dev/null", "--wrap=sleep 100")
    until(lambda: " R " in slurm.queue, 30)
    try:
        output = slurm.script(REFUSED, "")
        waiting = [line for line in slurm.queue.splitlines() if "psring" in line]
    finally:
        slurm.run("scancel", "--name=wrap")

    assert "not ready within 8 s" in output
    assert re.search(r"job \d+: PENDING, Resources", output), output
    assert waiting == []
    until(lambda: slurm.queue == "", 30)


def test_servers_that_srun_starts_train_to_the_bits_of_one_process(
    slurm: Slurm, tmp_path: Path
) -> None:
    file = str(tmp_path / "credentials.json")
    run(sys.executable, "-m", "kit", "credentials", "new", file)

    output = slurm.run(
        *("srun", "--ntasks=4", "--distribution=block", "--kill-on-bad-exit"),
        *slurm.program(SERVE, str(tmp_path)),
    )

    assert sorted(output.splitlines()) == [
        *("worker:0 nodea True", "worker:1 nodeb True", "worker:2 nodeb True"),
    ], output
    until(lambda: slurm.queue == "", 30)


RANK = f"""{TRAIN}
settings = kit.Settings(transport="mpi", insecure=True)
with kit.Server.from_environment(ps=0, settings=settings) as server:
    params = begin(server).wait(60).params
    print(server.task.short, platform.node(), is_replay(params, 60), flush=True)
"""


def test_ranks_that_srun_starts_train_over_mpi_to_the_bits_of_one_process(
    slurm: Slurm,
) -> None:
    pytest.importorskip("mpi4py")

    # The addresses of MPICH's other way, UCX, are too long for this Slurm's PMI-2.
    way = ["env", "MPIR_CVAR_CH4_NETMOD=ofi", "FI_PROVIDER=tcp"]
    output = slurm.run(
        *("srun", "--ntasks=3", "--distribution=block", "--kill-on-bad-exit"),
        *("--mpi=pmi2", *way, *slurm.program(RANK)),
    )

    assert sorted(output.splitlines()) == [
        *("worker:0 nodea True", "worker:1 nodea True", "worker:2 nodeb True"),
    ], output
    until(lambda: slurm.queue == "", 30)
