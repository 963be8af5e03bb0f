"""ClusterSpec: what its members say, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPARSE = {"worker": {3: "d:1", 0: "a:1"}, "ps": ["p:1", "q:1"], "idle": []}


def spec_of(tf: Any) -> Any:
    return tf.train.ClusterSpec(SPARSE)


ASKED: dict[str, Callable[[Any], Any]] = {
    "jobs_stand_as_given": lambda spec: spec.jobs,
    "num_tasks_counts_the_defined": lambda spec: spec.num_tasks("worker"),
    "num_tasks_of_a_dense_job": lambda spec: spec.num_tasks("ps"),
    "num_tasks_of_a_job_without_tasks": lambda spec: spec.num_tasks("idle"),
    "num_tasks_of_an_unknown_job": lambda spec: spec.num_tasks("moon"),
    "task_indices_are_sorted": lambda spec: spec.task_indices("worker"),
    "task_indices_of_a_job_without_tasks": lambda spec: spec.task_indices("idle"),
    "task_indices_of_an_unknown_job": lambda spec: spec.task_indices("moon"),
    "task_address_of_a_sparse_task": lambda spec: spec.task_address("worker", 3),
    "task_address_of_a_dense_task": lambda spec: spec.task_address("ps", 1),
    "task_address_of_a_hole": lambda spec: spec.task_address("worker", 1),
    "task_address_of_a_text": lambda spec: spec.task_address("worker", "3"),
    "task_address_of_none": lambda spec: spec.task_address("worker", None),
    "task_address_from_the_end": lambda spec: spec.task_address("ps", -1),
    "task_address_of_an_unknown_job": lambda spec: spec.task_address("moon", 0),
    "job_tasks_of_a_dense_job": lambda spec: spec.job_tasks("ps"),
    "job_tasks_has_none_in_holes": lambda spec: spec.job_tasks("worker"),
    "job_tasks_of_a_job_without_tasks": lambda spec: spec.job_tasks("idle"),
    "job_tasks_of_an_unknown_job": lambda spec: spec.job_tasks("moon"),
    "as_dict_keeps_each_form": lambda spec: spec.as_dict(),
    "a_spec_prints_its_jobs_in_order": lambda spec: str(spec),
    "a_spec_equals_its_mapping_to_tasks": lambda spec: (
        spec == {"worker": {0: "a:1", 3: "d:1"}, "ps": {0: "p:1", 1: "q:1"}, "idle": {}}
    ),
    "a_spec_differs_from_its_source": lambda spec: spec == SPARSE,
    "a_spec_differs_from_its_def": lambda spec: spec == spec.as_cluster_def(),
    "a_spec_differs_from_none": lambda spec: (spec is None, spec == None),  # noqa: E711
    "a_spec_is_not_unequal_to_itself": lambda spec: spec != spec,
    "a_spec_has_no_hash": lambda spec: hash(spec),
    "a_spec_is_true": lambda spec: bool(spec),
    "the_def_is_the_same_each_time": lambda spec: (
        spec.as_cluster_def() is spec.as_cluster_def()
    ),
    "jobs_cannot_be_set": lambda spec: setattr(spec, "jobs", []),
}


def asked(question: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda tf: question(spec_of(tf))


CASES = {name: asked(question) for name, question in ASKED.items()}


def case_jobs_of_a_def_stand_as_in_the_def(tf: Any) -> Any:
    given = tf.train.ClusterDef()
    given.job.add(name="w")
    given.job.add(name="a")
    return tf.train.ClusterSpec(given).jobs


def case_jobs_of_a_spec_of_a_spec_are_sorted(tf: Any) -> Any:
    return tf.train.ClusterSpec(spec_of(tf)).jobs


def case_job_tasks_with_a_negative_task(tf: Any) -> Any:
    return tf.train.ClusterSpec({"worker": {-1: "a:1"}}).job_tasks("worker")


def case_as_dict_is_fresh_each_time(tf: Any) -> Any:
    spec = tf.train.ClusterSpec({"worker": ["a:1"]})
    spec.as_dict()["worker"].append("b:1")
    spec.as_dict()["ps"] = ["p:1"]
    return spec.as_dict()


def case_only_a_spec_without_jobs_is_false(tf: Any) -> Any:
    specs = [{}, {"worker": []}, {"worker": {}}, {"worker": ["a:1"]}]
    return [bool(tf.train.ClusterSpec(one)) for one in specs]


def case_the_order_of_tasks_matters_and_that_of_jobs_does_not(tf: Any) -> Any:
    make = tf.train.ClusterSpec
    spec = make({"w": ["a:1", "b:1"], "ps": ["p:1"]})
    return [
        spec == make({"ps": ["p:1"], "w": ["a:1", "b:1"]}),
        spec == make({"ps": ["p:1"], "w": ["b:1", "a:1"]}),
        spec == make({"ps": {0: "p:1"}, "w": {1: "b:1", 0: "a:1"}}),
        spec != make({"ps": ["p:1"]}),
    ]


def case_an_empty_spec_prints(tf: Any) -> Any:
    return str(tf.train.ClusterSpec({}))


def case_the_listing_of_the_documentation(tf: Any) -> Any:
    """Each member once, for the cluster that everybody writes first."""
    workers = [f"worker{i}.example.com:2222" for i in range(3)]
    servers = [f"ps{i}.example.com:2222" for i in range(2)]
    spec = tf.train.ClusterSpec({"worker": workers, "ps": servers})
    return {
        "jobs": sorted(spec.jobs),
        "as_dict": spec.as_dict(),
        "as_cluster_def": str(spec.as_cluster_def()),
        "job_tasks": [spec.job_tasks("worker"), spec.job_tasks("ps")],
        "num_tasks": [spec.num_tasks("worker"), spec.num_tasks("ps")],
        "task_address": [spec.task_address("worker", i) for i in range(3)],
        "task_indices": [spec.task_indices("worker"), spec.task_indices("ps")],
    }
