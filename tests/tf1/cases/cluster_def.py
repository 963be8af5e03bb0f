"""ClusterDef, JobDef and ServerDef: fields, order, text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPECS: dict[str, dict[Any, Any]] = {
    "one_task": {"worker": ["a:1"]},
    "two_jobs": {"worker": ["w0:2222", "w1:2222"], "ps": ["p0:2222"]},
    "a_sparse_job": {"worker": {7: "h:1", 3: "d:1"}},
    "a_job_without_tasks": {"idle": [], "ps": ["p:1"]},
    "an_empty_address": {"worker": [""]},
    "quotes_and_backslashes": {'w"x': ["a\\b:1", "it's"]},
    "ten_tasks": {"worker": [f"h:{port}" for port in range(11)]},
    "bytes": {b"worker": [b"a:1"]},
}


def text_of(source: dict[Any, Any]) -> Callable[[Any], Any]:
    return lambda tf: str(tf.train.ClusterSpec(source).as_cluster_def())


CASES = {f"the_text_of_{name}": text_of(source) for name, source in SPECS.items()}


def case_the_text_of_nothing(tf: Any) -> Any:
    return [
        str(tf.train.ClusterSpec({}).as_cluster_def()),
        str(tf.train.ClusterDef()),
        str(tf.train.JobDef()),
    ]


def case_a_def_from_a_spec_is_sorted(tf: Any) -> Any:
    result = tf.train.ClusterSpec({"w": {3: "d", 1: "b"}, "a": ["x"]}).as_cluster_def()
    return [(job.name, sorted(job.tasks.items())) for job in result.job]


def case_a_def_is_built_by_arguments(tf: Any) -> Any:
    job = tf.train.JobDef(name="worker", tasks={0: "a:1"})
    return str(tf.train.ClusterDef(job=[job]))


def case_defs_are_compared_by_content(tf: Any) -> Any:
    def make(address: str) -> Any:
        return tf.train.ClusterSpec({"worker": [address]}).as_cluster_def()

    return make("a:1") == make("a:1"), make("a:1") == make("b:1")


def case_a_server_def_is_built_by_arguments(tf: Any) -> Any:
    cluster = tf.train.ClusterSpec({"w": ["a:1", "b:1"]}).as_cluster_def()
    result = tf.train.ServerDef(
        cluster=cluster, job_name="w", task_index=1, protocol="grpc"
    )
    return result.job_name, result.task_index, result.protocol, str(result)


def case_a_server_def_copies_its_cluster(tf: Any) -> Any:
    cluster = tf.train.ClusterSpec({"w": ["a:1"]}).as_cluster_def()
    result = tf.train.ServerDef(cluster=cluster)
    return result.cluster is cluster, result.cluster == cluster


def case_a_server_def_refuses_an_unknown_field(tf: Any) -> Any:
    return tf.train.ServerDef(host="a")


def case_a_server_def_keeps_its_session_config(tf: Any) -> Any:
    config = tf.ConfigProto(allow_soft_placement=True)
    result = tf.train.ServerDef(default_session_config=config)
    return result.default_session_config.allow_soft_placement
