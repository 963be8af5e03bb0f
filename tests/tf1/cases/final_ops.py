"""Hooks that evaluate something at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.tf1.look import makes_case


@makes_case
def ended(tf: Any, make: Callable[[Any, Any], Any]) -> Any:
    """Return a case: what the hook has before, during and after a session."""
    v = tf.Variable(0, name="v")
    add = v.assign_add(1)
    hook = make(tf, v)
    result = [hook.final_ops_values]
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(add)
        session.run(add)
        result.append(hook.final_ops_values)
    return [*result, hook.final_ops_values]


def case_fed(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [2])
    hook = tf.train.FinalOpsHook(x * 2.0, final_ops_feed_dict={x: [1.0, 2.0]})
    with tf.train.MonitoredSession(hooks=[hook]):
        pass
    return hook.final_ops_values


MAKE: dict[str, Callable[[Any, Any], Any]] = {
    "a_variable": lambda tf, v: tf.train.FinalOpsHook(v),
    "a_tensor": lambda tf, v: tf.train.FinalOpsHook(v * 10),
    "a_list": lambda tf, v: tf.train.FinalOpsHook([v, v * 10]),
    "a_dict": lambda tf, v: tf.train.FinalOpsHook({"a": v, "b": [v * 2]}),
    "a_name": lambda tf, v: tf.train.FinalOpsHook("v:0"),
    "an_operation": lambda tf, v: tf.train.FinalOpsHook(v.initializer),
    "an_update": lambda tf, v: tf.train.FinalOpsHook(v.assign_add(5)),
    "nothing": lambda tf, v: tf.train.FinalOpsHook(None),
    "an_empty_list": lambda tf, v: tf.train.FinalOpsHook([]),
    "a_missing_name": lambda tf, v: tf.train.FinalOpsHook("nowhere:0"),
}

CASES: dict[str, Callable[[Any], Any]] = {
    **{f"of_{name}": ended(make) for name, make in MAKE.items()},
}
