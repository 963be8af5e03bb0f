"""The global step: how it is made, found and read."""

from __future__ import annotations

from typing import Any

from tests.tf1.look import makes_case, static, tf


def case_create_global_step_twice_is_refused() -> Any:
    tf.train.create_global_step()
    return tf.train.create_global_step()


@makes_case
def found_by_name(dtype: str) -> Any:
    tf.Variable(0, name="global_step", dtype=getattr(tf, dtype), trainable=False)
    return tf.train.get_global_step().name


def case_get_global_step_refuses_a_vector() -> Any:
    tf.Variable([0, 0], name="global_step", trainable=False)
    return tf.train.get_global_step()


def case_get_global_step_of_two_in_the_collection() -> Any:
    for name in ("one", "other"):
        step = tf.Variable(0, name=name, trainable=False)
        tf.add_to_collection(tf.GraphKeys.GLOBAL_STEP, step)
    return tf.train.get_global_step()


def case_get_or_create_global_step_of_contrib() -> Any:
    step = tf.contrib.framework.get_or_create_global_step()
    return [step is tf.train.get_global_step(), static(step)]


def case_get_or_create_global_step_finds_the_one_that_is() -> Any:
    step = tf.train.create_global_step()
    return tf.train.get_or_create_global_step() is step


def case_get_or_create_global_step_under_scopes() -> Any:
    with tf.name_scope("names"), tf.variable_scope("layer"):
        return tf.train.get_or_create_global_step().name


def case_global_step_that_is_uninitialised(session: Any) -> Any:
    step = tf.train.create_global_step()
    return tf.train.global_step(session, step)


CASES = {
    "get_global_step_finds_int64_by_name": found_by_name("int64"),
    "get_global_step_finds_int32_by_name": found_by_name("int32"),
    "get_global_step_refuses_floats": found_by_name("float32"),
}
