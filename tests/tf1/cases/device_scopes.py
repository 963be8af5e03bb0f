"""`tf.device`: what nested scopes make of an operation's device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

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


def nested(tf: Any, scopes: list[Any]) -> str:
    with ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(tf.device(scope))
        return str(tf.constant(1.0).device)


def of_texts(scopes: list[Any]) -> Callable[[Any], Any]:
    return lambda tf: nested(tf, scopes)


def case_specs_merge_as_their_texts_do(tf: Any) -> Any:
    make = tf.DeviceSpec.from_string
    return {
        name: nested(tf, [one if one is None else make(one) for one in scopes])
        for name, scopes in NESTED.items()
    }


def with_functions(*scopes: Any) -> Callable[[Any], Any]:
    return lambda tf: nested(tf, list(scopes))


def giving(value: Any) -> Callable[[Any], Any]:
    return lambda op: value


def raising(op: Any) -> Any:
    raise KeyError(op.name)


def case_function_may_give_a_spec(tf: Any) -> Any:
    spec = tf.DeviceSpec(job="fn", device_type="GPU", device_index=0)
    return nested(tf, ["/job:ps/task:1", giving(spec)])


def case_function_sees_what_inner_scopes_set(tf: Any) -> Any:
    seen: list[list[str]] = []

    def look(op: Any) -> str:
        seen.append([op.name, op.type, op.device])
        return str(op.device)

    with tf.device("/job:ps"), tf.device(look), tf.device("/task:1"):
        tf.add(tf.constant(1.0, name="one"), tf.constant(2.0, name="two"), name="sum")
    return seen


def case_function_sees_the_parts_of_a_variable(tf: Any) -> Any:
    seen: list[list[str]] = []

    def look(op: Any) -> str:
        seen.append([op.name, op.type])
        return "/job:ps/task:1"

    with tf.device(look):
        variable = tf.Variable([1.0], name="v")
    parts = [variable.op, variable.initializer, variable.value().op]
    return [sorted(seen), [variable.device], [part.device for part in parts]]


def case_function_chooses_by_type(tf: Any) -> Any:
    def choose(op: Any) -> str:
        return "/job:ps" if op.type.startswith("Variable") else "/job:worker/task:2"

    with tf.device(choose):
        variable = tf.Variable([1.0])
        return [variable.device, (variable * 2.0).device, variable.initial_value.device]


def case_scope_touches_only_what_is_made_inside(tf: Any) -> Any:
    before = tf.constant(1.0)
    with tf.device("/job:ps"):
        inside = before + 1.0
    after = before + inside
    return [before.device, inside.device, after.device]


def case_scope_of_a_use_does_not_move_the_variable(tf: Any) -> Any:
    with tf.device("/job:ps/task:1"):
        variable = tf.Variable([1.0, 2.0], name="v")
    with tf.device("/job:worker/task:3"):
        parts = {
            "read": variable.read_value(),
            "arithmetic": variable * 2.0,
            "assign": variable.assign([3.0, 4.0]),
            "assign_add": tf.assign_add(variable, [3.0, 4.0]),
            "scatter_add": tf.scatter_add(variable, [0], [1.0]),
            "snapshot": variable.value(),
            "initializer": variable.initializer,
            "identity": tf.identity(variable),
        }
    return {name: part.device for name, part in parts.items()}


def case_scope_of_a_variable_holds_its_initial_value(tf: Any) -> Any:
    with tf.device("/job:ps"):
        variable = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
    return [variable.device, variable.initial_value.device, variable.initializer.device]


def case_scope_by_the_graph(tf: Any) -> Any:
    graph = tf.get_default_graph()
    with graph.device("/job:ps"), graph.device("/task:1"):
        return tf.constant(1.0).device


def case_scope_holds_the_constants_made_of_arrays(tf: Any) -> Any:
    with tf.device("/job:ps/task:1"):
        total = tf.constant([1.0]) + np.array([2.0], np.float32)
    return [total.device, [one.device for one in total.op.inputs]]


def case_scopes_left_in_another_order_are_refused(tf: Any) -> Any:
    outer, inner = tf.device("/job:a"), tf.device("/job:b")
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    return "left"


def case_scope_left_by_an_error_is_undone(tf: Any) -> Any:
    try:
        with tf.device("/job:ps"):
            raise KeyError("body")
    except KeyError:
        return tf.constant(1.0).device


def case_scope_may_be_entered_again(tf: Any) -> Any:
    devices = []
    for task in range(2):
        with tf.device(f"/job:worker/task:{task}"), tf.name_scope("tower"):
            devices.append(tf.constant(1.0).device)
    return devices


CASES: dict[str, Callable[[Any], Any]] = {
    **{f"scopes_{name}": of_texts(scopes) for name, scopes in NESTED.items()},
    "function_inside_replaces_and_is_completed": with_functions(
        "/job:ps/task:1", giving("/job:fn/gpu:0")
    ),
    "function_outside_replaces_what_is_inside": with_functions(
        giving("/job:fn/gpu:0"), "/job:ps/task:1"
    ),
    "function_that_gives_nothing_lets_outer_scopes_apply": with_functions(
        "/job:ps/task:1", giving("")
    ),
    "function_that_gives_none_is_refused": with_functions("/job:ps", giving(None)),
    "function_that_gives_a_number_is_refused": with_functions(giving(3)),
    "function_that_raises_is_heard": with_functions(raising),
    "function_may_give_nonsense": with_functions(giving("/zzz:0")),
    "function_between_two_scopes": with_functions(
        "/task:5", giving("/job:fn"), "/cpu:1"
    ),
    "function_inside_none_is_not_completed": with_functions(
        "/job:ps/task:1", None, giving("/job:fn")
    ),
    "scope_of_a_bad_text_is_refused": of_texts(["/job:ps", "/zzz:0"]),
    "scope_of_a_number_is_refused": of_texts([3]),
}
