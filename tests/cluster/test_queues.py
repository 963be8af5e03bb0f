"""A queue whose commands stand in for Slurm's: what they start is real."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import kit
from kit.errors import StartFailed
from kit.testing.task_process import until

pytestmark = [pytest.mark.slow, pytest.mark.engines, pytest.mark.timeout(120)]

# A queue that runs all at once. What it starts is in STATE/started, how it was asked in
# STATE/asked, and what it is asked to cancel in STATE/cancelled.
SUBMIT = """
import json, os, subprocess, sys, time
from pathlib import Path

state = Path(os.environ["SLURM_STATE"])
(state / "asked").write_text(json.dumps(sys.argv[1:]))
while (state / "hangs").exists():
    time.sleep(0.01)
*options, script = sys.argv[1:]
given = dict(option.split("=", 1) for option in options)
job = subprocess.Popen(
    ["sh", script],
    env=os.environ | {"SLURM_STEP_TASKS_PER_NODE": given["--ntasks"]},
    stdin=subprocess.DEVNULL,
    stdout=open(given["--output"].replace("%%", "%"), "a"),
    stderr=subprocess.STDOUT,
    start_new_session=True,
)
(state / "started").write_text(str(job.pid))
print("Submitted batch job 17")
"""
RUN = """
import os, sys
os.environ |= {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
os.execvp(sys.argv[2], sys.argv[2:])
"""
# It is so busy that it does not answer the first time.
CANCEL = """
import os, sys
from pathlib import Path
state = Path(os.environ["SLURM_STATE"])
if not (state / "was_busy").exists():
    (state / "was_busy").touch()
    sys.exit("Unable to contact slurm controller")
(state / "cancelled").write_text(sys.argv[1])
"""


class Stand:
    """The commands of the queue, which the tests may look behind."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state = folder
        commands = folder / "bin"
        commands.mkdir()
        for name, text in {"sbatch": SUBMIT, "srun": RUN, "scancel": CANCEL}.items():
            path = commands / name
            path.write_text(f"#!{sys.executable}{text}")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("SLURM_STATE", str(folder))

    @property
    def started(self) -> int:
        return int(self.read("started"))

    def read(self, name: str) -> str:
        path = self.state / name
        return path.read_text() if path.exists() else ""


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    monkeypatch.chdir(tmp_path)
    state = tmp_path / "state"
    state.mkdir()
    yield Stand(state, monkeypatch)
    assert [*tmp_path.rglob(".psring-*")] == []


def test_job_runs_no_text_of_the_user_gets_no_secret_and_is_cancelled_by_its_name(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = "{__import__('pathlib').Path('it_ran').touch()}"
    folder = tmp_path / python / "$(touch it_ran) `touch it_ran` %j\ntouch it_ran #"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("THE_TOKEN", "secret")
    monkeypatch.setenv("MY_DATA", "needed")
    launcher = kit.launchers.Slurm(
        partition="{1/0}; touch it_ran",
        options=["--comment='a b' --nice=5"],
        environment=["MY_*"],
        address="127.0.0.1",
    )

    with kit.Cluster(ps=0, worker=2, launcher=launcher) as cluster:
        pids = cluster.call("worker", os.getppid)
        (shared,) = folder.glob(".psring-*")
        files = (shared, *shared.glob("*.json"))
        modes = [path.stat().st_mode & 0o77 for path in files]
        theirs = cluster.on("worker:0", "import os; print(sorted(os.environ))")[0]
        cwd = cluster.call("worker:0", os.getcwd)

    assert set(pids) == {stand.started}  # by exec, it is a fork server
    assert modes == [0, 0]
    assert cwd == str(folder)
    assert "'MY_DATA'" in theirs.stdout
    assert "'THE_TOKEN'" not in theirs.stdout
    assert '"--comment=a b", "--nice=5"' in stand.read("asked")
    assert [*tmp_path.rglob("it_ran")] == []
    # When the queue answers again.
    until(lambda: stand.read("cancelled") == f"--name={shared.name[1:]}", 30)
    assert (stand.state / "was_busy").exists()


def start_in_vain(launcher: kit.launchers.Slurm | kit.launchers.MPI) -> None:
    with pytest.raises(StartFailed, match="not ready within 3 s"):
        kit.Cluster(ps=0, worker=1, launcher=launcher, start_deadline_s=3).start()


def test_start_ends_in_time_if_the_queue_does_not_answer(stand: Stand) -> None:
    (stand.state / "hangs").touch()

    start_in_vain(kit.launchers.Slurm(address="127.0.0.1"))

    (stand.state / "hangs").unlink()
    until(lambda: stand.read("cancelled") != "", 30)
    assert stand.read("asked") != ""
    assert stand.read("started") == ""


def test_start_ends_in_time_if_mpiexec_does_not_answer() -> None:
    start_in_vain(kit.launchers.MPI(command=["sh", "-c", "exec sleep 600"]))


# --------------------------------------------------------------------------------------
# An ssh that logs in to this machine, whatever the host is called. Three hosts pass the
# check; then one cannot be logged in to when the early one runs and the late one waits,
# which goes on only after that.

LOGIN = """#!/bin/sh
while true; do
    case $1 in
        -o|-p|-S|-O) shift 2 ;;
        *) break ;;
    esac
done
host=$1
shift
case "$host $*" in
    *find_spec*) ;;
    broken*)
        until ls /tmp/psring-*-EARLY/host.json; do sleep 0.05; done > STATE/seen 2>&1
        touch STATE/failed
        echo "no route to host" >&2
        exit 255 ;;
    LATE*) until [ -e STATE/failed ]; do sleep 0.05; done ;;
esac
exec env -i HOME="$HOME" PATH="$PATH" PYTHONPATH="$PYTHONPATH" sh -c "$*"
"""


def left_at(*hosts: str) -> list[object]:
    """Return the processes and the folders that a cluster has left on such hosts."""
    result: list[object] = [
        path for host in hosts for path in Path("/tmp").glob(f"psring-*-{host}")
    ]
    for process in psutil.process_iter():
        try:
            folder = process.environ().get("IPP_PROFILE_DIR", "")
        except psutil.Error:
            continue
        if folder.endswith(hosts):
            result.append(process)
    return result


def test_launch_that_fails_on_one_host_leaves_nothing_on_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early, late = f"early{os.getpid()}", f"late{os.getpid()}"
    ssh = tmp_path / "ssh"
    text = LOGIN.replace("EARLY", early).replace("LATE", late)
    ssh.write_text(text.replace("STATE", str(tmp_path)))
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    launcher = kit.launchers.SSH(
        {early: 1, "broken": 1, late: 1}, python=sys.executable, address="127.0.0.1"
    )
    cluster = kit.Cluster(ps=0, worker=3, launcher=launcher)

    with pytest.raises(StartFailed, match=r"(?s)with ssh: broken: .*no route to host"):
        cluster.start()

    assert (tmp_path / "failed").exists()
    assert left_at(early, late) == []
