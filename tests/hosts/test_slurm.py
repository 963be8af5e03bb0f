"""A cluster whose tasks a Slurm of this machine starts on two hosts."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

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
CLUSTER = """
import os, platform, subprocess, sys, time
import kit
from tests.hosts import uses

def make(**options):
    launcher = kit.launchers.Slurm(address=sys.argv[1])
    return kit.Cluster(launcher=launcher, **options)
"""
USE = f"""{CLUSTER}
with make(ps=1, worker=3) as cluster:
    uses.use(cluster)
    uses.lose(cluster)
    folders = uses.folders_of(cluster)
    assert len(uses.processes_of(folders)) > 5
print(*(folder.name.partition("-")[0] for folder in folders), uses.left_of(folders))
"""
TWO = f"""{CLUSTER}
options = {{"ps": 0, "worker": 2, "lease_s": 1}}
with make(**options) as first, make(**options) as second:
    queue = subprocess.run(["squeue", "-h"], capture_output=True).stdout
    where = [cluster.call("all", platform.node) for cluster in (first, second)]
    print(*where, len(queue.splitlines()))
    print(*uses.folders_of(first), *uses.folders_of(second))
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
TRAIN = """
import platform, sys
import kit
from kit.testing.task_process import until
from tests.cluster.engine_training import assert_replayed, begin

def train(server, topology):
    assert_replayed(begin(server, topology=topology).wait(60))
    print(server.task.short, platform.node(), flush=True)
"""
SERVE = f"""{TRAIN}
from pathlib import Path
from kit.wire.handshake.credentials import Credentials

folder = Path(sys.argv[1])
credentials = Credentials.load(folder / "credentials.json")
with kit.Server.from_environment(credentials=credentials) as server:
    if server.task.job == "ps":
        until(lambda: len([*folder.glob("done-*")]) == 2, 60)
    else:
        train(server, "ps")
        (folder / f"done-{{server.task.index}}").touch()
"""
RANK = f"""{TRAIN}
settings = kit.Settings(transport="mpi", insecure=True)
with kit.Server.from_environment(ps=0, settings=settings) as server:
    train(server, "ring")
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

    def run(self, *command: str, **more: str) -> str:
        """Run a command where Slurm is known; return what it wrote."""
        options: Any = {"capture_output": True, "text": True, "cwd": ROOT}
        env = self._environment | more
        run = partial(subprocess.run, command, env=env, check=False, **options)
        done = self._hosts.call(run)
        return str(done.stdout + done.stderr)

    def python(self, text: str, *arguments: str) -> str:
        """Run a program of Python where Slurm is known."""
        with forking():
            command = (sys.executable, "-c", text, *arguments)
            return self.run(*command, PYTHONPATH=str(ROOT))

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


@pytest.fixture(autouse=True)
def leaves_no_job(slurm: Slurm) -> Iterator[None]:
    yield
    until(lambda: slurm.queue == "", 30)


def test_cluster_that_slurm_starts_is_used_as_one_of_this_machine_and_leaves_nothing(
    slurm: Slurm,
) -> None:
    output = slurm.script(USE)

    assert output == "psring psring psring .psring []\n"


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


SRUN = ("srun", "--distribution=block", "--kill-on-bad-exit", "--ntasks")


def test_servers_that_srun_starts_train_to_the_bits_of_one_process(
    slurm: Slurm, tmp_path: Path
) -> None:
    file = str(tmp_path / "credentials.json")
    run(sys.executable, "-m", "kit", "credentials", "new", file)

    output = slurm.run(*SRUN, "3", *slurm.program(SERVE, str(tmp_path)))

    assert sorted(output.splitlines()) == ["worker:0 nodea", "worker:1 nodeb"], output


def test_ranks_that_srun_starts_train_over_mpi_to_the_bits_of_one_process(
    slurm: Slurm,
) -> None:
    pytest.importorskip("mpi4py")

    # The addresses of MPICH's other way, UCX, are too long for this Slurm's PMI-2.
    way = ["env", "MPIR_CVAR_CH4_NETMOD=ofi", "FI_PROVIDER=tcp"]
    program = slurm.program(RANK)
    output = slurm.run(*SRUN, "2", "--ntasks-per-node=1", "--mpi=pmi2", *way, *program)

    assert sorted(output.splitlines()) == ["worker:0 nodea", "worker:1 nodeb"], output
