"""What launchers make of a cluster, as far as it can be seen without other hosts."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

import kit
from kit.cluster.launchers import launcher, ssh
from kit.cluster.launchers.dask_queues import QUEUES, lines_for
from kit.cluster.processes import host, host_calls
from kit.cluster.processes.launch import SlurmJobLauncher
from kit.errors import (
    InvalidArgumentError,
    StartFailed,
    UnavailableError,
    UnimplementedError,
)
from tests.cases import for_each

PROGRAM = ["python3", "-P", "-m", "kit.cluster.processes.host", "--deadline=60"]


def slurm_command(
    launcher: kit.launchers.Slurm, folder: Path, n_tasks: int, tmp_path: Path
) -> list[str]:
    """Return the words that sbatch gets for so many tasks."""
    submit = tmp_path / "bin" / "sbatch"
    submit.parent.mkdir(exist_ok=True)
    submit.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    submit.chmod(0o755)
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", f"{submit.parent}:{os.environ['PATH']}")
        config = Config(launcher.traits(folder, PROGRAM))
        batch = SlurmJobLauncher(config=config, profile_dir=str(folder))
        batch.job_id_regexp = r"(?s).*"
        return asyncio.run(batch.start(n_tasks)).splitlines()


def test_slurm_gets_one_of_its_tasks_for_each_of_ours(tmp_path: Path) -> None:
    launcher = kit.launchers.Slurm(
        partition="short",
        time="1:00:00",
        account="me",
        memory="4G",
        options=["--exclusive", "-N 2"],
        shared="/a/100%",
    )
    folder = tmp_path / "psring-x"

    *options, script = slurm_command(launcher, folder, 5, tmp_path)

    assert script == str(folder / "slurm.script")  # two clusters have two
    assert sorted(options) == [
        *("--account=me", "--exclusive", "--export=ALL", "--job-name=psring-x"),
        *("--mem=4G", "--ntasks=5", "--output=/a/100%%/.psring-x/output"),
        *("--partition=short", "--time=1:00:00", "-N", "2"),
    ]
    assert Path(script).read_text() == (
        f"#!/bin/sh\nexec srun --cpu-bind=none {' '.join(PROGRAM)}\n"
    )


@for_each(
    ("kind", "values"),
    [
        *(("Slurm", {name: "x\ny"}) for name in ("partition", "time", "account")),
        *(("Slurm", {name: "x\ny"}) for name in ("memory", "shared", "python")),
        ("Slurm", {"options": ["--nice=5\ntouch it_ran"]}),
        ("Slurm", {"options": ["--nice=5\x85touch it_ran"]}),
        ("Slurm", {"options": ["script.sh"]}),
        ("Slurm", {"options": ["--comment='no end"]}),
        ("Slurm", {"options": ["--nice=5", ""]}),
        ("Slurm", {"address": "10.0.0.1\n"}),
        ("MPI", {"args": ["-x\0"]}),
        ("MPI", {"command": []}),
        ("MPI", {"python": "--hostfile=x"}),
        ("SSH", {"hosts": {"a": 1}, "python": ""}),
        ("SSH", {"hosts": {"a": 1}, "ssh_args": ["-i\nkey"]}),
    ],
)
def test_text_that_could_be_read_as_something_else_is_refused(
    kind: str, values: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgumentError, match=r"write it like|leave out line"):
        getattr(kit.launchers, kind)(**values)


@for_each(
    "host",
    [
        *("-oProxyCommand=touch it_ran", "-lroot", "-w", "me@-oProxyCommand=x"),
        *("-F@nodea", "a b", "a;b", "$(x)", "`x`@nodea", "a:22 -w", "a:x", "a:-1"),
        *("a\nb", "@a", "a'b", "/tmp/x", "a|b", "\t"),
    ],
)
def test_host_that_ssh_could_take_for_an_option_or_a_shell_is_refused(
    host: str,
) -> None:
    with pytest.raises(InvalidArgumentError, match=r"is not a host|line breaks"):
        kit.launchers.SSH({"nodea": 1, host: 1})


@for_each(
    ("hosts", "n_tasks", "n_hosts"),
    [
        *(({"nodea": 3, "nodeb": 2}, n, 1) for n in (1, 3)),
        *(({"nodea": 3, "nodeb": 2}, n, 2) for n in (4, 5)),
        ({"me@nodea.example.org:2222": 2}, 2, 1),
        ({"DOMAIN\\me@10.0.0.7": 2, "a_b-c:22": 1}, 3, 2),
    ],
)
def test_ssh_logs_in_to_the_hosts_that_are_needed(
    hosts: dict[str, int], n_tasks: int, n_hosts: int
) -> None:
    assert kit.launchers.SSH(hosts).n_processes(n_tasks) == n_hosts


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


@for_each(
    ("launcher", "words"),
    [
        ("shh", r"no launcher is called 'shh'\. Did you mean ssh\?"),
        ("ssh", "SSH cannot be made of"),  # of no hosts: the site says nothing
        (kit.launchers.SSH, "is not one of kit.launchers, nor the name of one: mpi, s"),
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


@for_each(["version", "passed"], [("Open MPI 5", True), ("HYDRA build details", False)])
def test_open_mpi_is_told_which_variable_to_pass_on(version: str, passed: bool) -> None:
    command = [sys.executable, "-c", f"print({version!r})"]

    traits = kit.launchers.MPI(command=command).traits(Path("/tmp/x"), PROGRAM)

    arguments: Any = traits["MPIEngineSetLauncher"]["mpi_args"]
    assert ("IPP_CONNECTION_INFO" in arguments) == passed


def test_host_that_only_ssh_knows_is_reached_by_the_default_route_if_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ways = ["10.0.0.7"]

    def towards(name: str) -> str:
        if name == "alias" or not ways:
            raise UnavailableError(f"no way leads from here to {name}")
        return ways[0]

    for module in (launcher, ssh):
        monkeypatch.setattr(module, "address_towards", towards)
    assert kit.launchers.SSH({"alias": 1}).reached_at == "10.0.0.7"

    ways.clear()
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
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "", "MPI_LOCALNRANKS": "undefined"}, 1),
        ({"SLURM_STEP_TASKS_PER_NODE": "undefined", "SLURM_NODEID": "-1"}, 1),
        ({"SLURM_STEP_TASKS_PER_NODE": "3,2", "SLURM_NODEID": "x"}, 3),
    ],
)
def test_a_host_knows_how_many_tasks_its_launcher_means_for_it(
    variables: dict[str, str], n_here: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert host.launched_here() == n_here


@for_each(
    ("variables", "rank"),
    [
        ({}, 0),
        ({"SGE_TASK_ID": "undefined"}, 0),
        ({"PBS_ARRAY_INDEX": "", "LSB_JOBINDEX": "none"}, 0),
        ({"SLURM_PROCID": "undefined"}, 0),
        ({"PMI_RANK": "\N{SUPERSCRIPT TWO}", "SLURM_PROCID": "3"}, 3),
        ({"OMPI_COMM_WORLD_RANK": "2", "SLURM_PROCID": "0"}, 2),
    ],
)
def test_host_of_a_queue_that_numbers_its_tasks_otherwise_is_surveyed(
    variables: dict[str, str], rank: int, tmp_path: Path
) -> None:
    (tmp_path / "host.json").write_text(
        json.dumps({"label": "a", "slots": 1, "cores": 2})
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PSRING_CLUSTER", str(tmp_path))
        for name, value in variables.items():
            patched.setenv(name, value)

        assert host_calls.survey("127.0.0.1").rank == rank


@for_each("name", list(QUEUES))
def test_queue_without_a_launcher_is_told_with_the_lines_to_write(name: str) -> None:
    asks = (
        lambda: getattr(kit.launchers, name),
        lambda: kit.launchers.from_site(name.lower()),
        lambda: kit.Cluster(launcher=name.lower()),
    )

    for ask in asks:
        with pytest.raises(UnimplementedError) as reply:
            ask()
        assert reply.value.message.endswith(lines_for(name))
    assert not hasattr(kit.launchers, "Pbs2")


@for_each("name", list(QUEUES))
def test_lines_for_a_queue_are_what_dask_jobqueue_takes(name: str) -> None:
    module = import_module(f"dask_jobqueue.{name.lower()}")
    call = ast.parse(lines_for(name)).body[0]
    assert isinstance(call, ast.Assign)
    made = call.value
    assert isinstance(made, ast.Call)
    assert ast.unparse(made.func) == f"dask_jobqueue.{name}Cluster"
    values = {
        str(word.arg): eval(ast.unparse(word.value), {"os": os})
        for word in made.keywords
    }
    of_the_scheduler = ("security", "shared_temp_directory")
    of_a_job = {k: v for k, v in values.items() if k not in of_the_scheduler}

    job = getattr(module, f"{name}Job")("tls://127.0.0.1:1", name="a", **of_a_job)

    assert "distributed.cli.dask_worker tls://127.0.0.1:1" in job.job_script()
    assert {*of_the_scheduler} <= {*values}


def test_launcher_takes_what_the_site_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "site.toml"
    file.write_text('[slurm]\npartition = "short"\nmemory = "2G"\n')
    monkeypatch.setenv("KIT_LAUNCHERS", str(file))

    result = kit.launchers.from_site("slurm", memory="4G")

    assert result == kit.launchers.Slurm(partition="short", memory="4G")
    named = kit.Cluster(ps=0, worker=2, launcher="slurm").options.launcher
    assert named == kit.launchers.Slurm(partition="short", memory="2G")
    with pytest.raises(InvalidArgumentError, match=r"'slrum'\. Did you mean slurm\?"):
        kit.launchers.from_site("slrum")
    with pytest.raises(InvalidArgumentError, match=r"'queue'.*It takes partition"):
        kit.launchers.from_site("slurm", queue="short")
    with pytest.raises(InvalidArgumentError, match=r"SSH cannot be made .*'hosts'"):
        kit.launchers.from_site("ssh")
    file.write_text('[pbs]\nqueue = "short"\n')
    with pytest.raises(UnimplementedError, match=r"PBSCluster"):
        kit.launchers.from_site("slurm")
