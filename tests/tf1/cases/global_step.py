"""The global step: how it is made, found and read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.tf1.look import initialized, static


def case_create_global_step_makes_an_int64_scalar(tf: Any) -> Any:
    step = tf.train.create_global_step()
    keys = tf.GraphKeys
    names = (keys.GLOBAL_VARIABLES, keys.GLOBAL_STEP, keys.TRAINABLE_VARIABLES)
    return [static(step), [step in tf.get_collection(name) for name in names]]


def case_create_global_step_twice_is_refused(tf: Any) -> Any:
    tf.train.create_global_step()
    return tf.train.create_global_step()


def case_create_global_step_takes_a_graph(tf: Any) -> Any:
    graph = tf.Graph()
    step = tf.train.create_global_step(graph)
    found = [tf.train.get_global_step(graph) is step, tf.train.get_global_step()]
    return [*found, step.graph is graph]


def case_get_global_step_finds_it_by_collection(tf: Any) -> Any:
    step = tf.Variable(0, name="counter", trainable=False)
    tf.add_to_collection(tf.GraphKeys.GLOBAL_STEP, step)
    return tf.train.get_global_step() is step


def found_by_name(dtype: str) -> Callable[[Any], Any]:
    def case(tf: Any) -> Any:
        tf.Variable(0, name="global_step", dtype=getattr(tf, dtype), trainable=False)
        return tf.train.get_global_step().name

    return case


def case_get_global_step_refuses_a_vector(tf: Any) -> Any:
    tf.Variable([0, 0], name="global_step", trainable=False)
    return tf.train.get_global_step()


def case_get_global_step_of_two_in_the_collection(tf: Any) -> Any:
    for name in ("one", "other"):
        step = tf.Variable(0, name=name, trainable=False)
        tf.add_to_collection(tf.GraphKeys.GLOBAL_STEP, step)
    return tf.train.get_global_step()


def case_get_or_create_global_step_makes_one_only(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    again = tf.train.get_or_create_global_step()
    return [step is again, static(step), len(tf.global_variables())]


def case_get_or_create_global_step_of_contrib(tf: Any) -> Any:
    step = tf.contrib.framework.get_or_create_global_step()
    return [step is tf.train.get_global_step(), static(step)]


def case_get_or_create_global_step_finds_the_one_that_is(tf: Any) -> Any:
    step = tf.train.create_global_step()
    return tf.train.get_or_create_global_step() is step


def case_get_or_create_global_step_under_scopes(tf: Any) -> Any:
    with tf.name_scope("names"), tf.variable_scope("layer"):
        return tf.train.get_or_create_global_step().name


def case_global_step_is_read_as_a_python_integer(tf: Any) -> Any:
    step = tf.train.create_global_step()
    with tf.Session() as session:
        session.run(step.initializer)
        first = tf.train.global_step(session, step)
        session.run(tf.assign_add(step, 5))
        second = tf.train.global_step(session, step)
    return [first, second, type(second).__name__]


def case_global_step_that_is_uninitialised(tf: Any) -> Any:
    step = tf.train.create_global_step()
    with tf.Session() as session:
        return tf.train.global_step(session, step)


def case_global_step_counts_past_32_bits(tf: Any) -> Any:
    step = tf.train.create_global_step()
    with tf.Session() as session:
        session.run(step.initializer)
        session.run(tf.assign(step, 2**40))
        return session.run(tf.assign_add(step, 1))


def case_global_step_takes_a_slot_of_the_setter(tf: Any) -> Any:
    with tf.device(tf.train.replica_device_setter(ps_tasks=2)):
        before = tf.Variable(1.0)
        step = tf.train.get_or_create_global_step()
        after = tf.Variable(1.0)
    return [one.device for one in (before, step, after)]


def case_global_step_is_counted_after_the_update(tf: Any) -> Any:
    step = tf.train.create_global_step()
    variable = tf.Variable(0.0)
    grown = tf.gradients(variable * tf.cast(step + 1, tf.float32), variable)
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    train = optimizer.apply_gradients([(grown[0], variable)], global_step=step)
    with initialized(tf) as session:
        for _ in range(3):
            session.run(train)
        return session.run([variable, step])


CASES: dict[str, Callable[[Any], Any]] = {
    "get_global_step_is_none_where_there_is_none": lambda tf: (
        tf.train.get_global_step()
    ),
    "get_global_step_finds_int64_by_name": found_by_name("int64"),
    "get_global_step_finds_int32_by_name": found_by_name("int32"),
    "get_global_step_refuses_floats": found_by_name("float32"),
}
