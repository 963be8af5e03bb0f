"""Synchronous replicas: what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.tf1.attempts import attempt


def optimizer(tf: Any, collect: int = 2, total: Any = 2) -> Any:
    return tf.train.SyncReplicasOptimizer(
        tf.train.GradientDescentOptimizer(1.0), collect, total_num_replicas=total
    )


def pair(tf: Any) -> Any:
    v = tf.Variable([0.0, 0.0], name="v")
    return tf.constant([1.0, 1.0]), v


def case_applied_without_a_step(tf: Any) -> Any:
    return optimizer(tf).apply_gradients([pair(tf)])


def case_minimised_without_a_step(tf: Any) -> Any:
    v = tf.Variable(1.0)
    return optimizer(tf).minimize(v * v)


def case_minimised_without_the_step_that_there_is(tf: Any) -> Any:
    tf.train.get_or_create_global_step()
    v = tf.Variable(1.0)
    return optimizer(tf).minimize(v * v)


def case_applied_to_nothing(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    return optimizer(tf).apply_gradients([], global_step=step)


def case_applied_to_no_gradient(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    v = tf.Variable(1.0)
    return optimizer(tf).apply_gradients([(None, v)], global_step=step).name


def case_a_gradient_of_text(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    v = tf.Variable(1.0)
    return optimizer(tf).apply_gradients([("text", v)], global_step=step)


def case_a_gradient_that_is_a_number(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    v = tf.Variable(1.0)
    return optimizer(tf).apply_gradients([(1.5, v)], global_step=step)


def case_a_gradient_of_another_shape(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    v = tf.Variable([1.0, 2.0])
    grad = tf.constant([1.0, 2.0, 3.0])
    return optimizer(tf).apply_gradients([(grad, v)], global_step=step)


def case_the_runner_too_early(tf: Any) -> Any:
    return optimizer(tf).get_chief_queue_runner()


def case_the_tokens_too_early(tf: Any) -> Any:
    return optimizer(tf).get_init_tokens_op()


def case_the_hook_too_early(tf: Any) -> Any:
    tf.Variable(1.0)
    hook = optimizer(tf).make_session_run_hook(True)
    return attempt(tf, hook.begin)


def case_the_hook_with_too_few_tokens(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    one = optimizer(tf, 4, 2)
    one.apply_gradients([pair(tf)], global_step=step)
    hook = one.make_session_run_hook(True, num_tokens=1)
    return attempt(tf, tf.train.MonitoredSession, hooks=[hook])


def case_the_hook_in_an_uninitialised_session(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    one = optimizer(tf, 1, 1)
    one.apply_gradients([pair(tf)], global_step=step)
    hook = one.make_session_run_hook(True)
    hook.begin()
    with tf.Session() as session:
        coord = tf.train.Coordinator()
        return attempt(tf, hook.after_create_session, session, coord)


def case_wrapped_around_nothing(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    one = tf.train.SyncReplicasOptimizer(None, 1)
    return attempt(tf, one.apply_gradients, [pair(tf)], global_step=step)


def case_applied_twice(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    one = optimizer(tf)
    both = pair(tf)
    one.apply_gradients([both], global_step=step)
    return attempt(tf, lambda: one.apply_gradients([both], global_step=step).name)


def case_read_before_anything(tf: Any) -> Any:
    one = optimizer(tf)
    v = tf.Variable(1.0)
    return [
        attempt(tf, lambda: one.get_slot(v, "momentum")),
        attempt(tf, one.get_slot_names),
        attempt(tf, lambda: [each.name for each in one.variables()]),
    ]


def made(*arguments: Any, **named: Any) -> Callable[[Any], Any]:
    def case(tf: Any) -> Any:
        inner = tf.train.GradientDescentOptimizer(1.0)
        return type(tf.train.SyncReplicasOptimizer(inner, *arguments, **named)).__name__

    return case


CASES: dict[str, Callable[[Any], Any]] = {
    "made_of_less_replicas_than_gradients": made(4, 2),
    "made_of_one": made(1),
    "made_without_a_count": made(),
    "made_of_none": made(0),
}
