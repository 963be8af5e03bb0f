"""Cluster specs: what is accepted, what each member says, what is refused."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.cluster_def import ClusterDef, JobDef
from kit.spec import ClusterSpec
from kit.task import Task
from tests.cases import for_each

SPARSE = {"worker": {3: "d:1", 0: "a:1"}, "ps": ["p:1", "q:1"], "idle": []}

names = st.text('ab:1é "\\\n', max_size=6)
indices = st.integers(-3, 2**31 - 1) | st.integers(0, 5)
dense = st.lists(names, max_size=4)
jobs = st.one_of(dense, dense.map(tuple), st.dictionaries(indices, names, max_size=4))
specs = st.dictionaries(names, jobs, max_size=4).map(ClusterSpec)


@for_each(
    ("form", "jobs"),
    [
        ({"w": ["a", "b"]}, {"w": {0: "a", 1: "b"}}),
        ({"w": ("a", "b")}, {"w": {0: "a", 1: "b"}}),
        ({"w": {7: "a", 3: "b"}}, {"w": {7: "a", 3: "b"}}),
        ({"w": {7: "a"}, "ps": ["b"]}, {"w": {7: "a"}, "ps": {0: "b"}}),
        (ClusterDef([JobDef("w", {7: "a"})]), {"w": {7: "a"}}),
        (ClusterSpec({"w": {7: "a"}}), {"w": {7: "a"}}),
        ({}, {}),
        (OrderedDict(w=["a"]), {"w": {0: "a"}}),
        ({b"w": [b"a"]}, {b"w": {0: b"a"}}),
        ({"w": {"1": "a"}}, {"w": {1: "a"}}),
        ({"w": {1.7: "a"}}, {"w": {1: "a"}}),
        ({"w": {-1: "a"}}, {"w": {-1: "a"}}),
        ({"": [""], "a job": ["x", "x"]}, {"": {0: ""}, "a job": {0: "x", 1: "x"}}),
    ],
)
def test_a_spec_is_made_from_every_accepted_form(
    form: Any, jobs: dict[Any, Any]
) -> None:
    assert ClusterSpec(form) == jobs


@for_each(
    ("form", "error", "message"),
    [
        (None, TypeError, "not from None"),
        (["a:1"], TypeError, "of type list"),
        ("a:1", TypeError, "of type str"),
        (3, TypeError, "of type int"),
        (MappingProxyType({"w": ["a"]}), TypeError, "mappingproxy"),
        ({"w": "a:1"}, TypeError, "job 'w'"),
        ({"w": {"a:1"}}, TypeError, "job 'w'"),
        ({"w": None}, TypeError, "job 'w'"),
        ({"w": 3}, TypeError, "job 'w'"),
        ({1: ["a:1"]}, TypeError, "name of a job .* 1 of type int"),
        ({"w": [2222]}, TypeError, "address of task 0 of job 'w' .* 2222"),
        ({"w": {5: None}}, TypeError, "address of task 5 of job 'w' .* None"),
        ({"w": {None: "a"}}, TypeError, "index None of job 'w'"),
        ({"w": {"x": "a"}}, ValueError, "index 'x' of job 'w'"),
        ({"w": {float("inf"): "a"}}, ValueError, "index inf of job 'w'"),
        ({"w": {2**31: "a"}}, ValueError, "does not fit 32 bits"),
        ({b"\xff": ["a"]}, ValueError, "must be UTF-8"),
        ({b"w": ["a"], "ps": ["b"]}, TypeError, "all str or all bytes"),
    ],
)
def test_bad_input_is_refused_with_the_error_of_the_original(
    form: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ClusterSpec(form)


def test_jobs_keep_the_order_of_their_source_but_of_a_spec_they_are_sorted() -> None:
    cluster = ClusterDef([JobDef("w"), JobDef("ps")])

    assert ClusterSpec({"w": [], "ps": [], "a": []}).jobs == ["w", "ps", "a"]
    assert ClusterSpec(cluster).jobs == ["w", "ps"]
    assert ClusterSpec(ClusterSpec({"w": [], "ps": []})).jobs == ["ps", "w"]


def test_each_member_of_a_spec_with_holes_answers() -> None:
    spec = ClusterSpec(SPARSE)

    assert spec.num_tasks("worker") == 2
    assert spec.task_indices("worker") == [0, 3]
    assert spec.task_address("worker", 3) == "d:1"
    assert spec.job_tasks("worker") == ["a:1", None, None, "d:1"]
    assert [str(task) for task in spec.tasks()] == [
        "/job:worker/task:0",
        "/job:worker/task:3",
        "/job:ps/task:0",
        "/job:ps/task:1",
    ]
    assert (
        str(spec)
        == repr(spec)
        == (
            "ClusterSpec({'idle': {}, 'ps': ['p:1', 'q:1'], "
            "'worker': {0: 'a:1', 3: 'd:1'}})"
        )
    )


@for_each("index", [1, -1, "3", 0.5, None])
def test_an_index_that_is_not_there_is_a_value_error(index: Any) -> None:
    with pytest.raises(ValueError, match=r"no task with the index .* \[0, 3\]"):
        ClusterSpec(SPARSE).task_address("worker", index)


@for_each(
    ("tasks", "error", "message"),
    [
        ([], ValueError, "'w' has no tasks"),
        ({-1: "a"}, IndexError, "the task index -"),
        ({-1: "a", 1: "b"}, IndexError, "the task index -"),
        ({-2: "a", 4: "b"}, IndexError, "the task index -"),
    ],
)
def test_job_tasks_need_a_task_and_no_negative_index(
    tasks: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ClusterSpec({"w": tasks}).job_tasks("w")


MEMBERS: list[Callable[[ClusterSpec, Any], object]] = [
    ClusterSpec.num_tasks,
    ClusterSpec.task_indices,
    ClusterSpec.job_tasks,
    lambda spec, job: spec.task_address(job, 0),
]


@for_each("member", MEMBERS)
@for_each("job", ["chief", b"worker", None])
def test_an_unknown_job_is_a_value_error(
    member: Callable[[ClusterSpec, Any], object], job: Any
) -> None:
    with pytest.raises(ValueError, match="jobs are: 'worker', 'ps', 'idle'"):
        member(ClusterSpec(SPARSE), job)


@for_each(
    ("tasks", "plain"),
    [
        (["a", "b"], ["a", "b"]),
        ({1: "b", 0: "a"}, ["a", "b"]),
        ({3: "d", 0: "a"}, {0: "a", 3: "d"}),
        ([], {}),
        ({-1: "x"}, {-1: "x"}),
        ({-1: "x", 1: "y"}, {-1: "x", 1: "y"}),
        ([b"a"], [b"a"]),
    ],
)
def test_as_dict_has_lists_for_dense_jobs_and_dicts_for_others(
    tasks: Any, plain: Any
) -> None:
    assert ClusterSpec({"w": tasks}).as_dict() == {"w": plain}


def test_bytes_come_back_as_bytes_but_are_text_in_the_cluster_def() -> None:
    spec = ClusterSpec({b"w": [b"a:1"]})

    assert repr(spec.as_dict()) == "{b'w': [b'a:1']}"
    assert ClusterSpec(spec.as_cluster_def()).as_dict() == {"w": ["a:1"]}
    assert spec.tasks() == [Task("w", 0)]


def test_changes_of_the_source_or_of_a_dict_do_not_reach_the_spec() -> None:
    source = {"ps": ["a:1"], "w": {0: "b:1"}}
    spec = ClusterSpec(source)

    source["ps"].append("x:1")  # type: ignore[attr-defined]
    source["w"][1] = "x:1"  # type: ignore[index]
    spec.as_dict()["ps"].clear()
    spec.as_dict().clear()

    assert spec == {"ps": {0: "a:1"}, "w": {0: "b:1"}}
    assert spec.as_dict()["ps"] == ["a:1"]


def test_the_cluster_def_is_sorted_and_always_the_same_object() -> None:
    spec = ClusterSpec({"w": {2: "c:1", 0: "a:1"}, "ps": ["b:1"]})

    assert str(spec.as_cluster_def()) == (
        'job {\n  name: "ps"\n  tasks {\n    key: 0\n    value: "b:1"\n  }\n}\n'
        'job {\n  name: "w"\n  tasks {\n    key: 0\n    value: "a:1"\n  }\n'
        '  tasks {\n    key: 2\n    value: "c:1"\n  }\n}\n'
    )
    assert list(spec.as_cluster_def().job[1].tasks) == [0, 2]
    assert spec.as_cluster_def() is spec.as_cluster_def()


def test_a_cluster_def_is_kept_and_a_spec_is_copied() -> None:
    cluster = ClusterDef([JobDef("w", {0: "a:1"}), JobDef("ps")])
    spec = ClusterSpec(cluster)
    twin = ClusterSpec(spec)

    assert spec.as_cluster_def() is cluster
    assert twin.as_cluster_def() == cluster
    assert twin.as_cluster_def() is not cluster
    assert twin.as_cluster_def().job[0] is not cluster.job[0]


def test_only_a_spec_without_jobs_is_false_and_none_has_a_hash() -> None:
    assert not ClusterSpec({})
    assert ClusterSpec({"w": []})
    with pytest.raises(TypeError, match="unhashable"):
        hash(ClusterSpec({}))


SPEC = ClusterSpec({"w": ["a:1"]})


@for_each(
    ("left", "right", "equal"),
    [
        (SPEC, ClusterSpec({"w": ["a:1"]}), True),
        (SPEC, ClusterSpec({"w": {0: "a:1"}}), True),
        (SPEC, {"w": {0: "a:1"}}, True),
        (SPEC, {"w": ["a:1"]}, False),
        (SPEC, SPEC.as_cluster_def(), False),
        (SPEC, None, False),
        (SPEC, ClusterSpec({"w": {1: "a:1"}}), False),
        (ClusterSpec({"w": ["a", "b"]}), ClusterSpec({"w": ["b", "a"]}), False),
        (
            ClusterSpec({"w": ["a"], "ps": ["b"]}),
            ClusterSpec({"ps": ["b"], "w": ["a"]}),
            True,
        ),
    ],
)
def test_equality_compares_the_tasks_and_not_the_order_of_jobs(
    left: ClusterSpec, right: object, equal: bool
) -> None:
    assert (left == right) is equal
    assert (left != right) is not equal


@given(specs)
def test_a_spec_is_rebuilt_from_each_of_its_forms(spec: ClusterSpec) -> None:
    cluster = spec.as_cluster_def()

    for form in (spec, spec.as_dict(), cluster, ClusterDef.from_text(str(cluster))):
        assert ClusterSpec(form) == spec
    assert copy.deepcopy(spec) == spec
    assert pickle.loads(pickle.dumps(spec)) == spec


@given(specs)
def test_every_task_is_listed_once_with_an_address(spec: ClusterSpec) -> None:
    tasks = spec.tasks()

    assert len(set(tasks)) == len(tasks) == sum(map(spec.num_tasks, spec.jobs))
    assert spec == {
        job: {i: spec.task_address(job, i) for i in spec.task_indices(job)}
        for job in spec.jobs
    }
