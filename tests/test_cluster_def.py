"""The text of a cluster: what protobuf prints, and what of it is read back."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.cluster_def import ClusterDef, JobDef, Jobs, as_text
from tests.cases import for_each

# Recorded from protobuf's own printer for the same messages.
PRINTED = [
    (ClusterDef(), ""),
    (ClusterDef([JobDef()]), "job {\n}\n"),
    (ClusterDef([JobDef("x")]), 'job {\n  name: "x"\n}\n'),
    (
        ClusterDef([JobDef("w", {3: "b", 0: "", 1: "c"}), JobDef("a", {7: "d:1"})]),
        'job {\n  name: "w"\n'
        '  tasks {\n    key: 0\n    value: ""\n  }\n'
        '  tasks {\n    key: 1\n    value: "c"\n  }\n'
        '  tasks {\n    key: 3\n    value: "b"\n  }\n}\n'
        'job {\n  name: "a"\n  tasks {\n    key: 7\n    value: "d:1"\n  }\n}\n',
    ),
    (
        ClusterDef([JobDef("p\"s'\\é\x00\x7f\n\t\x80")]),
        'job {\n  name: "p\\"s\\\'\\\\é\\000\\177\\n\\t\x80"\n}\n',
    ),
]

indices = st.integers(-(2**31), 2**31 - 1)
texts = st.text("ab:1é€\U0001f600 \t\n\r\0\x7f\x80\"'\\#{}", max_size=8)
job_defs = st.builds(JobDef, texts, st.dictionaries(indices, texts, max_size=4))
cluster_defs = st.lists(job_defs, max_size=4).map(ClusterDef)


@for_each(("cluster", "text"), PRINTED)
def test_a_cluster_prints_as_protobuf_prints_it(cluster: ClusterDef, text: str) -> None:
    assert str(cluster) == text
    assert ClusterDef.from_text(text) == cluster


@given(cluster_defs)
def test_any_cluster_survives_its_text_and_pickle(cluster: ClusterDef) -> None:
    assert ClusterDef.from_text(str(cluster)) == cluster
    assert pickle.loads(pickle.dumps(cluster)) == cluster


@given(cluster_defs)
def test_a_job_prints_inside_its_cluster_as_alone(cluster: ClusterDef) -> None:
    inner = [line[2:] for line in str(cluster).split("\n") if line.startswith("  ")]

    assert inner == [line for job in cluster.job for line in str(job).split("\n")[:-1]]


@for_each(
    ("text", "job"),
    [
        ('job { name: "a" tasks { value: "x:1" } }', JobDef("a", {0: "x:1"})),
        ("job: < name: 'a' \"b\", tasks { key: 2 }; >;", JobDef("ab", {2: ""})),
        (
            'job{tasks{key:1 value:"x"}tasks{value:"y" key:1}}# end',
            JobDef("", {1: "y"}),
        ),
        ('# head\njob {\n  name: "a"  # tail\n}', JobDef("a")),
        (r'job { name: "\303\251 \101\x42\n\a\?" }', JobDef("é AB\n\a?")),
        ("job { tasks { key: -3 } }", JobDef("", {-3: ""})),
        (r'job { name: "a\-b" }', JobDef(r"a\-b")),  # as the original reads it
    ],
)
def test_other_layouts_of_the_text_are_read(text: str, job: JobDef) -> None:
    assert ClusterDef.from_text(text) == ClusterDef([job])


@for_each(
    ("text", "message"),
    [
        ('\njob { name: "a"\n  foo: 1 }', r"line 3: .* found 'foo'"),
        ('job { name: "a" name: "b" }', "line 1: expected tasks or }, found 'name'"),
        ("job { tasks { key: 1 key: 2 } }", "expected value or }, found 'key'"),
        ('job { name: "a"', "expected .*found the end of the text"),
        ('job { name: "a" >', "found '>'"),
        ('job { name "a" }', "expected ':'"),
        ("job;", "expected '{'"),
        ("x", "expected job, found 'x'"),
        ('"job" {}', "expected job"),
        ('job { tasks { key: "1" } }', "expected a decimal number"),
        ("job { tasks { key: 1.5 } }", "line 1"),
        ("job { tasks { key: 2147483648 } }", "does not fit 32 bits"),
        ("job { name: 7 }", "expected a quoted string"),
        ('job { name: "a\nb" }', "line 1"),
        ('job { name: "\\377" }', "string on line 1 must be UTF-8"),
        ("job { name: 'a',, }", "found ','"),
    ],
)
def test_a_bad_text_is_a_value_error_that_says_where(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClusterDef.from_text(text)


pieces = ["job", "tasks", "name", "key", "value", *"{}<>:,;#x\n", '"a"', '"\\7"', "-1"]


@given(st.lists(st.sampled_from(pieces), max_size=12), cluster_defs, st.data())
def test_a_damaged_text_is_read_or_refused_by_a_value_error(
    noise: list[str], cluster: ClusterDef, data: st.DataObject
) -> None:
    text = str(cluster)
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + " ".join(noise) + text[at:]

    try:
        result = ClusterDef.from_text(damaged)
    except ValueError:
        return

    assert ClusterDef.from_text(str(result)) == result


@for_each(
    ("name", "tasks", "error"),
    [
        (3, {}, TypeError),
        (None, {}, TypeError),
        (b"\xff", {}, ValueError),
        ("a", {"1": "x"}, TypeError),
        ("a", {1.0: "x"}, TypeError),
        ("a", {True: "x"}, TypeError),
        ("a", {0: None}, TypeError),
        ("a", {0: b"\xff"}, ValueError),
        ("a", {2**31: "x"}, ValueError),
        ("a", {-(2**31) - 1: "x"}, ValueError),
    ],
)
def test_a_job_refuses_what_the_message_cannot_hold(
    name: object, tasks: object, error: type[Exception]
) -> None:
    with pytest.raises(error):
        JobDef(name, tasks)  # type: ignore[arg-type]


def test_a_cluster_holds_jobs_only_is_read_from_text_and_has_no_hash() -> None:
    with pytest.raises(TypeError, match="holds JobDefs"):
        ClusterDef(["ps"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="is a str"):
        ClusterDef.from_text(b"job {}")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unhashable"):
        hash(ClusterDef())


def test_bytes_become_text() -> None:
    assert JobDef(b"ps", {0: b"a:1"}) == JobDef("ps", {0: "a:1"})  # type: ignore[arg-type, dict-item]
    assert as_text("é".encode(), "a name") == "é"


def test_a_cluster_is_filled_step_by_step_and_keeps_copies_of_the_tasks() -> None:
    cluster, tasks = ClusterDef(), {2: "b:1"}

    job = cluster.job.add()
    job.name = "ps"
    job.tasks[0] = "a:1"
    cluster.job.append(JobDef("worker", tasks))
    tasks[1] = "x:1"

    assert cluster == ClusterDef(
        [JobDef("ps", {0: "a:1"}), JobDef("worker", {2: "b:1"})]
    )
    assert isinstance(cluster.job, Jobs)


def test_clusters_with_other_jobs_or_another_order_are_not_equal() -> None:
    ps, worker = JobDef("ps", {0: "a:1"}), JobDef("worker", {0: "b:1"})

    assert ClusterDef([ps, worker]) != ClusterDef([worker, ps])
    assert ClusterDef([ps]) != ClusterDef([JobDef("ps", {1: "a:1"})])
    assert ClusterDef([ps]) != [ps]
