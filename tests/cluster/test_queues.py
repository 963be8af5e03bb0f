"""Queues whose commands stand in: the scripts and what they start are real."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import kit
from kit.cluster.launchers import queues
from kit.errors import StartFailed
from kit.testing.task_process import until

pytestmark = [pytest.mark.slow, pytest.mark.engines, pytest.mark.timeout(120)]

# A queue that runs all at once, or nothing where FULL is set. What it starts is in
# STATE/started, what it is asked to cancel in STATE/cancelled.
SUBMIT = """
import os, re, subprocess, sys
from pathlib import Path

state, kind = Path(os.environ["QUEUE_STATE"]), os.environ["QUEUE_KIND"]
if "--version" in sys.argv:
    sys.exit(print("pbs_version = 23.06"))
if kind == "lsf":  # it hands nothing on
    assert "IPP_CONNECTION_INFO" not in os.environ
    script = sys.stdin.read()
else:
    script = Path(sys.argv[-1]).read_text()
if "nosuch" in script:
    sys.exit("Unknown queue: nosuch")
if kind == "htcondor":
    lines = dict(l.split(" = ", 1) for l in script.splitlines() if " = " in l)
    n = int(re.search(r"^queue (\\d+)", script, re.M)[1])
    arguments = lines["arguments"].strip('"')
    script = f"exec {lines['executable']} {arguments}\\n"
else:
    found = re.search(r"(?:1-|\\[1-)(\\d+)", script)
    n = int(found[1]) if found else 1
    output = re.search(r"-o (\\S+)", script)[1]
assert "QUEUE_FULL" in os.environ or n == 2, n
names = {"pbs": "PBS_ARRAY_INDEX", "sge": "SGE_TASK_ID", "lsf": "LSB_JOBINDEX"}
job = state / "job"
job.write_text(script)
for i in range(0 if "QUEUE_FULL" in os.environ else n):
    index = {names.get(kind, "PSRING_RANK"): str(i + (kind != "htcondor"))}
    if kind == "htcondor":
        output = lines["output"].replace("$(Process)", str(i))
    keep = {} if kind == "lsf" else os.environ
    one = subprocess.Popen(
        ["bash", job],
        env={**keep, "PATH": os.environ["PATH"], "PBS_O_WORKDIR": os.getcwd(), **index},
        stdin=subprocess.DEVNULL,
        stdout=open(output, "a"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    print(one.pid, file=(state / "started").open("a"))
print(os.environ["QUEUE_ANSWER"])
"""
CANCEL = """
import os, sys
from pathlib import Path
(Path(os.environ["QUEUE_STATE"]) / "cancelled").write_text(sys.argv[1])
"""
ASK = """
import os
print(os.environ["QUEUE_REASON"])
"""
# What each queue answers to a submission, the job's id in it, and how it tells why the
# job waits.
ANSWERS = {
    "pbs": ("17[].here", "17[]", "Job Id: 17[]\n    comment = Not Running: no\n\t cpu"),
    "sge": (
        'Your job-array 17.1-2:1 ("psring") has been submitted',
        "17",
        "job_number: 17\nscheduling info:   queue is\n         full",
    ),
    "lsf": (
        "Job <17> is submitted to default queue <normal>.",
        "17",
        "JOBID USER STAT\n17    me   PEND\n Not enough hosts;",
    ),
    "htcondor": (
        "Submitting job(s)..\n2 job(s) submitted to cluster 17.",
        "17",
        "-- Schedd\n017.000:  Run analysis summary.  Of 1 machines,\n   1 are rejected",
    ),
}
SAID = {
    "pbs": "job 17[]: Not Running: no cpu",
    "sge": "job 17: queue is full",
    "lsf": "job 17: Not enough hosts;",
    "htcondor": "job 17: Run analysis summary. Of 1 machines, 1 are rejected",
}
LAUNCHERS: dict[str, type[queues.Queue]] = {
    "pbs": kit.launchers.PBS,
    "sge": kit.launchers.SGE,
    "lsf": kit.launchers.LSF,
    "htcondor": kit.launchers.HTCondor,
}


class Stand:
    """The commands of a queue, which the tests may look behind."""

    def __init__(
        self, kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.launcher, self.state = LAUNCHERS[kind], folder
        answer, self.job, reason = ANSWERS[kind]
        commands = folder / "bin"
        commands.mkdir()
        texts = {
            self.launcher.submits: SUBMIT,
            self.launcher.cancels: CANCEL,
            self.launcher.asks[0]: ASK,
        }
        for name, text in texts.items():
            path = commands / name
            path.write_text(f"#!{sys.executable}{text}")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("QUEUE_STATE", str(folder))
        monkeypatch.setenv("QUEUE_KIND", kind)
        monkeypatch.setenv("QUEUE_ANSWER", answer)
        monkeypatch.setenv("QUEUE_REASON", reason)

    @property
    def started(self) -> list[int]:
        return [int(line) for line in (self.state / "started").read_text().split()]

    def read(self, name: str) -> str:
        path = self.state / name
        return path.read_text() if path.exists() else ""


@pytest.fixture(params=LAUNCHERS)
def stand(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stand]:
    monkeypatch.chdir(tmp_path)
    one = Stand(request.param, tmp_path, monkeypatch)
    yield one
    left = [path.name for path in tmp_path.glob(".psring-*")]
    assert left == []


def test_script_that_a_queue_runs_starts_a_cluster(
    stand: Stand, tmp_path: Path
) -> None:
    launcher = stand.launcher(address="127.0.0.1")

    with kit.Cluster(ps=0, worker=2, launcher=launcher) as cluster:
        pids = cluster.call("worker", os.getppid)
        (shared,) = tmp_path.glob(".psring-*")
        modes = [
            path.stat().st_mode & 0o77 for path in (shared, *shared.glob("*.json"))
        ]
    assert sorted(pids) == sorted(stand.started)  # by exec, each is a fork server
    assert modes == [0, 0]
    assert stand.read("cancelled") == stand.job


def test_queue_that_is_unknown_is_told_in_the_words_of_the_command(
    stand: Stand,
) -> None:
    launcher = stand.launcher(options=["-q nosuch"], address="127.0.0.1")

    with pytest.raises(StartFailed, match=r"launched with .*Unknown queue: nosuch"):
        kit.Cluster(ps=0, worker=2, launcher=launcher).start()


def test_queue_that_does_not_start_says_why_and_is_cancelled(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUEUE_FULL", "1")
    launcher = stand.launcher(address="127.0.0.1")
    cluster = kit.Cluster(ps=0, worker=2, launcher=launcher, start_deadline_s=4)

    with pytest.raises(StartFailed) as told:
        cluster.start()

    assert SAID[launcher.launches] in str(told.value)
    until(lambda: stand.read("cancelled") == stand.job, 10)


KERNEL = """
import os, time
import kit

launcher = kit.launchers.PBS(address="127.0.0.1")
with kit.Cluster(ps=0, worker=2, launcher=launcher, lease_s=1) as cluster:
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("stand", ["pbs"], indirect=True)
def test_job_of_a_kernel_that_is_killed_is_cancelled(
    stand: Stand, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KERNEL], stdout=subprocess.PIPE, text=True
    ) as kernel:
        assert kernel.stdout is not None
        assert kernel.stdout.readline() == "ready\n"
        assert stand.read("cancelled") == ""

        kernel.kill()

    until(lambda: stand.read("cancelled") == stand.job, 31)
    until(lambda: not any(map(psutil.pid_exists, stand.started)), 31)
    until(lambda: not [*tmp_path.glob(".psring-*")], 31)
