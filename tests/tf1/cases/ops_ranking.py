"""Running sums, the greatest elements of rows, orders that are turned round."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.attempts import attempt
from tests.tf1.look import Case, tf

A = np.array([[3.0, 1.0, 3.0, 2.0], [0.5, -5.0, 0.25, 0.5]], np.float32)


def run(tensor: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(tensor, feeds)


def summed(x: Any, **named: Any) -> Case:
    """Return a case: what `tf.cumsum` makes of a constant."""
    return lambda: run(tf.cumsum(x, **named))


def ranked(x: Any, **named: Any) -> Case:
    """Return a case: what `tf.nn.top_k` makes of a constant."""
    return lambda: list(run(list(tf.nn.top_k(x, **named))))


def inverted(x: Any) -> Case:
    return lambda: run(tf.invert_permutation(x))


def within(predictions: Any, targets: Any, k: Any) -> Case:
    return lambda: run(tf.nn.in_top_k(predictions, targets, k))


def case_slope_of_sums() -> Any:
    x = tf.placeholder(tf.float32, [2, 4])
    weights = tf.constant(np.arange(8, dtype=np.float32).reshape(2, 4))
    result = []
    for exclusive in (False, True):
        for reverse in (False, True):
            y = tf.cumsum(x, axis=1, exclusive=exclusive, reverse=reverse)
            result += tf.gradients(y * weights, x)
    return run(result, {x: A})


def case_names() -> Any:
    x = tf.placeholder(tf.float32, [2, 3])
    result = [
        *(tf.cumsum(x), tf.cumsum(x, name="c"), tf.cumsum([1, 2])),
        *(*tf.nn.top_k(x), *tf.nn.top_k(x, name="t"), tf.invert_permutation([0])),
        *(tf.nn.in_top_k(x, [0, 1], 1), tf.nn.in_top_k(x, [0, 1], 1, name="i")),
    ]
    return [
        [tensor.name, tensor.dtype.name, tensor.shape.as_list()] for tensor in result
    ]


def case_shapes_of_top_k() -> Any:
    k = tf.placeholder(tf.int32, [])
    unknown = tf.placeholder(tf.float32)
    partly = tf.placeholder(tf.float32, [None, None, 3])
    made = [tf.nn.top_k(A, k), tf.nn.top_k(unknown, 2), tf.nn.top_k(partly, 2)]
    shapes = [item.values.shape for item in made]
    return [None if shape.ndims is None else shape.as_list() for shape in shapes]


def case_as_many_as_are_fed(session: Any) -> Any:
    k = tf.placeholder(tf.int32, [])
    result = tf.nn.top_k(A, k)
    return [
        attempt(session.run, result.values, {k: count}) for count in (0, 1, 4, 5, -1)
    ]


def case_slope_of_top_k() -> Any:
    x = tf.placeholder(tf.float32, [2, 4])
    values, _ = tf.nn.top_k(x, 3)
    weights = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    return run(tf.gradients(values * weights, x), {x: A})


NAN, INF = float("nan"), float("inf")
P = [[0.1, 0.5, 0.5], [1.0, NAN, 0.0], [0.1, 0.2, 0.3], [3.0, 2.0, INF]]

CASES: dict[str, Case] = {
    "sums": summed(A),
    "sums_along_the_last_axis": summed(A, axis=-1),
    "sums_without_the_element_itself": summed(A, axis=1, exclusive=True),
    "sums_from_the_end": summed(A, axis=1, reverse=True),
    "sums_from_the_end_without_itself": summed(A, axis=1, reverse=True, exclusive=True),
    "sums_of_whole_numbers": summed(np.array([[1, 2], [3, 4]], np.int32), axis=1),
    "sums_that_run_over": summed(np.array([100, 100, 100], np.int8)),
    "sums_of_nothing": summed(np.zeros([0, 2], np.float32)),
    "sums_with_an_infinity": summed([1.0, INF, 1.0], exclusive=True),
    "sums_with_no_number": summed([1.0, NAN, 1.0], reverse=True),
    "sums_of_a_number": summed(1.0),
    "sums_of_truths": summed([True, False]),
    "sums_of_texts": summed(["a", "b"]),
    "sums_along_a_missing_axis": summed(A, axis=2),
    "sums_along_an_axis_before_the_first": summed(A, axis=-3),
    "sums_along_several_axes": summed(A, axis=[0, 1]),
    "sums_along_half_an_axis": summed(A, axis=0.5),
    "the_greatest": ranked(A),
    "the_two_greatest": ranked(A, k=2),
    "all_in_order": ranked(A, k=4),
    "the_greatest_of_a_row": ranked([2, 9, 4], k=2),
    "the_greatest_of_bytes": ranked(np.array([200, 3, 250], np.uint8), k=3),
    "the_greatest_of_negative_ones": ranked(np.array([-128, 127], np.int8), k=2),
    "the_greatest_of_more_axes": ranked(np.arange(8.0).reshape(2, 2, 2), k=1),
    "the_greatest_none": ranked(A, k=0),
    "the_greatest_with_infinities": ranked([1.0, INF, -INF], k=3),
    "the_greatest_of_too_many": ranked(A, k=5),
    "the_greatest_of_less_than_none": ranked(A, k=-1),
    "the_greatest_of_a_number": ranked(3.0),
    "the_greatest_of_texts": ranked(["a", "b"]),
    "the_greatest_of_several_counts": ranked(A, k=[1, 2]),
    "the_greatest_of_half_a_count": ranked(A, k=1.5),
    "an_order": inverted([2, 0, 3, 1]),
    "an_order_of_long_numbers": inverted(np.array([1, 0], np.int64)),
    "an_order_of_nothing": inverted(np.zeros([0], np.int32)),
    "an_order_with_one_twice": inverted([0, 1, 1]),
    "an_order_with_one_beyond": inverted([0, 3, 1]),
    "an_order_with_a_negative_one": inverted([0, -1, 1]),
    "an_order_of_fractions": inverted([0.0, 1.0]),
    "an_order_of_two_axes": inverted([[0, 1]]),
    "an_order_that_is_a_number": inverted(0),
    "within_the_first": within(P, [2, 0, 2, 0], 1),
    "within_the_first_two": within(P, [0, 0, 1, 1], 2),
    "within_more_than_there_are": within(P, [0, 1, 0, 2], 5),
    "within_none": within(P, [1, 1, 2, 2], 0),
    "within_less_than_none": within(P, [1, 1, 2, 2], -1),
    "within_of_what_is_no_class": within([[1.0, 2.0]] * 3, [2, -1, 1], 1),
    "within_of_too_few_targets": within(P, [0, 1], 1),
    "within_of_targets_in_two_axes": within(P, [[0], [1], [1], [1]], 1),
    "within_of_one_row": within([0.1, 0.9], [1], 1),
    "within_of_long_targets": within(P, np.array([1, 1, 2, 2], np.int64), 1),
    "within_of_targets_that_are_fractions": within(P, [1.0, 1.0, 2.0, 2.0], 1),
    "within_of_double_predictions": within(np.array(P), [1, 1, 2, 2], 1),
}
