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
    "a_spec_differs_from_its_source": lambda spec: spec == SPARSE,
    "a_spec_differs_from_its_def": lambda spec: spec == spec.as_cluster_def(),
    "a_spec_differs_from_none": lambda spec: (spec is None, spec == None),  # noqa: E711
    "a_spec_is_not_unequal_to_itself": lambda spec: spec != spec,
    "a_spec_has_no_hash": lambda spec: hash(spec),
    "a_spec_is_true": lambda spec: bool(spec),
    "jobs_cannot_be_set": lambda spec: setattr(spec, "jobs", []),
}


def asked(question: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda tf: question(spec_of(tf))


CASES = {name: asked(question) for name, question in ASKED.items()}


def case_jobs_of_a_def_stand_as_in_the_def(tf: Any) -> Any:
    inputs = tf.train.ClusterDef()
    inputs.job.add(name="w")
    inputs.job.add(name="a")
    return tf.train.ClusterSpec(inputs).jobs


def case_jobs_of_a_spec_of_a_spec_are_sorted(tf: Any) -> Any:
    return tf.train.ClusterSpec(spec_of(tf)).jobs


def case_job_tasks_with_a_negative_task(tf: Any) -> Any:
    return tf.train.ClusterSpec({"worker": {-1: "a:1"}}).job_tasks("worker")
