"""`tf.colocate_with` and the operations that stay with their variable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.tf1.look import run


def groups(tensor: Any) -> list[Any]:
    return [sorted(tensor.op.colocation_groups()), tensor.device]


def anchored(tf: Any) -> Any:
    with tf.device("/job:ps/task:1"):
        return tf.constant(1.0, name="anchor")


def beside(tf: Any) -> Any:
    with tf.colocate_with(anchored(tf)):
        return groups(tf.constant(2.0, name="guest"))


def beside_an_operation(tf: Any) -> Any:
    with tf.colocate_with(anchored(tf).op):
        return groups(tf.constant(2.0, name="guest"))


def beside_with_a_scope_outside(tf: Any) -> Any:
    anchor = anchored(tf)
    with tf.device("/job:worker/gpu:1"), tf.colocate_with(anchor):
        return groups(tf.constant(2.0))


def beside_with_a_scope_inside(tf: Any) -> Any:
    with tf.colocate_with(anchored(tf)), tf.device("/job:worker/gpu:1"):
        return groups(tf.constant(2.0))


def beside_an_anchor_without_device(tf: Any) -> Any:
    anchor = tf.constant(1.0, name="free")
    with tf.device("/job:worker"), tf.colocate_with(anchor):
        return groups(tf.constant(2.0))


def beside_two(tf: Any) -> Any:
    one = tf.constant(1.0, name="one")
    other = tf.constant(1.0, name="another")
    with tf.colocate_with(one), tf.colocate_with(other):
        return groups(tf.constant(2.0))


def beside_the_last_of_two(tf: Any) -> Any:
    one, other = anchored(tf), tf.constant(1.0, name="other")
    with tf.colocate_with(one), tf.colocate_with(other, ignore_existing=True):
        return groups(tf.constant(2.0))


def beside_nothing(tf: Any) -> Any:
    with tf.device("/job:worker"), tf.colocate_with(anchored(tf)):
        with tf.colocate_with(None, ignore_existing=True):
            inside = groups(tf.constant(2.0))
        return [inside, groups(tf.constant(3.0))]


def beside_none(tf: Any) -> Any:
    with tf.colocate_with(None):
        return groups(tf.constant(2.0))


def beside_a_guest(tf: Any) -> Any:
    with tf.colocate_with(anchored(tf)):
        guest = tf.constant(2.0, name="guest")
    with tf.colocate_with(guest):
        return groups(tf.constant(3.0, name="second"))


def after_the_block(tf: Any) -> Any:
    with tf.device("/job:worker"):
        with tf.colocate_with(anchored(tf)):
            tf.constant(2.0)
        return groups(tf.constant(3.0))


def by_the_graph(tf: Any) -> Any:
    with tf.get_default_graph().colocate_with(anchored(tf)):
        return groups(tf.constant(2.0))


def beside_a_variable(tf: Any) -> Any:
    with tf.device("/job:ps/task:1"):
        variable = tf.Variable([1.0], name="v")
    with tf.device("/job:worker"), tf.colocate_with(variable):
        return groups(tf.constant(2.0))


def variable_beside(tf: Any) -> Any:
    with tf.colocate_with(anchored(tf)):
        variable = tf.Variable([1.0], name="v")
    return [variable.device, variable.initializer.device]


def without_group(tf: Any) -> Any:
    return groups(tf.constant(1.0, name="c"))


def values_beside(tf: Any) -> Any:
    anchor = tf.constant([1.0, 2.0])
    with tf.colocate_with(anchor):
        return run(tf, tf.constant([3.0, 4.0]) + anchor)


def slots_beside(tf: Any) -> Any:
    with tf.device("/job:ps/task:1"):
        variable = tf.Variable([1.0, 2.0], name="v")
    with tf.device("/job:worker/task:0"):
        optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
        train = optimizer.minimize(tf.reduce_sum(variable * 2.0))
    slot = optimizer.get_slot(variable, "momentum")
    update = next(
        op
        for op in tf.get_default_graph().get_operations()
        if op.type.endswith("ApplyMomentum")
    )
    return [slot.device, update.device, train.device]


def ran_on_one_device(tf: Any) -> Any:
    with tf.device("/cpu:1"):
        variable = tf.Variable([1.0, 2.0], name="v")
    with tf.device("/cpu:2"):
        step = tf.assign_add(variable, [1.0, 1.0], name="step")
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 3})) as session:
        session.run(variable.initializer)
        session.run(step.op, options=options, run_metadata=metadata)
    stats = metadata.step_stats.dev_stats
    return sorted(
        device.device
        for device in stats
        for node in device.node_stats
        if node.node_name == "step" and device.device.startswith("/job")
    )


CASES: dict[str, Callable[[Any], Any]] = {
    "colocated_takes_device_and_group_of_the_anchor": beside,
    "colocated_with_an_operation": beside_an_operation,
    "colocated_ignores_a_device_scope_outside": beside_with_a_scope_outside,
    "colocated_ignores_a_device_scope_inside": beside_with_a_scope_inside,
    "colocated_with_an_anchor_without_device": beside_an_anchor_without_device,
    "colocated_with_two_has_both_groups": beside_two,
    "colocated_may_ignore_outer_groups": beside_the_last_of_two,
    "colocated_with_none_and_ignoring_clears_all": beside_nothing,
    "colocated_with_none_is_refused": beside_none,
    "colocated_with_a_guest_joins_the_anchors_group": beside_a_guest,
    "colocation_ends_with_its_block": after_the_block,
    "colocated_by_the_graph": by_the_graph,
    "colocated_with_a_variable": beside_a_variable,
    "colocated_variable": variable_beside,
    "not_colocated_is_a_group_of_its_own": without_group,
    "colocated_values": values_beside,
    "slots_and_updates_are_colocated_with_their_variable": slots_beside,
    "assign_add_runs_with_its_variable": ran_on_one_device,
}
