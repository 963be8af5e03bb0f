"""The magics as they are typed, in a shell of this process; no engine is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from kit import machine
from kit.cluster import Cluster
from kit.cluster.processes import left_behind
from kit.cluster.processes.left_behind import LeftBehind
from kit.cluster.processes.reaper import Process
from kit.errors import StartFailed
from kit.magics import line_parsing
from tests.cases import for_each
from tests.magics.stage import Cells, FakeCluster, FakeRun

NO_CLUSTER = "no cluster is running; start one with %%cluster --ps 1 --worker 3."


def test_few_cores_are_told_before_the_start_and_what_that_means(
    cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin_start(self: Cluster) -> Iterator[float]:
        yield 0.0
        raise StartFailed("not in this test.")

    monkeypatch.setattr(machine, "cores", lambda: 2)
    monkeypatch.setattr(machine, "memory", lambda: machine.MachineMemory(10**6, 10**6))
    monkeypatch.setattr(Cluster, "begin_start", begin_start)

    few, *more = cells.failing("%%cluster --worker 40\n1")
    enough = "\n".join(cells.failing("%%cluster --ps 1 --worker 3\n1"))

    assert few.startswith("41 tasks on 2 cores: about 20 take turns on each core")
    said = " ".join([few, *more])
    assert "a step takes about 20 times as long" in " ".join(said.split())
    assert "ps=1, worker=1 would have that" in said
    assert "cores" not in enough
    assert "StartFailed: not in this test." in enough


@for_each(
    ("cell", "line"),
    [
        (
            "%%cluster --wroker 3\n1",
            "UsageError: %%cluster has no option --wroker. Did you mean --worker? Its "
            "options: --ps, --worker, --job, --link, --transport, --insecure, "
            "--threads, --gpus, --timeout, --lease, --reuse, --restart, --launcher, "
            "--args, --command, --address, --python, --partition, --time, --account, "
            "--memory, --options, --shared, --environment, --hosts, --ssh-args; "
            "%%cluster? explains them.",
        ),
        (
            "%%cluster 3\n1",
            "UsageError: %%cluster does not know what to do with '3'.",
        ),
        (
            "%%cluster stop\n1",
            "UsageError: %%cluster does not know what to do with 'stop'. With one % it "
            "manages the cluster: %cluster stop.",
        ),
        (
            "%%cluster ps=1\n1",
            "UsageError: %%cluster does not know what to do with 'ps=1'. Did you mean "
            "--ps=1?",
        ),
        (
            "%%cluster --worker -1\n1",
            "UsageError: %%cluster: argument --worker: '-1' is not a whole number "
            "from 0 up; give 0, 1, 2 and so on.",
        ),
        (
            "%%cluster --ps x\n1",
            "UsageError: %%cluster: argument --ps: 'x' is not a whole number "
            "from 0 up; give 0, 1, 2 and so on.",
        ),
        (
            "%%cluster --job chief\n1",
            "UsageError: %%cluster: argument --job: 'chief' is not a job with its "
            "number of tasks; write it like chief=1.",
        ),
        (
            "%%cluster --ps 0 --worker 0\n1",
            "InvalidArgumentError: worker=0 has no worker, so nothing would compute; "
            "ask for at least one: ps=1, worker=1.",
        ),
        (
            "%%cluster --reuse --restart\n1",
            "InvalidArgumentError: --reuse and --restart exclude each other.",
        ),
        (
            "%%cluster --timeout 0\n1",
            "UsageError: %%cluster: argument --timeout: '0' is not a time in seconds; "
            "give a number above 0, such as 2.5.",
        ),
        ("%%on worker\n1", f"FailedPreconditionError: {NO_CLUSTER}"),
        ("%topology ring", f"FailedPreconditionError: {NO_CLUSTER}"),
        ("%cluster restart worker:1", f"FailedPreconditionError: {NO_CLUSTER}"),
        (
            "%cluster staus",
            "UsageError: %cluster has no command 'staus'. Did you mean status? It "
            "knows: status, stop, restart, kill, add, remove, logs, list, clean.",
        ),
        (
            "%cluster stop worker:1",
            "UsageError: %cluster stop is about the whole cluster; name no task.",
        ),
    ],
)
def test_a_mistake_is_told_in_one_line_with_what_to_do(
    cells: Cells, cell: str, line: str
) -> None:
    assert cells.failing(cell) == [line]


@for_each(
    ("cell", "line"),
    [
        (
            "%%on wroker\n1",
            "PlacementError: no task or job is called 'wroker'; this cluster has ps:0, "
            "worker:0, worker:1. Did you mean 'worker'?",
        ),
        (
            "%%on\n1",
            "UsageError: %%on needs a job or task, such as one of: ps, worker, all.",
        ),
        (
            "%%on worker\n\n",
            "UsageError: %%on has nothing to run; write code below its line.",
        ),
        (
            "%%on worker --tiemout 3\n1",
            "UsageError: %%on has no option --tiemout. Did you mean --timeout? Its "
            "options: --timeout, --trace, --each; %%on? explains them.",
        ),
        (
            "%topology ring",
            "FailedPreconditionError: no training has begun on this cluster; begin one "
            "with kit.train(...).",
        ),
    ],
)
def test_a_mistake_about_a_cluster_that_runs_is_told_in_one_line(
    cells: Cells, cluster: FakeCluster, cell: str, line: str
) -> None:
    assert cells.failing(cell) == [line]
    assert cluster.codes == []


@for_each(
    ("names", "tasks"),
    [
        ("worker", ["worker:0", "worker:1"]),
        ("worker:1", ["worker:1"]),
        ("/job:worker/task:1", ["worker:1"]),
        ("worker:1,ps", ["ps:0", "worker:1"]),
        ("ps worker:0", ["ps:0", "worker:0"]),
        ("all", ["ps:0", "worker:0", "worker:1"]),
    ],
)
@for_each("autoawait", [True, False])
def test_on_runs_the_whole_cell_on_the_named_tasks(
    cells: Cells, cluster: FakeCluster, names: str, tasks: list[str], autoawait: bool
) -> None:
    cells.shell.autoawait = autoawait
    cluster.codes.clear()
    cell = "x = 1\n\n%time x\n"

    printed = cells.shown(f"%%on {names}\n{cell}").splitlines()
    cells.shell.autoawait = True

    assert cluster.codes == [(task, cell) for task in tasks]
    assert [line.split(" ")[0] for line in printed] == tasks
    assert all(line.endswith("│ ran 3 lines") for line in printed)


@for_each(
    ("cell", "codes"),
    [
        # Braces are filled in on the line and not in the cell.
        ("%%on {which}\nf'{which}'", [("worker:1", "f'{which}'")]),
        (  # Each task is named, and they go one after the other.
            "%%on worker --each\nprint(task)",
            [
                ("worker:0", "task = worker:0"),
                ("worker:0", "print(task)"),
                ("worker:1", "task = worker:1"),
                ("worker:1", "print(task)"),
            ],
        ),
    ],
)
def test_tasks_get_these_lines_in_this_order(
    cells: Cells, cluster: FakeCluster, cell: str, codes: list[tuple[str, str]]
) -> None:
    cells.shell.user_ns["which"] = "worker:1"
    cluster.codes.clear()

    cells.shown(cell)

    assert [(task, code.strip()) for task, code in cluster.codes] == codes


def test_topology_says_how_it_is_and_when_a_request_holds(
    cells: Cells, cluster: FakeCluster
) -> None:
    run = cluster.run = FakeRun()

    assert cells.shown("%topology").startswith("ps since step 4")
    assert run.requested == []
    assert cells.shown("%topology ring") == (
        "ring since step 4, running at step 7 of 100\n"
    )
    assert run.requested == ["ring"]


@for_each("tasks", ["worker:1 ps", "worker:1,ps", "ps, worker:1"])
def test_logs_are_those_of_the_named_tasks(
    cells: Cells, cluster: FakeCluster, tasks: str
) -> None:
    expected = "ps:0: no log yet\nworker:1, logs/worker-1.log:\n50 lines\n"
    assert cells.shown(f"%cluster logs {tasks} -n 50") == expected


def test_without_a_cluster_it_is_said_how_to_start_one_and_what_was_left_behind(
    cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cells.shown("%cluster") == f"{NO_CLUSTER}\n"

    gone = Process(2, 1)  # there is a process 2, and it was not started then
    left = LeftBehind(Path("psring-x"), "ps=1", gone, None, frozenset())
    monkeypatch.setattr(left_behind, "find", lambda: [left])
    assert cells.failing("%%on worker\n1") == [
        f"FailedPreconditionError: {NO_CLUSTER} Left behind by notebooks that were "
        f"killed: 1 (%cluster list shows them, %cluster clean ends them)."
    ]


@for_each("is_over", [False, True])
def test_the_state_of_a_cluster_is_not_that_of_its_last_training(
    cells: Cells, cluster: FakeCluster, is_over: bool
) -> None:
    cluster.run = FakeRun(done=is_over)

    assert ("FakeRun" in cells.shown("%cluster")) is not is_over


@for_each("name", ["%%cluster", "%cluster", "%%on", "%topology"])
def test_help_of_a_magic_has_examples_and_all_its_options(
    shell: InteractiveShell, name: str
) -> None:
    kind = "cell" if name.startswith("%%") else "line"
    magic = shell.magics_manager.magics[kind][name.strip("%")]

    usage, said = magic.__doc__.split("Examples::")
    assert f"\n  {name} [" in usage
    assert f"    {name} " in said
    assert "In plain Python: `" in said
    assert all(flag in said for flag in line_parsing.flags(magic))
