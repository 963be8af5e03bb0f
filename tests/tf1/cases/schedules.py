"""Learning rates that follow the step, and averages that follow variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.tf1.look import Case, initialized, makes_case, names_of, static, tf


@makes_case
def over_steps(session: Any, steps: list[int], build: Callable[[Any], Any]) -> Any:
    """Tell the rate at each step; the step is a variable of int64."""
    step = tf.Variable(0, dtype=tf.int64, trainable=False)
    rate = build(step)
    seen = []
    for number in steps:
        step.load(number, session)
        seen.append(session.run(rate))
    return [rate.dtype.name, rate.shape.as_list(), seen]


def decayed(**options: Any) -> Any:
    return over_steps(
        [0, 1, 5, 10, 25],
        lambda step: tf.train.exponential_decay(0.5, step, 10, 0.9, **options),
    )


def pieces(boundaries: list[Any], values: list[Any]) -> Any:
    return over_steps(
        [0, 2, 3, 10, 11, 99],
        lambda step: tf.train.piecewise_constant(step, boundaries, values),
    )


@makes_case
def averaged(first: float, then: list[float], **options: Any) -> Any:
    variable = tf.Variable(first, name="v")
    average = tf.train.ExponentialMovingAverage(**options)
    update = average.apply([variable])
    shadow = average.average(variable)
    with initialized() as session:
        seen = [session.run(shadow)]
        for value in then:
            variable.load(value, session)
            session.run(update)
            seen.append(session.run(shadow))
    return [shadow.name, seen]


def case_moving_average_with_updates_counted() -> Any:
    step = tf.Variable(0, trainable=False, name="step")
    variable = tf.Variable(0.0, name="v")
    average = tf.train.ExponentialMovingAverage(0.99, num_updates=step)
    update = average.apply([variable])
    with initialized() as session:
        seen = []
        for number in (0, 1, 10, 10000):
            step.load(number, session)
            variable.load(float(number), session)
            session.run(update)
            seen.append(session.run(average.average(variable)))
        return seen


def case_moving_average_names_its_shadows() -> Any:
    with tf.variable_scope("layer"):
        first = tf.get_variable("w", [2])
    other = tf.Variable(1.0, name="v", trainable=False)
    average = tf.train.ExponentialMovingAverage(0.9)
    update = average.apply([first, other])
    shadows = [average.average(first), average.average(other)]
    collected = tf.get_collection(tf.GraphKeys.MOVING_AVERAGE_VARIABLES)
    return [
        names_of(shadows),
        [average.average_name(first), average.average_name(other), average.name],
        names_of(tf.trainable_variables()),
        names_of(collected),
        update.type,
    ]


def case_moving_average_tells_what_to_restore() -> Any:
    first, other = (
        tf.Variable(1.0, name="a"),
        tf.Variable(1.0, name="b", trainable=False),
    )
    average = tf.train.ExponentialMovingAverage(0.9)
    average.apply([first])
    names = average.variables_to_restore()
    return sorted(
        (name, variable is first or variable is other)
        for name, variable in names.items()
    )


def case_moving_average_may_be_applied_twice() -> Any:
    variable = tf.Variable(1.0)
    average = tf.train.ExponentialMovingAverage(0.9)
    names = [average.apply([variable]).name for _ in range(2)]
    return [names, len(tf.global_variables())]


def of_a_tensor(zero_debias: bool) -> Any:
    variable = tf.Variable(10.0, name="v")
    double = tf.multiply(variable, 2.0, name="double")
    average = tf.train.ExponentialMovingAverage(0.9, zero_debias=zero_debias)
    update = average.apply([double])
    shadow = average.average(double)
    with initialized() as session:
        seen = []
        for value in (10.0, 20.0, 0.0):
            variable.load(value, session)
            session.run(update)
            seen.append(session.run(shadow))
    return [shadow.name, seen]


def case_moving_average_of_integers_is_refused() -> Any:
    return tf.train.ExponentialMovingAverage(0.9).apply([tf.Variable(1)])


CASES: dict[str, Case] = {
    "exponential_decay_is_smooth": decayed(),
    "exponential_decay_in_stairs": decayed(staircase=True),
    "exponential_decay_takes_a_name": lambda: static(
        tf.train.exponential_decay(0.1, tf.constant(0), 10, 0.9, name="rate")
    ),
    "exponential_decay_without_a_step": lambda: tf.train.exponential_decay(
        0.1, None, 10, 0.9
    ),
    "piecewise_constant_of_three": pieces([2, 10], [1.0, 0.5, 0.1]),
    "piecewise_constant_of_one_boundary": pieces([3], [1.0, 0.5]),
    "piecewise_constant_of_integers": pieces([2, 10], [3, 2, 1]),
    "piecewise_constant_of_boundaries_in_fractions": pieces(
        [2.5, 10.5], [1.0, 0.5, 0.1]
    ),
    "piecewise_constant_of_too_few_values": pieces([2, 10], [1.0, 0.5]),
    "piecewise_constant_of_values_of_two_dtypes": pieces([2], [1.0, 1]),
    "moving_average_follows_slowly": averaged(10.0, [20.0, 20.0, 0.0], decay=0.9),
    "moving_average_without_memory": averaged(10.0, [20.0, 5.0], decay=0.0),
    "moving_average_of_a_variable_has_no_bias_to_take_away": averaged(
        10.0, [20.0, 20.0, 0.0], decay=0.9, zero_debias=True
    ),
    "moving_average_of_a_tensor_starts_at_zero": lambda: of_a_tensor(False),
    "moving_average_of_a_tensor_without_bias": lambda: of_a_tensor(True),
    "moving_average_with_a_number_of_updates": averaged(
        10.0, [20.0, 20.0], decay=0.9, num_updates=2
    ),
    "moving_average_takes_a_name": averaged(1.0, [2.0], decay=0.5, name="Slow"),
}
