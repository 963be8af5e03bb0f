"""`tf.colocate_with` and the operations that stay with their variable."""

from __future__ import annotations

from typing import Any


def groups(tensor: Any) -> list[Any]:
    return [sorted(tensor.op.colocation_groups()), tensor.device]


def anchored(tf: Any) -> Any:
    with tf.device("/job:ps/task:1"):
        return tf.constant(1.0, name="anchor")


def case_colocated_ignores_a_device_scope_inside(tf: Any) -> Any:
    with tf.colocate_with(anchored(tf)), tf.device("/job:worker/gpu:1"):
        return groups(tf.constant(2.0))


def case_colocated_by_the_graph(tf: Any) -> Any:
    with tf.get_default_graph().colocate_with(anchored(tf)):
        return groups(tf.constant(2.0))


def case_not_colocated_is_a_group_of_its_own(tf: Any) -> Any:
    return groups(tf.constant(1.0, name="c"))
