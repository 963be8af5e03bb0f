"""Device strings: what each text means, and how two specs are put together."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import Case, makes_case, tf

TEXTS: dict[str, Any] = {
    "nothing": "",
    "a_slash": "/",
    "two_slashes": "//",
    "none": None,
    "cpu_0_in_small_letters": "/cpu:0",
    "cpu_0_in_capitals": "/CPU:0",
    "cpu_0_without_a_slash": "cpu:0",
    "device_cpu_0": "/device:CPU:0",
    "device_cpu_0_in_small_letters": "/device:cpu:0",
    "gpu_1_in_small_letters": "/gpu:1",
    "gpu_1_in_capitals": "/GPU:1",
    "device_gpu_1_in_small_letters": "/device:gpu:1",
    "cpu_without_an_index": "/cpu",
    "cpu_without_slash_and_index": "CPU",
    "cpu_with_any_index": "/cpu:*",
    "device_cpu_with_any_index": "/device:CPU:*",
    "device_gpu_without_an_index": "/device:GPU",
    "a_type_of_ones_own": "/device:MyDev:3",
    "a_type_of_ones_own_in_small_letters": "/device:xpu:0",
    "a_mixed_case_cpu": "/device:Cpu:0",
    "tpu_0": "/TPU:0",
    "everything": "/job:ps/replica:0/task:3/device:GPU:1",
    "everything_backwards": "/device:GPU:1/task:3/replica:0/job:ps",
    "a_doubled_slash": "/job:ps//task:1",
    "a_slash_at_the_end": "/job:ps/task:1/",
    "no_slash_in_front": "job:ps/task:1",
    "two_jobs": "/job:a/job:b",
    "two_tasks": "/task:1/task:2",
    "two_replicas": "/replica:1/replica:2",
    "two_types": "/cpu:0/gpu:0",
    "one_type_twice": "/device:CPU:0/device:CPU:0",
    "any_job": "/job:*",
    "any_task": "/task:*",
    "any_replica": "/replica:*",
    "a_word_as_task": "/task:x",
    "a_word_as_replica": "/replica:x",
    "a_fraction_as_task": "/task:1.5",
    "a_word_as_gpu_index": "/gpu:x",
    "a_word_as_device_index": "/device:GPU:x",
    "a_space_before_the_task": "/task: 1",
    "a_space_at_the_end": "/cpu:0 ",
    "a_space_in_front": " /cpu:0",
    "a_negative_task": "/task:-1",
    "a_negative_gpu": "/gpu:-1",
    "job_in_capitals": "/JOB:ps",
    "task_with_a_capital": "/Task:1",
    "an_unknown_part": "/foo:1",
    "an_unknown_word": "/foo",
    "a_job_without_a_name": "/job",
    "a_job_with_an_empty_name": "/job:",
    "a_job_with_two_names": "/job:a:b",
    "a_job_alone": "/job:worker",
    "a_task_alone": "/task:7",
    "a_job_of_letters_and_digits": "/job:worker_2/task:10",
    "a_number": 3,
    "bytes": b"/cpu:0",
}

FIELDS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a_job": {"job": "ps"},
    "job_and_task": {"job": "ps", "task": 1},
    "everything": {
        **{"job": "ps", "replica": 0, "task": 1},
        **{"device_type": "GPU", "device_index": 2},
    },
    "a_type_in_small_letters": {"device_type": "cpu", "device_index": 0},
    "a_type_in_mixed_letters": {"device_type": "Cpu", "device_index": 0},
    "a_type_without_an_index": {"device_type": "GPU"},
    "an_index_without_a_type": {"device_index": 0},
    "a_task_in_digits": {"task": "1"},
    "a_task_in_letters": {"task": "x"},
    "an_index_in_letters": {"device_type": "CPU", "device_index": "x"},
    "a_replica_in_letters": {"replica": "x"},
    "a_job_that_is_a_number": {"job": 1},
    "an_unknown_field": {"host": "a"},
}

# A spec, and another that is laid over it.
MERGES: dict[str, tuple[str, str]] = {
    "fields_that_are_apart": ("/job:ps", "/task:1/cpu:0"),
    "fields_that_clash": ("/job:ps/task:1/gpu:0", "/job:worker/cpu:1"),
    "nothing": ("/job:ps/task:1", ""),
    "any_index": ("/device:GPU:1", "/device:CPU:*"),
    "task_zero": ("/job:ps/task:1", "/task:0"),
}


@makes_case
def parsed(text: Any) -> Any:
    spec = tf.DeviceSpec.from_string(text)
    parts = [spec.job, spec.replica, spec.task, spec.device_type, spec.device_index]
    return [spec.to_string(), parts]


def built(fields: dict[str, Any]) -> Case:
    return lambda: tf.DeviceSpec(**fields).to_string()


@makes_case
def merged(left: str, right: str) -> Any:
    spec = tf.DeviceSpec.from_string(left)
    other = tf.DeviceSpec.from_string(right)
    result = spec.make_merged_spec(other)
    before = spec.to_string()
    spec.merge_from(other)
    return [result.to_string(), before, spec.to_string(), other.to_string()]


@makes_case
def in_a_scope(text: Any) -> Any:
    with tf.device(text):
        return tf.constant(1.0).device


def case_replace_gives_another_spec() -> Any:
    spec = tf.DeviceSpec(job="ps", task=1)
    other = spec.replace(task=2, device_type="gpu", device_index=0)
    return [spec.to_string(), other.to_string(), spec.replace(job=None).to_string()]


SCOPES = [
    *("nothing", "a_slash", "none", "cpu_0_in_small_letters", "cpu_without_an_index"),
    *("everything", "everything_backwards", "device_gpu_without_an_index"),
    *("two_types", "a_word_as_task", "an_unknown_part", "a_number", "any_job"),
    *("no_slash_in_front", "job_in_capitals", "a_negative_task"),
]

CASES: dict[str, Case] = {
    **{f"from_string_of_{name}": parsed(text) for name, text in TEXTS.items()},
    **{f"constructor_of_{name}": built(fields) for name, fields in FIELDS.items()},
    **{f"merge_of_{name}": merged(*pair) for name, pair in MERGES.items()},
    **{f"scope_of_{name}": in_a_scope(TEXTS[name]) for name in SCOPES},
    "replace_refuses_an_unknown_field": lambda: tf.DeviceSpec().replace(host="a"),
    "a_spec_can_be_a_scope": lambda: in_a_scope(tf.DeviceSpec(job="ps", task=1))(),
    "merge_with_text_is_refused": lambda: tf.DeviceSpec().merge_from("/cpu:0"),
}
