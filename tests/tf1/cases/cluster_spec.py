"""ClusterSpec: from what it is made, and what is refused."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any

from tests.tf1.look import makes_case


def definition(tf: Any) -> Any:
    """A ClusterDef whose jobs stand in no order."""
    result = tf.train.ClusterDef()
    for name, task in (("worker", 3), ("ps", 0)):
        job = result.job.add()
        job.name = name
        job.tasks[task] = f"{name}:1"
    return result


FORMS: dict[str, Callable[[Any], Any]] = {
    "a_dict_of_lists": lambda tf: {"ps": ["p:1"], "worker": ["a:1", "b:1"]},
    "a_dict_of_tuples": lambda tf: {"worker": ("a:1", "b:1")},
    "a_dict_of_dicts": lambda tf: {"worker": {0: "a:1", 1: "b:1"}},
    "a_sparse_job": lambda tf: {"worker": {3: "d:1", 1: "b:1"}},
    "one_task_that_is_not_the_first": lambda tf: {"worker": {7: "h:1"}},
    "a_dense_job_in_disorder": lambda tf: {"worker": {1: "b:1", 0: "a:1"}},
    "both_forms_mixed": lambda tf: {"ps": {2: "p:1"}, "worker": ["a:1"]},
    "a_cluster_def": definition,
    "an_empty_cluster_def": lambda tf: tf.train.ClusterDef(),
    "a_spec": lambda tf: tf.train.ClusterSpec({"w": {5: "f:1"}, "ps": ["p:1"]}),
    "an_empty_dict": lambda tf: {},
    "an_ordered_dict": lambda tf: collections.OrderedDict(
        [("z", ["a:1"]), ("b", ["b:1"])]
    ),
    "bytes": lambda tf: {b"worker": [b"a:1"]},
    "a_job_without_tasks": lambda tf: {"worker": [], "ps": ["p:1"]},
    "empty_and_equal_addresses": lambda tf: {"worker": ["", "x", "x"]},
    "an_address_without_a_port": lambda tf: {"worker": ["host"]},
    "names_with_spaces_and_none": lambda tf: {"a job": ["x"], "": ["y"]},
    "a_negative_task": lambda tf: {"worker": {-1: "a:1"}},
    "letters_beyond_ascii": lambda tf: {"worker": ["höst:1"]},
    "none": lambda tf: None,
    "a_list": lambda tf: ["a:1"],
    "a_text": lambda tf: "a:1",
    "an_int": lambda tf: 2222,
    "pairs": lambda tf: [("worker", ["a:1"])],
    "a_mapping_that_is_no_dict": lambda tf: types.MappingProxyType({"w": ["a:1"]}),
    "a_server_def": lambda tf: tf.train.ServerDef(),
    "tasks_that_are_text": lambda tf: {"worker": "a:1"},
    "tasks_that_are_a_set": lambda tf: {"worker": {"a:1"}},
    "tasks_that_are_none": lambda tf: {"worker": None},
    "tasks_that_are_an_int": lambda tf: {"worker": 1},
    "tasks_that_are_a_generator": lambda tf: {"worker": (item for item in ["a:1"])},
    "an_int_as_a_job": lambda tf: {1: ["a:1"]},
    "none_as_a_job": lambda tf: {None: ["a:1"]},
    "an_int_as_an_address": lambda tf: {"worker": [2222]},
    "none_as_an_address": lambda tf: {"worker": [None]},
    "none_as_an_address_in_a_dict": lambda tf: {"worker": {0: None}},
    "a_list_as_an_address": lambda tf: {"worker": [["a:1"]]},
    "digits_as_a_task": lambda tf: {"worker": {"1": "a:1"}},
    "a_word_as_a_task": lambda tf: {"worker": {"x": "a:1"}},
    "a_fraction_as_a_task": lambda tf: {"worker": {1.7: "a:1"}},
    "none_as_a_task": lambda tf: {"worker": {None: "a:1"}},
}


@makes_case
def made(tf: Any, form: Callable[[Any], Any]) -> Any:
    spec = tf.train.ClusterSpec(form(tf))
    return spec.as_dict(), bool(spec)


CASES = {f"a_spec_from_{name}": made(form) for name, form in FORMS.items()}
