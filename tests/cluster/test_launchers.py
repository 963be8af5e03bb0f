"""What launchers make of a cluster, as far as it can be seen without other hosts."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from ipyparallel.cluster.launcher import (
    SlurmEngineSetLauncher,
    find_launcher_class,
)
from traitlets.config import Config

import kit
from kit.cluster.launchers import launcher, ssh
from kit.cluster.processes import host
from kit.errors import InvalidArgumentError, StartFailed, UnavailableError
from tests.cases import for_each

PROGRAM = ["python3", "-P", "-m", "kit.cluster.processes.host", "--deadline=60"]


def slurm_script(launcher: kit.launchers.Slurm, folder: Path, n_tasks: int) -> str:
    """Return the batch script that ipyparallel writes for so many tasks."""
    config = Config(launcher.traits(folder, PROGRAM))
    batch = SlurmEngineSetLauncher(config=config, profile_dir=str(folder))
    batch.write_batch_script(n_tasks)
    return Path(batch.batch_file).read_text()


def test_slurm_gets_one_of_its_tasks_for_each_of_ours(tmp_path: Path) -> None:
    launcher = kit.launchers.Slurm(
        partition="short", time="1:00:00", account="me", options=["--exclusive"]
    )

    lines = slurm_script(launcher, tmp_path, 5).splitlines()

    for option in (
        *("--ntasks=5", "--partition=short", "--time=1:00:00"),
        *("--account=me", "--exclusive"),
    ):
        assert f"#SBATCH {option}" in lines
    assert lines[-1] == f"exec srun --cpu-bind=none {' '.join(PROGRAM)}"


def test_two_clusters_of_one_folder_write_scripts_of_their_own(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for n_tasks, folder in enumerate(folders, 1):
        folder.mkdir()
        slurm_script(kit.launchers.Slurm(), folder, n_tasks)

    scripts = [(folder / "slurm.script").read_text() for folder in folders]

    assert ["--ntasks=1" in scripts[0], "--ntasks=2" in scripts[1]] == [True, True]


@for_each(["n_tasks", "n_hosts"], [(1, 1), (3, 1), (4, 2), (5, 2)])
def test_ssh_logs_in_to_the_hosts_that_are_needed(n_tasks: int, n_hosts: int) -> None:
    launcher = kit.launchers.SSH({"nodea": 3, "nodeb": 2})

    assert launcher.n_processes(n_tasks) == n_hosts


@for_each("hosts", [{}, {"": 1}, {"nodea": 0}])
def test_hosts_that_hold_nothing_are_refused(hosts: dict[str, int]) -> None:
    with pytest.raises(InvalidArgumentError, match="give at least one host"):
        kit.launchers.SSH(hosts)


@for_each(
    ("kind", "values", "words"),
    [
        ("SSH", {"hosts": ["nodea"]}, r"hosts=\['nodea'\]; write it like hosts={"),
        ("SSH", {"hosts": {"a": "3"}}, 'like hosts={"nodea": 3, "nodeb": 2}'),
        ("SSH", {"hosts": {"a": 1}, "ssh_args": "-v"}, r'like ssh_args=\["-x", "'),
        ("SSH", {"hosts": {"a": 1}, "python": 3}, "python=3; write it like"),
        ("Slurm", {"options": "--exclusive"}, "made with options='--exclusive'"),
        ("MPI", {"args": [1]}, r"MPI cannot be made with args=\[1\]"),
    ],
)
def test_value_of_another_type_is_refused_with_one_that_is_right(
    kind: str, values: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        getattr(kit.launchers, kind)(**values)


def test_launcher_may_be_named_as_the_site_describes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "launchers.toml"
    file.write_text('[ssh]\nhosts = {"nodea" = 3}\npython = "/opt/python"\n')
    monkeypatch.setenv("KIT_LAUNCHERS", str(file))

    cluster = kit.Cluster(ps=0, worker=2, launcher="ssh")

    assert cluster.options.launcher == kit.launchers.SSH(
        {"nodea": 3}, python="/opt/python"
    )


@for_each(
    ("launcher", "words"),
    [
        ("shh", r"no launcher is called 'shh'\. Did you mean ssh\?"),
        ("ssh", "SSH cannot be made of"),  # of no hosts: the site says nothing
        (kit.launchers.SSH, "is not one of kit.launchers, nor the name of one: htcon"),
        (["ssh"], r"launcher=\['ssh'\] is not one of kit.launchers"),
    ],
)
def test_what_is_not_a_launcher_is_refused_with_those_there_are(
    launcher: Any, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KIT_LAUNCHERS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    with pytest.raises(InvalidArgumentError, match=words):
        kit.Cluster(ps=0, worker=2, launcher=launcher)


def test_tasks_of_several_hosts_cannot_be_linked_by_unix_sockets() -> None:
    launcher = kit.launchers.SSH({"nodea": 3})

    with pytest.raises(InvalidArgumentError, match="tasks of one host only"):
        kit.Cluster(ps=0, worker=2, launcher=launcher, transport="unix")


def test_mpi_that_is_not_installed_is_named(tmp_path: Path) -> None:
    launcher = kit.launchers.MPI(command=["/nowhere/mpiexec"])

    with pytest.raises(StartFailed, match=r"/nowhere/mpiexec cannot be run here"):
        launcher.traits(tmp_path, PROGRAM)


@for_each(["told", "passed"], [("Open MPI 5", True), ("HYDRA build details", False)])
def test_open_mpi_is_told_which_variable_to_pass_on(told: str, passed: bool) -> None:
    command = [sys.executable, "-c", f"print({told!r})"]

    traits = kit.launchers.MPI(command=command).traits(Path("/tmp/x"), PROGRAM)

    arguments: Any = traits["MPIEngineSetLauncher"]["mpi_args"]
    assert ("IPP_CONNECTION_INFO" in arguments) == passed


def test_host_that_only_ssh_knows_is_reached_by_the_default_route(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def towards(name: str) -> str:
        if name == "alias":
            raise UnavailableError("no known address")
        return "10.0.0.7"

    for module in (launcher, ssh):
        monkeypatch.setattr(module, "address_towards", towards)

    assert kit.launchers.SSH({"alias": 1}).reached_at == "10.0.0.7"


def test_machine_without_a_way_out_is_told_to_name_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def towards(name: str) -> str:
        raise UnavailableError(f"no way leads from here to {name}")

    for module in (launcher, ssh):
        monkeypatch.setattr(module, "address_towards", towards)

    with pytest.raises(StartFailed, match=r"name it with address="):
        _ = kit.launchers.SSH({"alias": 1}).reached_at
    assert kit.launchers.SSH({"alias": 1}, address="10.0.0.8").reached_at == "10.0.0.8"


def test_ssh_that_is_not_installed_is_told_for_each_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    launcher = kit.launchers.SSH({"nodea": 1, "nodeb": 1})

    with pytest.raises(StartFailed, match=r"(?s)nodea .*ssh is not.*nodeb .*ssh is"):
        asyncio.run(launcher.check(2))


@pytest.mark.parametrize(
    ("variables", "n_here"),
    [
        ({}, 1),
        ({"SLURM_STEP_TASKS_PER_NODE": "3,2", "SLURM_NODEID": "1"}, 2),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x3),1", "SLURM_NODEID": "2"}, 2),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x3),1", "SLURM_NODEID": "3"}, 1),
        ({"MPI_LOCALNRANKS": "4", "SLURM_STEP_TASKS_PER_NODE": "1"}, 4),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "5"}, 5),
    ],
)
def test_a_host_knows_how_many_tasks_its_launcher_means_for_it(
    variables: dict[str, str], n_here: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert host._launched_here() == n_here


SCRIPTS = {
    kit.launchers.PBS: """\
#!/bin/sh
#PBS -V
#PBS -N psring
#PBS -j oe
#PBS -o /shared/.psring-x/output
#PBS -q short
#PBS -A me
#PBS -l walltime=9
#PBS -l mem=4G
#PBS -x {{odd}}
#PBS -J 1-5
cd "$PBS_O_WORKDIR" || exit
exec {program}
""",
    kit.launchers.SGE: """\
#!/bin/sh
#$ -S /bin/sh
#$ -V
#$ -cwd
#$ -N psring
#$ -j y
#$ -o /shared/.psring-x/output
#$ -t 1-5
#$ -q short
#$ -P me
#$ -l h_rt=9
#$ -l h_vmem=4G
#$ -x {{odd}}
exec {program}
""",
    kit.launchers.LSF: """\
#!/bin/sh
#BSUB -J psring[1-5]
#BSUB -o /shared/.psring-x/output
#BSUB -q short
#BSUB -P me
#BSUB -W 9
#BSUB -M 4G
#BSUB -x {{odd}}
exec {program}
""",
    kit.launchers.HTCondor: """\
universe = vanilla
executable = {python}
arguments = "{arguments}"
transfer_executable = False
getenv = True
environment = "PSRING_RANK=$(Process)"
output = /shared/.psring-x/output.$(Process)
error = /shared/.psring-x/output.$(Process)
log = /shared/.psring-x/log
accounting_group = me
allowed_execute_duration = 9
request_memory = 4G
-x {{odd}}
queue 5
""",
}


@for_each("kind", list(SCRIPTS))
def test_queue_gets_this_script(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # no qsub that tells whose it is
    folder = tmp_path / "psring-x"
    folder.mkdir(exist_ok=True)
    given = {"account": "me", "time": "9", "memory": "4G", "shared": "/shared"}
    if kind is not kit.launchers.HTCondor:
        given["queue"] = "short"
    one = kind(**given, options=["-x {odd}"])
    batch = find_launcher_class(one.launches, "engine")(
        config=Config(one.traits(folder, PROGRAM)), profile_dir=str(folder)
    )

    batch.write_batch_script(5)

    program = [*PROGRAM, "--slots=1"]
    assert Path(batch.batch_file).read_text() == SCRIPTS[kind].format(
        program=" ".join(program), python=program[0], arguments=" ".join(program[1:])
    )
    assert one.ending(Path("/tmp/x"), "17") == [one.cancels, "17"]


@for_each(["version", "line"], [("Version: 6.1", "-t 1-3"), ("pbs_version", "-J 1-3")])
def test_torque_and_openpbs_write_arrays_differently(
    version: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    qsub = tmp_path / "qsub"
    qsub.write_text(f"#!/bin/sh\necho '{version}'")
    qsub.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    config = Config(kit.launchers.PBS().traits(tmp_path, PROGRAM))
    batch = find_launcher_class("pbs", "engine")(
        config=config, profile_dir=str(tmp_path)
    )
    scripts = []
    for n in (3, 1):
        batch.write_batch_script(n)
        scripts.append(Path(batch.batch_file).read_text())

    assert f"#PBS {line}\n" in scripts[0]
    assert "1-1" not in scripts[1]


def test_script_takes_what_the_site_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "site.toml"
    file.write_text('[pbs]\nqueue = "short"\nmemory = "2gb"\n')
    monkeypatch.setenv("KIT_LAUNCHERS", str(file))

    found = kit.launchers.from_site("pbs", memory="4gb")

    assert found == kit.launchers.PBS(queue="short", memory="4gb")
    with pytest.raises(InvalidArgumentError, match=r"'bps'\. Did you mean pbs\?"):
        kit.launchers.from_site("bps")
    with pytest.raises(InvalidArgumentError, match=r"'partition'.*It takes account"):
        kit.launchers.from_site("pbs", partition="short")
    with pytest.raises(InvalidArgumentError, match=r"SSH cannot be made .*'hosts'"):
        kit.launchers.from_site("ssh")
