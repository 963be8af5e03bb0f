"""`tf.gradients`: which of them exist, how they add up, where they are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import run, started, static


def is_none(gradients: list[Any]) -> list[bool]:
    return [one is None for one in gradients]


def connected(tf: Any, **options: Any) -> Any:
    x, y = tf.constant([1.0, 2.0]), tf.constant([3.0])
    found = tf.gradients(x * 2.0, [x, y], **options)
    values = run(tf, [one for one in found if one is not None])
    return [is_none(found), values]


def case_gradients_are_a_list_one_for_each_x(tf: Any) -> Any:
    x, y = tf.constant(3.0), tf.constant(4.0)
    z = x * y
    found = tf.gradients(z, [x, y, z])
    return [type(found).__name__, run(tf, found)]


def case_gradients_are_a_list_for_a_single_x(tf: Any) -> Any:
    x = tf.constant(3.0)
    found = tf.gradients(x * x, x)
    return [type(found).__name__, run(tf, found)]


def case_gradients_of_several_ys_are_summed(tf: Any) -> Any:
    x = tf.constant([1.0, 2.0])
    return run(tf, tf.gradients([x * 3.0, x * x, tf.reduce_sum(x)], x))


def weighted(tf: Any, weights: Any) -> Any:
    x = tf.constant([1.0, 2.0])
    return run(tf, tf.gradients([x * 3.0, x * x], x, grad_ys=weights))


def case_gradients_stop_where_told(tf: Any) -> Any:
    x = tf.constant(2.0)
    square = x * x
    total = square * x
    free = tf.gradients(total, [x, square])
    held = tf.gradients(total, [x, square], stop_gradients=[square])
    return run(tf, [free, held])


def second(tf: Any) -> Any:
    x = tf.constant([1.0, 2.0])
    (first,) = tf.gradients(x**3.0, x)
    return run(tf, [first, *tf.gradients(first, x)])


def case_gradient_of_an_integer_path_is_none(tf: Any) -> Any:
    x = tf.constant([1, 2])
    return is_none(tf.gradients(x * 2, x))


def case_gradient_through_integers_is_none(tf: Any) -> Any:
    x = tf.constant([1.0, 2.0])
    return is_none(tf.gradients(tf.cast(tf.cast(x, tf.int32), tf.float32), x))


def case_gradient_through_what_has_none_is_none(tf: Any) -> Any:
    x = tf.constant([1.0, 2.0])
    results = [tf.argmax(x), tf.shape(x), tf.equal(x, 1.0), tf.logical_not(x > 1.0)]
    found = [tf.gradients(tf.cast(one, tf.float32), x) for one in results]
    return [*map(is_none, found), is_none(tf.gradients(tf.zeros_like(x), x))]


def case_gradient_by_a_variable(tf: Any) -> Any:
    variable = tf.Variable([1.0, 2.0])
    found = tf.gradients(tf.square(variable) * 3.0, variable)
    return [static(found[0]), started(tf, found)]


def case_gradient_by_an_intermediate_tensor(tf: Any) -> Any:
    x = tf.constant(2.0)
    middle = x * 3.0
    return run(tf, tf.gradients(middle * middle, [middle, x]))


def case_gradient_of_a_tensor_used_twice_is_the_sum(tf: Any) -> Any:
    x = tf.constant([1.0, 2.0])
    return run(tf, tf.gradients(tf.sin(x) * x + x, x))


def case_gradient_of_a_fed_batch(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [None, 2])
    w = tf.constant([[1.0], [2.0]])
    found = tf.gradients(tf.matmul(x, w), [x, w])
    return [static(found[0]), run(tf, found, {x: [[1.0, 2.0], [3.0, 4.0]]})]


def case_gradient_of_a_broadcast_known_only_when_run(tf: Any) -> Any:
    x = tf.placeholder(tf.float32)
    y = tf.constant([1.0, 2.0])
    found = tf.gradients(x * y, [x, y])
    return [run(tf, found, {x: 3.0}), run(tf, found, {x: np.ones([3, 2])})]


def case_gradients_have_a_name_scope(tf: Any) -> Any:
    x = tf.constant(2.0, name="x")
    first = tf.gradients(tf.sin(x, name="wave"), x)[0].name
    second = tf.gradients(tf.cos(x, name="hill"), x)[0].name
    third = tf.gradients(tf.sin(x), x, name="slope")[0].name
    return [name.split("/")[0] for name in (first, second, third)]


def devices(tf: Any, colocate: bool) -> Any:
    with tf.device("/job:worker/task:1"):
        x = tf.constant([1.0, 2.0])
        y = tf.tanh(x)
    with tf.device("/job:ps/task:0"):
        (found,) = tf.gradients(y, x, colocate_gradients_with_ops=colocate)
    return found.device


def case_gradients_may_be_gated(tf: Any) -> Any:
    x, y = tf.constant(3.0), tf.constant(4.0)
    return run(tf, tf.gradients(x * y, [x, y], gate_gradients=True))


def case_gradient_of_what_is_not_connected_has_the_shape_of_x(tf: Any) -> Any:
    x, y = tf.constant(3.0), tf.constant([[4.0, 5.0]])
    (found,) = tf.gradients(x, [y], unconnected_gradients="zero")
    return run(tf, found)


def case_gradients_of_parts_on_several_devices_are_summed(tf: Any) -> Any:
    x = tf.constant([1.0, 2.0])
    parts = []
    for index in range(3):
        with tf.device(f"/cpu:{index}"):
            parts.append(x * (index + 1.0))
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 3})) as session:
        return session.run(tf.gradients(parts, x))


CASES: dict[str, Callable[[Any], Any]] = {
    "gradient_of_what_is_not_connected_is_none": connected,
    "gradient_of_what_is_not_connected_may_be_zero": lambda tf: connected(
        tf, unconnected_gradients="zero"
    ),
    "gradients_refuse_another_word_for_unconnected": lambda tf: is_none(
        connected(tf, unconnected_gradients="maybe")
    ),
    "gradients_are_weighted": lambda tf: weighted(tf, [[1.0, 10.0], [2.0, 3.0]]),
    "gradients_may_be_weighted_in_part": lambda tf: weighted(tf, [None, [2.0, 3.0]]),
    "gradients_refuse_too_few_weights": lambda tf: weighted(tf, [[1.0, 1.0]]),
    "gradients_refuse_weights_of_another_shape": lambda tf: weighted(
        tf, [[1.0, 1.0, 1.0], None]
    ),
    "gradients_refuse_weights_of_another_dtype": lambda tf: weighted(
        tf, [tf.constant([1, 1]), None]
    ),
    "gradients_of_gradients": second,
    "gradients_take_the_device_of_the_scope": lambda tf: devices(tf, colocate=False),
    "gradients_may_follow_the_forward_operation": lambda tf: devices(tf, colocate=True),
    "gradient_by_a_number_is_none": lambda tf: is_none(
        tf.gradients(tf.constant(1.0), 2.0)
    ),
}
