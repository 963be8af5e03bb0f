"""`tf.device` and `tf.colocate_with`: what scopes make of an operation's device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from tests.tf1.look import Case, run, tf

# From the outer scope to the inner one.
NESTED: dict[str, list[Any]] = {
    "job_outside_and_cpu_inside": ["/job:ps", "/cpu:0"],
    "another_job_inside_keeps_the_task": ["/job:ps/task:0", "/job:worker"],
    "another_task_inside": ["/job:ps/task:0", "/task:1"],
    "any_cpu_inside_gpu_1": ["/device:GPU:1", "/device:CPU:*"],
    "cpu_inside_gpu_1": ["/device:GPU:1", "/cpu"],
    "any_gpu_inside_gpu_1": ["/device:GPU:1", "/device:GPU:*"],
    "none_inside": ["/job:ps/gpu:1", None],
    "cpu_inside_none": ["/job:ps", None, "/cpu:0"],
    "nothing_inside": ["/job:ps", ""],
    "a_slash_inside": ["/job:ps", "/"],
    "none_outside": [None, "/job:ps"],
    "three_scopes": ["/job:ps", "/task:3", "/gpu:1"],
    "three_scopes_that_clash": ["/job:a/task:1", "/job:b/cpu:0", "/job:c"],
    "cpu_outside_and_job_inside": ["/cpu:0", "/job:ps/task:1"],
    "everything_outside": ["/job:ps/replica:0/task:1/device:CPU:0", "/task:2"],
    "replica_outside": ["/replica:1", "/job:ps"],
}


def nested(scopes: list[Any]) -> str:
    with ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(tf.device(scope))
        return str(tf.constant(1.0).device)


def of_texts(scopes: list[Any]) -> Case:
    return lambda: nested(scopes)


def case_specs_merge_as_their_texts_do() -> Any:
    make = tf.DeviceSpec.from_string
    return {
        name: nested([scope if scope is None else make(scope) for scope in scopes])
        for name, scopes in NESTED.items()
    }


def with_functions(*scopes: Any) -> Case:
    return lambda: nested(list(scopes))


def giving(value: Any) -> Callable[[Any], Any]:
    return lambda op: value


def raising(op: Any) -> Any:
    raise KeyError(op.name)


def case_function_may_give_a_spec() -> Any:
    spec = tf.DeviceSpec(job="fn", device_type="GPU", device_index=0)
    return nested(["/job:ps/task:1", giving(spec)])


def groups(tensor: Any) -> list[Any]:
    return [sorted(tensor.op.colocation_groups()), tensor.device]


def anchored() -> Any:
    with tf.device("/job:ps/task:1"):
        return tf.constant(1.0, name="anchor")


def case_colocated_ignores_a_device_scope_inside() -> Any:
    with tf.colocate_with(anchored()), tf.device("/job:worker/gpu:1"):
        return groups(tf.constant(2.0))


def case_colocated_by_the_graph() -> Any:
    with tf.get_default_graph().colocate_with(anchored()):
        return groups(tf.constant(2.0))


def case_group_that_wants_this_task_runs() -> Any:
    free = tf.constant(1.0)
    with tf.colocate_with(free), tf.device("/cpu:0"):
        made = tf.identity(free)
    return run(made)


CASES: dict[str, Case] = {
    **{f"scopes_{name}": of_texts(scopes) for name, scopes in NESTED.items()},
    "function_that_gives_none_is_refused": with_functions("/job:ps", giving(None)),
    "function_that_gives_a_number_is_refused": with_functions(giving(3)),
    "function_that_raises_is_heard": with_functions(raising),
    "function_may_give_nonsense": with_functions(giving("/zzz:0")),
    "scope_of_a_bad_text_is_refused": of_texts(["/job:ps", "/zzz:0"]),
    "scope_of_a_number_is_refused": of_texts([3]),
    "not_colocated_is_a_group_of_its_own": lambda: groups(tf.constant(1.0, name="c")),
}
