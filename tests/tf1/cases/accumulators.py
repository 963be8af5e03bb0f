"""Accumulators of dense gradients: what is taken, dropped, waited for, and refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.attempts import Later, attempt, steps
from tests.tf1.look import Case, kind_of, names_of, static, tf


def scalar(**named: Any) -> Any:
    return tf.ConditionalAccumulator(tf.float32, shape=[], **named)


def steps_the_mean_of_two_is_taken() -> list[Any]:
    a = tf.ConditionalAccumulator(tf.float32, shape=[2])
    puts = [a.apply_grad([1.0, 2.0]), a.apply_grad([3.0, 6.0])]
    return [a.num_accumulated(), *puts, a.num_accumulated(), a.take_grad(2)]


def steps_the_mean_is_of_all_that_are_there() -> list[Any]:
    a = scalar()
    puts = [a.apply_grad(item) for item in (1.0, 2.0, 6.0)]
    return [*puts, a.take_grad(1), a.num_accumulated()]


def steps_the_sum_is_taken_where_asked_for() -> list[Any]:
    a = scalar(reduction_type="SUM")
    return [a.apply_grad(1.0), a.apply_grad(2.0), a.take_grad(1)]


def steps_stale_gradients_are_dropped() -> list[Any]:
    a = scalar()
    return [
        *(a.apply_grad(1.0, local_step=0), a.take_grad(1)),
        *(a.apply_grad(5.0, local_step=0), a.num_accumulated()),
        *(a.apply_grad(7.0, local_step=1), a.num_accumulated(), a.take_grad(1)),
        *(a.apply_grad(9.0, local_step=1), a.num_accumulated()),
        *(a.apply_grad(9.0, local_step=8), a.num_accumulated(), a.take_grad(1)),
    ]


def steps_the_step_can_be_set() -> list[Any]:
    a = scalar()
    return [
        *(a.set_global_step(5), a.apply_grad(1.0, 4), a.num_accumulated()),
        *(a.apply_grad(2.0, 5), a.apply_grad(4.0, 6), a.num_accumulated()),
        *(a.take_grad(2), a.apply_grad(1.0, 5), a.num_accumulated()),
        *(a.apply_grad(3.0, 6), a.take_grad(1)),
    ]


def steps_the_step_can_be_set_back() -> list[Any]:
    a = scalar()
    return [
        *(a.set_global_step(5), a.set_global_step(2)),
        *(a.apply_grad(1.0, 2), a.num_accumulated(), a.take_grad(1)),
        *(a.apply_grad(1.0, 2), a.apply_grad(8.0, 3), a.num_accumulated()),
    ]


def steps_setting_the_step_keeps_what_is_there() -> list[Any]:
    a = scalar()
    puts = [a.apply_grad(1.0), a.apply_grad(3.0)]
    return [*puts, a.set_global_step(9), a.num_accumulated(), a.take_grad(2)]


def case_another_shape_is_refused_when_run(session: Any) -> Any:
    a = tf.ConditionalAccumulator(tf.float32, shape=[2])
    holder = tf.placeholder(tf.float32)
    put = a.apply_grad(holder)
    result = [attempt(session.run, put, {holder: [1.0, 2.0, 3.0]})]
    result += [attempt(session.run, put, {holder: 1.0})]
    result += [attempt(session.run, put, {holder: [1.0, 3.0]})]
    return [*result, session.run(a.take_grad(1))]


def of_dtype(name: str) -> Case:
    def make() -> list[Any]:
        dtype = getattr(tf, name)
        a = tf.ConditionalAccumulator(dtype, shape=[2])
        first, two = (tf.constant(values, dtype) for values in ([1, 2], [2, 5]))
        return [a.apply_grad(first), a.apply_grad(two), a.take_grad(2)]

    return steps(make)


def taken_with(count: int) -> Case:
    def make() -> list[Any]:
        a = scalar()
        return [a.apply_grad(1.0), a.take_grad(count)]

    return steps(make)


def case_what_is_known_when_built() -> Any:
    a = tf.ConditionalAccumulator(tf.float32, shape=[2, None], name="acc")
    put, take = a.apply_grad(np.ones((2, 3), np.float32)), a.take_grad(1)
    count, step = a.num_accumulated(), a.set_global_step(3)
    return [
        *(a.name, a.dtype.name, a.accumulator_ref.name, put.name, step.name),
        *(static(take), static(count), put.type, take.op.type, put is None),
    ]


def case_names_of_its_operations() -> Any:
    with tf.name_scope("scope"):
        first, two = scalar(), scalar()
        put = first.apply_grad(1.0, name="put")
        take, count = two.take_grad(1, name="take"), two.num_accumulated(name="count")
        step = two.set_global_step(1, name="step")
    return names_of((first, two, put, take, count, step))


def case_a_take_of_unknown_shape() -> Any:
    return static(tf.ConditionalAccumulator(tf.float64).take_grad(1))


def case_one_shared_name_is_one_accumulator(session: Any) -> Any:
    first = scalar(shared_name="common", name="one")
    two = scalar(shared_name="common", name="two")
    session.run(first.apply_grad(3.0))
    session.run(two.apply_grad(5.0))
    return session.run(first.num_accumulated()), session.run(two.take_grad(2))


def case_shared_but_of_another_dtype(session: Any) -> Any:
    first = scalar(shared_name="common")
    two = tf.ConditionalAccumulator(tf.float64, shape=[], shared_name="common")
    session.run(first.apply_grad(3.0))
    return attempt(session.run, two.num_accumulated())


MADE: dict[str, Case] = {
    "an_unknown_reduction": lambda: scalar(reduction_type="MEDIAN"),
    "a_reduction_in_small_letters": lambda: scalar(reduction_type="mean"),
    "a_gradient_of_another_shape": lambda: scalar().apply_grad([1.0, 2.0]),
    "a_gradient_of_another_dtype": lambda: scalar().apply_grad(
        tf.constant(1.0, tf.float64)
    ),
    "a_gradient_of_text": lambda: scalar().apply_grad("a"),
    "whole_numbers_for_floats": lambda: scalar().apply_grad(1),
    "floats_for_whole_numbers": lambda: tf.ConditionalAccumulator(
        tf.int32, shape=[]
    ).apply_grad(1.5),
    "a_step_that_is_no_number": lambda: scalar().apply_grad(1.0, 0.5),
    "a_vector_as_step": lambda: scalar().apply_grad(1.0, [1, 2]),
    "a_count_that_is_no_number": lambda: scalar().take_grad(1.5),
    "a_vector_as_count": lambda: scalar().take_grad([1]),
    "an_unknown_dtype": lambda: tf.ConditionalAccumulator("moon"),
    "a_dtype_of_text": lambda: tf.ConditionalAccumulator(tf.string),
    "a_dtype_of_bools": lambda: tf.ConditionalAccumulator(tf.bool),
    "nothing_as_gradient": lambda: scalar().apply_grad(None),
    "a_vector_as_new_step": lambda: scalar().set_global_step([1]),
    "a_step_of_float_as_new_step": lambda: scalar().set_global_step(1.5),
}


def case_a_small_take_waits_behind_a_large_one(session: Any) -> Any:
    a = scalar()
    put, large, small = a.apply_grad(2.0, 9), a.take_grad(2), a.take_grad(1)
    first = Later(session.run, large)
    first.is_waiting()
    second = Later(session.run, small)
    second.is_waiting()
    session.run(put)
    result = [first.is_waiting(), second.is_waiting(0.01)]
    session.run(put)
    result += [first.result(), second.is_waiting()]
    session.run(put)
    return [*result, second.result()]


def case_a_take_that_waits_too_long(session: Any) -> Any:
    a = scalar()
    take, options = a.take_grad(2), tf.RunOptions(timeout_in_ms=50)
    session.run(a.apply_grad(2.0))
    result = [attempt(session.run, take, options=options)]
    session.run(a.apply_grad(4.0))
    return [*result, attempt(session.run, take)]


CASES: dict[str, Case] = {
    **{f"of_{name}": of_dtype(name) for name in ("float16", "float64", "int32")},
    **{f"taken_{n}_at_least".replace("-", "minus_"): taken_with(n) for n in (-1, 0, 1)},
    **{f"made_of_{name}": kind_of(make) for name, make in MADE.items()},
}
