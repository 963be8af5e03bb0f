"""The task that TF_CONFIG or Slurm's variables say this process is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kit
from kit.errors import InvalidArgumentError, NotFoundError
from kit.server.environment import task_from_environment
from kit.server.server import Server
from kit.wire.handshake.credentials import Credentials
from tests.cases import for_each


def tf_config(cluster: Any, job: str, index: Any = 0) -> dict[str, str]:
    config = {"cluster": cluster, "task": {"type": job, "index": index}}
    return {"TF_CONFIG": json.dumps({**config, "environment": "cloud"})}


def slurm(nodes: str, counts: str, n_tasks: int, rank: int = 0) -> dict[str, str]:
    return {
        "SLURM_PROCID": str(rank),
        "SLURM_NTASKS": str(n_tasks),
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_TASKS_PER_NODE": counts,
    }


STEP = slurm("n[1-2]", "2,1", 3)


@for_each(
    ("cluster", "index", "as_it_is"),
    [
        ({"chief": ["c:1"], "ps": ["p:1", "p:2"], "worker": ["w:0", "w:1"]}, 1, None),
        ({"worker": {"3": "w:3"}}, "3", {"worker": {3: "w:3"}}),  # sparse: texts
        ({"worker": ["w:1"], "evaluator": ["e:1"]}, 0, {"worker": ["w:1"]}),
    ],
)
def test_tf_config_names_the_cluster_and_the_task(
    cluster: Any, index: Any, as_it_is: Any
) -> None:
    result = task_from_environment(tf_config(cluster, "worker", index))

    assert result == (kit.ClusterSpec(as_it_is or cluster), "worker", int(index))


def test_an_evaluator_is_told_what_to_do_instead() -> None:
    with pytest.raises(InvalidArgumentError, match=r"evaluator.*kit\.load_checkpoint"):
        task_from_environment(tf_config({"worker": ["w:1"]}, "evaluator"))


@for_each(
    ("text", "expected"),
    [
        ("{", "a JSON object"),
        ("[]", "a JSON object"),
        ("[" * 100_000, "a JSON object"),
        ('{"cluster": {"worker": ["w:1"]}}', "a task such as"),
        ('{"task": {"type": "worker", "index": 0}}', "the jobs with their addresses"),
        (tf_config({"worker": "w:1"}, "worker")["TF_CONFIG"], "a list, or an object"),
        (tf_config({"worker": [1]}, "worker")["TF_CONFIG"], "0 has 1"),
        (tf_config({"worker": ["w"]}, "worker")["TF_CONFIG"], "0 has 'w'"),
        (tf_config({"worker": {"a": "w:1"}}, "worker")["TF_CONFIG"], "'a' has 'w:1'"),
        (
            tf_config({"worker": {"1": "w:1", "01": "w:2"}}, "worker", 1)["TF_CONFIG"],
            "'01' has 'w:2'",
        ),
        (tf_config({"worker": ["w:1"]}, "worker", 1)["TF_CONFIG"], r"worker \[0\]"),
        (tf_config({"worker": ["w:1"]}, "worker", -1)["TF_CONFIG"], r"worker \[0\]"),
        (tf_config({"worker": ["w:1"]}, "worker", True)["TF_CONFIG"], r"worker \[0\]"),
        (tf_config({"worker": ["w:1"]}, "ps")["TF_CONFIG"], r"worker \[0\]"),
    ],
)
def test_a_wrong_tf_config_is_named_and_shown_with_what_was_expected(
    text: str, expected: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"TF_CONFIG is .*{expected}") as got:
        task_from_environment({"TF_CONFIG": text})

    assert text[:20] in str(got.value).replace("\\", "")
    assert len(str(got.value)) < 1000


@for_each(
    ("text", "nodes"),
    [
        ("n7", ["n7"]),
        ("node[01-03,7]", ["node01", "node02", "node03", "node7"]),
        ("a[1-2],b,c[9-10]-ib", ["a1", "a2", "b", "c9-ib", "c10-ib"]),
        ("r[1-2]n[08-10]", ["r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10"]),
    ],
)
def test_a_list_of_nodes_is_expanded_as_slurm_writes_it(
    text: str, nodes: list[str]
) -> None:
    step = slurm(text, f"1(x{len(nodes)})", len(nodes))
    workers = task_from_environment(step, ps=0).cluster.as_dict()["worker"]

    assert workers == [f"{node}:2222" for node in nodes]


def test_the_first_tasks_are_ps_and_each_has_a_port_of_its_own_on_its_node() -> None:
    environment = slurm("n[1-3],m", "2(x3),1", 7, rank=3)

    result = task_from_environment(environment, ps=2, port=3000)

    assert result == (
        kit.ClusterSpec(
            {
                "ps": ["n1:3000", "n1:3001"],
                "worker": ["n2:3000", "n2:3001", "n3:3000", "n3:3001", "m:3000"],
            }
        ),
        "worker",
        1,
    )


def test_all_tasks_of_a_step_see_the_same_cluster_each_at_another_place() -> None:
    # A step may have fewer tasks than its job.
    step = {**STEP, "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "3"}
    result = [
        task_from_environment({**step, "SLURM_PROCID": str(n)}, ps=1) for n in range(3)
    ]

    assert [row[1:] for row in result] == [("ps", 0), ("worker", 0), ("worker", 1)]
    assert result[0].cluster == result[1].cluster == result[2].cluster


@for_each(
    ("name", "value", "expected"),
    [
        ("SLURM_PROCID", "x", "a whole number"),
        ("SLURM_PROCID", "3", "SLURM_NTASKS=3"),
        ("SLURM_NTASKS", "-3", "a whole number"),
        ("SLURM_NTASKS", "1", "more tasks than ps=1"),
        ("SLURM_NTASKS", "4", "4 tasks"),
        ("SLURM_STEP_NODELIST", "n[1-", "names of nodes"),
        ("SLURM_STEP_NODELIST", "n[2-1]", "names of nodes"),
        ("SLURM_STEP_NODELIST", "n[a]", "names of nodes"),
        ("SLURM_STEP_NODELIST", "n1,,n2", "names of nodes"),
        ("SLURM_STEP_NODELIST", "n[0-999999999]", "names of nodes"),
        ("SLURM_STEP_NODELIST", "n[1-3]", "3 nodes"),
        ("SLURM_STEP_NODELIST", "[0-9999][0-9999][0-9999]", "100000 nodes"),
        ("SLURM_STEP_TASKS_PER_NODE", "2(y3)", "counts such as"),
        ("SLURM_STEP_TASKS_PER_NODE", "999999999(x999999999)", "counts such as"),
        ("SLURM_STEP_TASKS_PER_NODE", "1(x999999999)", "3 tasks"),
        ("SLURM_NODEID", "1", r"0 \(n1\) for task 0; .*--distribution=block"),
    ],
)
def test_a_wrong_variable_of_slurm_is_named_and_shown_with_what_was_expected(
    name: str, value: str, expected: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=expected) as caught:
        task_from_environment({**STEP, name: value})

    assert name in str(caught.value)
    assert value in str(caught.value) or expected.endswith("nodes")


@for_each("name", sorted(set(STEP) - {"SLURM_PROCID"}))
def test_a_missing_variable_of_slurm_is_named(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} is not.*srun"):
        task_from_environment({**STEP, name: ""})


@for_each(("ps", "port"), [(-1, 2222), (1, 65535), (1, -5)])
def test_a_number_that_fits_no_step_is_refused(ps: int, port: int) -> None:
    with pytest.raises(InvalidArgumentError, match=r"ps is -1|port 65536|-5"):
        task_from_environment(STEP, ps=ps, port=port)


def test_tf_config_is_read_before_slurm_and_one_of_both_must_be_there() -> None:
    environment = {**STEP, **tf_config({"worker": ["w:1"]}, "worker")}

    assert task_from_environment(environment).cluster == {"worker": {0: "w:1"}}
    with pytest.raises(NotFoundError, match="TF_CONFIG nor SLURM_PROCID"):
        task_from_environment({"PATH": "/bin"})


def test_a_server_is_made_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {
        "credentials": Credentials.new(certificate=False),
        "settings": kit.Settings(runtime_dir=str(tmp_path)),
    }
    environment = tf_config({"worker": ["localhost:0", "localhost:0"]}, "worker", 1)

    with Server.from_environment(environment, **options) as server:
        assert str(server.task) == "/job:worker/task:1"
    monkeypatch.setenv("TF_CONFIG", environment["TF_CONFIG"])
    with Server.from_environment(**options) as server:
        assert str(server.task) == "/job:worker/task:1"
