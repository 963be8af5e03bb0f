"""Synchronous replicas: what is refused."""

from __future__ import annotations

from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.look import makes_case


def optimizer(tf: Any, collect: int = 2, total: Any = 2) -> Any:
    return tf.train.SyncReplicasOptimizer(
        tf.train.GradientDescentOptimizer(1.0), collect, total_num_replicas=total
    )


def pair(tf: Any) -> Any:
    v = tf.Variable([0.0, 0.0], name="v")
    return tf.constant([1.0, 1.0]), v


def case_applied_to_no_gradient(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    v = tf.Variable(1.0)
    return optimizer(tf).apply_gradients([(None, v)], global_step=step).name


def case_a_gradient_that_is_a_number(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    v = tf.Variable(1.0)
    return optimizer(tf).apply_gradients([(1.5, v)], global_step=step)


def case_wrapped_around_nothing(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    first = tf.train.SyncReplicasOptimizer(None, 1)
    return attempt(tf, first.apply_gradients, [pair(tf)], global_step=step)


@makes_case
def made(tf: Any, *arguments: Any, **named: Any) -> Any:
    inner = tf.train.GradientDescentOptimizer(1.0)
    return type(tf.train.SyncReplicasOptimizer(inner, *arguments, **named)).__name__


CASES = {
    "made_of_less_replicas_than_gradients": made(4, 2),
    "made_of_one": made(1),
    "made_without_a_count": made(),
    "made_of_none": made(0),
}
