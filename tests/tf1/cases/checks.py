"""Assertions: what fails at once, what fails in a run, and what goes through."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.attempts import attempt
from tests.tf1.look import makes_case, tf

FEEDS: Any = ([1.0, 2.0], [1.0, 3.0], [-1.0, -3.0], [0.0, 0.0], [])


@makes_case
def pairs(session: Any, name: str, **named: Any) -> Any:
    """Return a case: what comes of two vectors that are fed, and of known ones."""
    check = getattr(tf, name)
    x, y = (tf.placeholder(tf.float32, [None]) for _ in range(2))
    op = check(x, y, **named)
    with tf.control_dependencies([op]):
        passed = tf.identity(x)
    made = []
    for item in FEEDS:
        feeds = {x: item, y: [1.0, 2.0][: len(item)]}
        made.append(attempt(session.run, passed, feeds))
        made.append(attempt(session.run, op, feeds))
    expected: Any = (([1, 2], [1, 2]), ([1, 2], [2, 1]), ([1, 2], 3), ([], 1.0))
    for a, b in expected:
        result = attempt(check, a, b)
        made.append(result if isinstance(result, str) else "made")
    return made


@makes_case
def signs(session: Any, name: str) -> Any:
    """Return a case: what an assertion of one vector lets pass."""
    x = tf.placeholder(tf.float32, [None])
    op = getattr(tf, name)(x, message="told")
    return [attempt(session.run, op, {x: item}) for item in FEEDS]


@makes_case
def ranks(session: Any, name: str, shapes: Any, wanted: Any) -> Any:
    """Return a case: what an assertion of ranks says to known ones, and in a run."""
    check = getattr(tf, name)
    made = []
    for shape in shapes:
        result = attempt(check, tf.zeros(shape), wanted)
        made.append(result if isinstance(result, str) else result.name)
    x = tf.placeholder(tf.float32)
    op = check(x, wanted)
    made += [attempt(session.run, op, {x: np.zeros(item)}) for item in shapes]
    return made


def case_message(session: Any) -> Any:
    x = tf.placeholder(tf.float32, [None])
    ops = [
        tf.assert_less(x, 1.0, message="too big:"),
        tf.Assert(tf.reduce_all(x < 1.0), ["mine", x, x], summarize=1),
    ]
    made = []
    for op in ops:
        try:
            session.run(op, {x: [0.5, 2.5, 3.5, 4.5]})
        except tf.errors.InvalidArgumentError as error:
            made.append([item in error.message for item in ("too big:", "2.5")])
            made.append(["assertion failed: [" in error.message])
            made.append(["[mine] [0.5...] [0.5...]" in error.message])
    return made


def case_assertion_of_a_branch_that_is_not_taken(session: Any) -> Any:
    choice, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [])

    def checked() -> Any:
        with tf.control_dependencies([tf.assert_positive(x)]):
            return tf.identity(x)

    made = tf.cond(choice, checked, lambda: x - 1.0)
    return [
        attempt(session.run, made, {choice: item, x: number})
        for item in (True, False)
        for number in (1.0, -1.0)
    ]


def case_dtypes() -> Any:
    x, n = tf.placeholder(tf.float32), tf.placeholder(tf.int64)
    calls = [
        *((tf.assert_type, x, tf.float32), (tf.assert_type, x, tf.int32)),
        *((tf.assert_integer, n), (tf.assert_integer, x), (tf.assert_scalar, 1)),
        *((tf.assert_scalar, [1]), (tf.assert_scalar, x)),
        *((tf.assert_proper_iterable, [1]), (tf.assert_proper_iterable, x)),
        *((tf.assert_proper_iterable, "a"), (tf.assert_proper_iterable, 1)),
    ]
    made = [attempt(*call) for call in calls]
    return [
        item if item is None or isinstance(item, str) else item.name.split("/")[-1]
        for item in made
    ]


def case_float_dtypes() -> Any:
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float64)
    same = tf.assert_same_float_dtype
    calls = [
        *((same,), (same, [x]), (same, [x, x], tf.float32), (same, [y])),
        *((same, [x, y]), (same, [x], tf.float64), (same, None, tf.int32)),
    ]
    made = [attempt(*call) for call in calls]
    return [item if isinstance(item, str) else item.name for item in made]


def case_tensors_of_numbers() -> Any:
    tensor = [tf.constant(1), tf.constant(1.0), tf.constant("a"), tf.constant(True), 1]
    return [bool(tf.is_numeric_tensor(item)) for item in tensor]


def case_near_by_other_tolerances(session: Any) -> Any:
    x = tf.placeholder(tf.float64, [])
    ops = [
        tf.assert_near(x, np.float64(1.0)),
        tf.assert_near(x, np.float64(1.0), rtol=0.1),
        tf.assert_near(x, np.float64(1.0), rtol=0.0, atol=0.01),
    ]
    return [
        attempt(session.run, op, {x: item})
        for op in ops
        for item in (1.0, 1.0 + 1e-15, 1.0 + 1e-14, 1.005, 1.05, 1.5)
    ]


def case_shape_that_is_ensured(session: Any) -> Any:
    x = tf.placeholder(tf.float32)
    made = tf.ensure_shape(x, [None, 2], name="e")
    slope = tf.gradients(made * made, x)[0]
    runs = [
        attempt(session.run, [made, slope], {x: np.ones(shape)})
        for shape in ((1, 2), (2, 1), (2,))
    ]
    partly = tf.ensure_shape(tf.placeholder(tf.float32, [3, None]), [None, 2])
    return [made.name, made.shape.as_list(), partly.shape.as_list(), runs]


def case_numbers_that_are_checked(session: Any) -> Any:
    x = tf.placeholder(tf.float32, [None])
    made = tf.check_numerics(x, "mine", name="c")
    slope = tf.gradients(made * made, x)[0]
    both = [made, slope, tf.verify_tensor_all_finite(x, "other")]
    runs = [
        attempt(session.run, both, {x: item})
        for item in ([1.0], [np.nan], [1.0, np.inf])
    ]
    return [made.name, runs]


def case_all_numbers_of_a_graph(session: Any) -> Any:
    x = tf.placeholder(tf.float32, [])
    y, n = tf.log(x), tf.cast(x, tf.int32)
    checks = tf.add_check_numerics_ops()
    return [
        attempt(session.run, [y, n, checks][:count], {x: item})
        for count in (2, 3)
        for item in (1.0, -1.0)
    ]


def case_all_numbers_of_a_graph_with_a_branch() -> Any:
    x = tf.placeholder(tf.float32, [])
    tf.cond(x < 0.0, lambda: -x, lambda: x + 1.0)
    return tf.add_check_numerics_ops()


CASES = {
    **{f"pairs_{sign}": pairs(f"assert_{sign}") for sign in ("equal", "none_equal")},
    **{
        f"pairs_{sign}": pairs(f"assert_{sign}", message="told")
        for sign in ("less", "less_equal", "greater", "greater_equal")
    },
    "pairs_with_data": pairs("assert_equal", data=["data"], summarize=1),
    **{
        f"signs_{sign}": signs(f"assert_{sign}")
        for sign in ("negative", "positive", "non_negative", "non_positive")
    },
    "rank": ranks("assert_rank", [(), (2,), (2, 2)], 1),
    "rank_at_least": ranks("assert_rank_at_least", [(), (2,), (2, 2)], 1),
    "rank_in": ranks("assert_rank_in", [(), (2,), (2, 2)], [0, 2]),
    "rank_that_is_a_vector": lambda: tf.assert_rank(tf.zeros([2]), [1]),
    "rank_that_is_no_integer": lambda: tf.assert_rank(tf.zeros([2]), 1.0),
    "data_that_is_no_list": lambda: tf.Assert(True, "said"),
    "other_dtypes": lambda: tf.assert_equal(tf.placeholder(tf.float32), 1),
    "shape_that_cannot_be": lambda: tf.ensure_shape(tf.zeros([2, 3]), [None, 2]),
    "whole_numbers_that_are_checked": lambda: tf.check_numerics(tf.constant(1), "mine"),
}
