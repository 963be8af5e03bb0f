"""Device scopes inside and outside of colocation, and groups that say where they go."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import run


def place(tensor: Any) -> Any:
    groups = sorted(one.decode() for one in tensor.op.colocation_groups())
    return [tensor.device, groups]


def anchors(tf: Any) -> Any:
    """Return a tensor with a device and one without."""
    with tf.device("/job:ps"):
        placed = tf.constant(1.0, name="placed")
    return placed, tf.constant(1.0, name="free")


def case_scope_inside_places_beside_an_anchor_without_device(tf: Any) -> Any:
    _, free = anchors(tf)
    with tf.colocate_with(free), tf.device("/gpu:1"):
        return place(tf.constant(1.0))


def case_scope_outside_does_not(tf: Any) -> Any:
    _, free = anchors(tf)
    with tf.device("/gpu:1"), tf.colocate_with(free):
        return place(tf.constant(1.0))


def case_device_of_the_anchor_wins_over_a_scope_inside(tf: Any) -> Any:
    placed, _ = anchors(tf)
    with tf.colocate_with(placed), tf.device("/gpu:1"):
        return place(tf.constant(1.0))


def case_no_device_inside_is_no_device(tf: Any) -> Any:
    _, free = anchors(tf)
    with tf.colocate_with(free), tf.device("/gpu:1"), tf.device(None):
        return place(tf.constant(1.0))


def case_second_anchor_forgets_the_scope_between(tf: Any) -> Any:
    _, free = anchors(tf)
    with tf.colocate_with(free), tf.device("/gpu:1"), tf.colocate_with(free):
        return place(tf.constant(1.0))


def case_outer_anchor_gives_the_device_if_the_inner_has_none(tf: Any) -> Any:
    placed, free = anchors(tf)
    with tf.colocate_with(placed), tf.colocate_with(free):
        return place(tf.constant(1.0))


def case_inner_anchor_gives_the_device_if_the_outer_has_none(tf: Any) -> Any:
    placed, free = anchors(tf)
    with tf.colocate_with(free), tf.colocate_with(placed):
        return place(tf.constant(1.0))


def case_function_inside_is_asked(tf: Any) -> Any:
    _, free = anchors(tf)
    with tf.colocate_with(free), tf.device(lambda op: "/gpu:3"):
        return place(tf.constant(1.0))


def case_variable_inside_is_placed_by_a_scope_inside(tf: Any) -> Any:
    _, free = anchors(tf)
    with tf.colocate_with(free), tf.device("/gpu:1"):
        made = tf.Variable(1.0, name="v")
    parts = (made.value(), made.initializer.outputs[0], made.initial_value)
    return [place(one) for one in parts]


def case_variable_inside_is_placed_by_a_scope_outside_too(tf: Any) -> Any:
    _, free = anchors(tf)
    with tf.device("/gpu:1"), tf.variable_scope("s"), tf.colocate_with(free):
        made = tf.get_variable("v", initializer=1.0)
    return [made.device, made.initializer.device]


def case_slot_of_a_variable_without_device_is_in_the_scope(tf: Any) -> Any:
    made = tf.Variable(1.0, name="v")
    with tf.device("/gpu:1"):
        optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
        train = optimizer.minimize(tf.square(made))
    slot = optimizer.get_slot(made, "momentum")
    return [train.device, place(slot), place(slot.value())]


def case_slot_of_a_placed_variable_is_beside_it(tf: Any) -> Any:
    with tf.device("/cpu:0"):
        made = tf.Variable(1.0, name="v")
    with tf.device("/gpu:1"):
        optimizer = tf.train.AdamOptimizer(0.1)
        train = optimizer.minimize(tf.square(made))
    return [train.device, [[one.name, one.device] for one in optimizer.variables()]]


def case_group_goes_where_one_of_it_wants(tf: Any) -> Any:
    free = tf.constant(1.0)
    with tf.colocate_with(free), tf.device("/job:nobody/task:0"):
        made = tf.identity(free)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        return session.run(made)


def case_group_that_wants_this_task_runs(tf: Any) -> Any:
    free = tf.constant(1.0)
    with tf.colocate_with(free), tf.device("/cpu:0"):
        made = tf.identity(free)
    return run(tf, made)
