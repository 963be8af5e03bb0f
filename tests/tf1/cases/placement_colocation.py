"""`tf.colocate_with` and the operations that stay with their variable."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import run


def groups(tensor: Any) -> list[Any]:
    return [sorted(tensor.op.colocation_groups()), tensor.device]


def anchored(tf: Any) -> Any:
    with tf.device("/job:ps/task:1"):
        return tf.constant(1.0, name="anchor")


def case_colocated_takes_device_and_group_of_the_anchor(tf: Any) -> Any:
    with tf.colocate_with(anchored(tf)):
        return groups(tf.constant(2.0, name="guest"))


def case_colocated_with_an_operation(tf: Any) -> Any:
    with tf.colocate_with(anchored(tf).op):
        return groups(tf.constant(2.0, name="guest"))


def case_colocated_ignores_a_device_scope_outside(tf: Any) -> Any:
    anchor = anchored(tf)
    with tf.device("/job:worker/gpu:1"), tf.colocate_with(anchor):
        return groups(tf.constant(2.0))


def case_colocated_ignores_a_device_scope_inside(tf: Any) -> Any:
    with tf.colocate_with(anchored(tf)), tf.device("/job:worker/gpu:1"):
        return groups(tf.constant(2.0))


def case_colocated_with_an_anchor_without_device(tf: Any) -> Any:
    anchor = tf.constant(1.0, name="free")
    with tf.device("/job:worker"), tf.colocate_with(anchor):
        return groups(tf.constant(2.0))


def case_colocated_with_two_has_both_groups(tf: Any) -> Any:
    one = tf.constant(1.0, name="one")
    other = tf.constant(1.0, name="another")
    with tf.colocate_with(one), tf.colocate_with(other):
        return groups(tf.constant(2.0))


def case_colocated_may_ignore_outer_groups(tf: Any) -> Any:
    one, other = anchored(tf), tf.constant(1.0, name="other")
    with tf.colocate_with(one), tf.colocate_with(other, ignore_existing=True):
        return groups(tf.constant(2.0))


def case_colocated_with_none_and_ignoring_clears_all(tf: Any) -> Any:
    with tf.device("/job:worker"), tf.colocate_with(anchored(tf)):
        with tf.colocate_with(None, ignore_existing=True):
            inside = groups(tf.constant(2.0))
        return [inside, groups(tf.constant(3.0))]


def case_colocated_with_none_is_refused(tf: Any) -> Any:
    with tf.colocate_with(None):
        return groups(tf.constant(2.0))


def case_colocated_with_a_guest_joins_the_anchors_group(tf: Any) -> Any:
    with tf.colocate_with(anchored(tf)):
        guest = tf.constant(2.0, name="guest")
    with tf.colocate_with(guest):
        return groups(tf.constant(3.0, name="second"))


def case_colocation_ends_with_its_block(tf: Any) -> Any:
    with tf.device("/job:worker"):
        with tf.colocate_with(anchored(tf)):
            tf.constant(2.0)
        return groups(tf.constant(3.0))


def case_colocated_by_the_graph(tf: Any) -> Any:
    with tf.get_default_graph().colocate_with(anchored(tf)):
        return groups(tf.constant(2.0))


def case_colocated_with_a_variable(tf: Any) -> Any:
    with tf.device("/job:ps/task:1"):
        variable = tf.Variable([1.0], name="v")
    with tf.device("/job:worker"), tf.colocate_with(variable):
        return groups(tf.constant(2.0))


def case_colocated_variable(tf: Any) -> Any:
    with tf.colocate_with(anchored(tf)):
        variable = tf.Variable([1.0], name="v")
    return [variable.device, variable.initializer.device]


def case_not_colocated_is_a_group_of_its_own(tf: Any) -> Any:
    return groups(tf.constant(1.0, name="c"))


def case_colocated_values(tf: Any) -> Any:
    anchor = tf.constant([1.0, 2.0])
    with tf.colocate_with(anchor):
        return run(tf, tf.constant([3.0, 4.0]) + anchor)


def case_slots_and_updates_are_colocated_with_their_variable(tf: Any) -> Any:
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


def case_assign_add_runs_with_its_variable(tf: Any) -> Any:
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
