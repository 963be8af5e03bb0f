"""Synchronous replicas: what the optimizer adds to a graph, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.attempts import attempt
from tests.tf1.look import makes_case, names_of, tf


def built(collect: int = 2, total: Any = 2, **named: Any) -> Any:
    """Make the optimizer and its train operation for one variable."""
    step = tf.train.get_or_create_global_step()
    v = tf.Variable([0.0, 0.0], name="v")
    inner = named.pop("inner", None) or tf.train.GradientDescentOptimizer(1.0)
    optimizer = tf.train.SyncReplicasOptimizer(
        inner, replicas_to_aggregate=collect, total_num_replicas=total, **named
    )
    train = optimizer.minimize(tf.reduce_sum(v * v), global_step=step)
    return optimizer, train, v, step


def case_its_accumulator_and_queue() -> Any:
    """The kinds of operations that hold state, and their shared names."""
    built()
    result = []
    for op in tf.get_default_graph().get_operations():
        if "Accumulator" in op.type and "shared_name" in op.node_def.attr:
            shared = op.node_def.attr["shared_name"].s.decode()
            result.append(["accumulator", shared])
        if op.type == "FIFOQueueV2":
            shared = op.node_def.attr["shared_name"].s.decode()
            result.append(["queue", shared])
    return sorted(result)


def case_accumulators_of_several_variables() -> Any:
    """One accumulator for each variable that is trained."""
    step = tf.train.get_or_create_global_step()
    a, b = tf.Variable(1.0, name="a"), tf.Variable([[1.0]], name="scope/b")
    table = tf.Variable(np.ones((4, 2), np.float32), name="table")
    tf.Variable(1.0, name="unused")
    loss = a * tf.reduce_sum(b) + tf.reduce_sum(tf.gather(table, [1, 2]))
    optimizer = tf.train.SyncReplicasOptimizer(
        tf.train.GradientDescentOptimizer(1.0), 2, 2
    )
    optimizer.minimize(loss, global_step=step)
    result = []
    for op in tf.get_default_graph().get_operations():
        if op.type.endswith("ConditionalAccumulator"):
            shared = op.node_def.attr["shared_name"].s.decode()
            result.append([shared, "Sparse" in op.type])
    return sorted(result)


@makes_case
def tokens(*arguments: int, **shape: int) -> Any:
    """Return a case: whether so many tokens to begin with are allowed."""
    optimizer, _, _, _ = built(**shape)
    return type(optimizer.get_init_tokens_op(*arguments)).__name__


def case_slots_of_the_wrapped_one() -> Any:
    """Slots are those of the optimizer that is wrapped."""
    inner = tf.train.MomentumOptimizer(1.0, 0.9)
    optimizer, _, v, _ = built(inner=inner)
    slot = optimizer.get_slot(v, "momentum")
    return [
        *(optimizer.get_slot_names(), slot.name, inner.get_slot(v, "momentum") is slot),
        names_of(optimizer.variables()),
        type(optimizer).__name__,
    ]


def case_with_a_name() -> Any:
    _, train, _, _ = built(name="mine")
    return [
        train.name,
        names_of(tf.local_variables()),
    ]


def case_without_a_total() -> Any:
    """Without a total there are as many replicas as gradients are collected."""
    optimizer, _, _, _ = built(collect=3, total=None)
    return [
        attempt(lambda count: optimizer.get_init_tokens_op(count).type, item)
        for item in (-2, -1, 0, 3)
    ]


def optimizer(collect: int = 2, total: Any = 2) -> Any:
    return tf.train.SyncReplicasOptimizer(
        tf.train.GradientDescentOptimizer(1.0), collect, total_num_replicas=total
    )


def pair() -> Any:
    v = tf.Variable([0.0, 0.0], name="v")
    return tf.constant([1.0, 1.0]), v


def case_applied_to_no_gradient() -> Any:
    step = tf.train.get_or_create_global_step()
    v = tf.Variable(1.0)
    return optimizer().apply_gradients([(None, v)], global_step=step).name


def case_a_gradient_that_is_a_number() -> Any:
    step = tf.train.get_or_create_global_step()
    v = tf.Variable(1.0)
    return optimizer().apply_gradients([(1.5, v)], global_step=step)


def case_wrapped_around_nothing() -> Any:
    step = tf.train.get_or_create_global_step()
    first = tf.train.SyncReplicasOptimizer(None, 1)
    return attempt(first.apply_gradients, [pair()], global_step=step)


@makes_case
def made(*arguments: Any, **named: Any) -> Any:
    inner = tf.train.GradientDescentOptimizer(1.0)
    return type(tf.train.SyncReplicasOptimizer(inner, *arguments, **named)).__name__


CASES = {
    "tokens_by_default": tokens(),
    "no_tokens": tokens(0),
    "five_tokens": tokens(5),
    "no_tokens_for_one_backup": tokens(0, collect=1, total=2),
    "too_few_tokens": tokens(1, collect=4, total=2),
    "enough_tokens": tokens(2, collect=4, total=2),
    "made_of_less_replicas_than_gradients": made(4, 2),
    "made_of_one": made(1),
    "made_without_a_count": made(),
    "made_of_none": made(0),
}
