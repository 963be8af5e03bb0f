"""`tf.cond` and `tf.case`: the taken branch alone has effects, values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kit import tf1 as tf
from tests.cases import for_each
from tests.tf1.look import initialized
from tests.tf1.servers import cluster


@pytest.fixture
def x() -> Any:
    return tf.placeholder(tf.float32, [])


def ran(fetches: Any, feeds: Any = None) -> Any:
    with initialized() as session:
        return session.run(fetches, feeds)


def test_value_is_that_of_the_chosen_branch(x: Any) -> None:
    made = tf.cond(x > 0, lambda: x * 2, lambda: -x)

    assert [ran(made, {x: item}) for item in (3.0, -4.0)] == [6.0, 4.0]
    assert (made.shape.as_list(), made.dtype) == ([], tf.float32)


def test_only_the_chosen_branch_assigns(x: Any) -> None:
    a, b = tf.Variable(1.0), tf.Variable(1.0)
    step = tf.cond(x > 0, lambda: tf.assign_add(a, x), lambda: tf.assign_sub(b, x))

    with initialized() as session:
        after = []
        for item in (5.0, -3.0):
            session.run(step, {x: item})
            after.append([float(v) for v in session.run([a, b])])

    assert after == [[6.0, 1.0], [6.0, 4.0]]


def test_operations_and_control_dependencies_of_a_branch_run_with_it(x: Any) -> None:
    count, other = tf.Variable(0), tf.Variable(0)

    def counted() -> Any:
        with tf.control_dependencies([count.assign_add(1)]):
            return tf.group(other.assign_add(10))

    done = tf.cond(x > 0, counted, tf.no_op)
    with initialized() as session:
        for item in (1.0, -1.0, 1.0):
            session.run(done, {x: item})

        assert session.run([count, other]) == [2, 20]


def test_what_follows_a_condition_sees_what_its_branch_has_assigned(x: Any) -> None:
    v = tf.Variable(1.0)
    changed = tf.cond(x > 0, lambda: tf.assign(v, 7.0), lambda: tf.identity(v))
    with tf.control_dependencies([changed]):
        after = v.read_value()

    assert [ran(after, {x: item}) for item in (1.0, -1.0)] == [7.0, 1.0]


def test_what_a_branch_takes_from_outside_has_its_effects_in_any_case(x: Any) -> None:
    count = tf.Variable(0.0)
    outside = tf.assign_add(count, 1.0)
    made = tf.cond(x > 0, lambda: tf.identity(outside), lambda: tf.constant(0.0))

    with initialized() as session:
        session.run(made, {x: -1.0})

        assert session.run(count) == 1.0


def test_branches_are_nested(x: Any, session: Any) -> None:
    count = tf.Variable(0)

    def inner() -> Any:
        return tf.cond(
            x > 10, lambda: tf.assign_add(count, 100), lambda: tf.assign_add(count, 1)
        )

    made = tf.cond(x > 0, inner, lambda: tf.constant(-1))
    session.run(count.initializer)
    result = [session.run(made, {x: item}) for item in (-5.0, 20.0, 5.0, -20.0)]

    assert [int(number) for number in result] == [-1, 100, 101, -1]
    assert session.run(count) == 101


STRUCTURES: dict[str, tuple[Any, Any]] = {
    "a list": ([1, 2], [3, 4]),
    "a tuple": ((1, 2), (3, 4)),
    "a dict": ({"a": 1, "b": 2}, {"a": 3, "b": 4}),
    "nested": ((1, {"a": [2]}), (3, {"a": [4]})),
}


@for_each("name", STRUCTURES)
def test_results_have_the_structure_that_the_branches_return(name: str) -> None:
    true, false = STRUCTURES[name]
    with tf.Graph().as_default(), tf.Session() as session:
        choice = tf.placeholder("bool", [])
        made = tf.cond(choice, lambda: true, lambda: false)

        assert session.run(made, {choice: True}) == true
        assert session.run(made, {choice: False}) == false


def test_list_of_one_is_that_one_unless_strict() -> None:
    yes = tf.constant(True)

    assert ran(tf.cond(yes, lambda: [1], lambda: [2])) == 1
    assert ran(tf.cond(yes, lambda: [1], lambda: [2], strict=True)) == [1]


def test_gradient_is_that_of_the_chosen_branch(x: Any) -> None:
    w = tf.Variable(5.0)
    y = tf.cond(x > 0, lambda: x * x * w, lambda: 3 * x) + x
    slopes = tf.gradients(y, [x, w])

    assert ran(slopes, {x: 2.0}) == [2 * 2.0 * 5.0 + 1, 4.0]
    assert ran(slopes, {x: -2.0}) == [3.0 + 1, 0.0]


def test_second_gradient_goes_through_a_branch(x: Any) -> None:
    y = tf.cond(x > 0, lambda: x**3, lambda: x**2)
    (slope,) = tf.gradients(y, x)
    (bend,) = tf.gradients(slope, x)

    assert ran(bend, {x: 2.0}) == pytest.approx(6 * 2.0)
    assert ran(bend, {x: -2.0}) == pytest.approx(2.0)


def test_gradient_of_nested_branches(x: Any) -> None:
    y = tf.cond(
        x > 0,
        lambda: x * tf.cond(x > 10, lambda: 2 * x, lambda: 3 * x),
        lambda: 7 * x,
    )
    (slope,) = tf.gradients(y, x)

    assert [ran(slope, {x: item}) for item in (20.0, 5.0, -1.0)] == [80.0, 30.0, 7.0]


def test_gradient_of_rows_taken_in_a_branch(x: Any) -> None:
    table = tf.Variable(np.ones((3, 2), np.float32))
    y = tf.cond(
        x > 0,
        lambda: tf.reduce_sum(tf.gather(table, [1, 1])) * x,
        lambda: tf.constant(0.0),
    )
    (slope,) = tf.gradients(y, table)

    whole = ran(tf.convert_to_tensor(slope), {x: 2.0})
    none = ran(tf.convert_to_tensor(slope), {x: -2.0})

    assert whole.tolist() == [[0, 0], [4, 4], [0, 0]]
    assert not none.any()


def test_optimizer_steps_only_in_its_branch(x: Any) -> None:
    w = tf.Variable(1.0)
    optimizer = tf.train.MomentumOptimizer(0.5, 0.0)
    made = tf.cond(x > 0, lambda: optimizer.minimize(w * 3.0), tf.no_op)

    with initialized() as session:
        values = []
        for item in (-1.0, 1.0, -1.0):
            session.run(made, {x: item})
            values.append(float(session.run(w)))

    assert values == [1.0, 1.0 - 0.5 * 3.0, 1.0 - 0.5 * 3.0]


def test_variable_made_in_a_branch_is_initialized_without_the_choice(x: Any) -> None:
    made = tf.cond(
        x > 0,
        lambda: tf.get_variable("w", [], initializer=tf.ones_initializer()) * x,
        lambda: x,
    )

    assert [ran(made, {x: item}) for item in (3.0, -3.0)] == [3.0, -3.0]


def test_variable_without_a_value_is_not_read_in_a_branch_that_is_not_taken(
    session: Any,
) -> None:
    v = tf.Variable(1.0)
    value = tf.cond(
        tf.is_variable_initialized(v), v.read_value, lambda: tf.constant(9.0)
    )

    before = session.run(value)
    session.run(v.initializer)

    assert (before, session.run(value)) == (9.0, 1.0)


def test_branch_that_is_not_taken_does_not_wait_for_a_queue(
    x: Any, session: Any
) -> None:
    queue = tf.FIFOQueue(2, tf.float32, shapes=[[]])
    made = tf.cond(x > 0, queue.dequeue, lambda: tf.constant(-1.0))

    without = session.run(made, {x: -1.0})
    session.run(queue.enqueue(5.0))

    assert (without, session.run(made, {x: 1.0})) == (-1.0, 5.0)


def test_error_of_a_branch_is_raised_only_if_it_is_taken(x: Any) -> None:
    def failing() -> Any:
        def fail() -> Any:
            raise ValueError("on purpose")

        return tf.py_func(fail, [], tf.float32)

    made = tf.cond(x > 0, failing, lambda: tf.constant(2.0))

    assert ran(made, {x: -1.0}) == 2.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="on purpose"):
        ran(made, {x: 1.0})


@pytest.mark.slow
def test_branches_reach_over_several_tasks() -> None:
    servers = cluster(local=2)["local"]
    choice = tf.placeholder("bool", [])
    with tf.device("/job:local/task:0"):
        w = tf.Variable([1.0, 2.0])
    with tf.device("/job:local/task:1"):
        x = tf.placeholder(tf.float32, [2])
        y = tf.cond(choice, lambda: tf.assign_add(w, x * 2) * x, lambda: w - x)
        loss = tf.reduce_sum(tf.cond(choice, lambda: w * x * x, lambda: w * 5.0))
    (slope,) = tf.gradients(loss, w)

    with tf.Session(servers[0].target) as session:
        session.run(w.initializer)
        feeds = [{choice: item, x: [3.0, 4.0]} for item in (False, True)]
        values = [session.run(y, feed).tolist() for feed in feeds]
        slopes = [session.run(slope, feed).tolist() for feed in feeds]
        last = session.run(w).tolist()

    assert values == [[-2.0, -2.0], [21.0, 40.0]]
    assert slopes == [[5.0, 5.0], [9.0, 16.0]]
    assert last == [7.0, 10.0]


CASES: list[tuple[float, int]] = [(0.0, 1), (1.5, 2), (5.0, 3)]


@for_each(("value", "expected"), CASES)
def test_case_gives_the_first_that_is_true_else_the_default(
    value: float, expected: int
) -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        made = tf.case(
            [(x < 1, lambda: tf.constant(1)), (x < 2, lambda: tf.constant(2))],
            default=lambda: tf.constant(3),
        )

        assert ran(made, {x: value}) == expected


def test_case_runs_one_function_alone(x: Any) -> None:
    counts = [tf.Variable(0) for _ in range(3)]
    pairs = [(x < item + 1.0, count_of(counts[item])) for item in range(2)]
    made = tf.case(pairs, default=count_of(counts[2]))

    with initialized() as session:
        for value in (0.0, 1.5, 1.5, 9.0):
            session.run(made, {x: value})

        assert session.run(counts) == [1, 2, 1]


def count_of(variable: Any) -> Callable[[], Any]:
    return lambda: tf.assign_add(variable, 1)


def test_case_that_must_be_exclusive_or_has_no_default_says_so(x: Any) -> None:
    pairs = [(x < 1, lambda: tf.constant(1)), (x < 2, lambda: tf.constant(2))]
    alone, some = tf.case(pairs, exclusive=True), tf.case(pairs)

    assert ran([alone, some], {x: 1.5}) == [2, 2]
    with pytest.raises(tf.errors.InvalidArgumentError, match="More than one"):
        ran(alone, {x: 0.0})
    with pytest.raises(tf.errors.InvalidArgumentError, match="None of the conditions"):
        ran(some, {x: 7.0})


def constant() -> Any:
    return tf.constant(1.0)


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a Python bool": (
        lambda: tf.cond(True, constant, constant),
        TypeError,
        "Python bool",
    ),
    "no function": (
        lambda: tf.cond(tf.constant(True), None, constant),
        TypeError,
        "callable",
    ),
    "no result": (
        lambda: tf.cond(tf.constant(True), lambda: None, constant),
        *(ValueError, "true_fn must have a return value"),
    ),
    "another dtype": (
        lambda: tf.cond(tf.constant(True), constant, lambda: tf.constant(1)),
        *(ValueError, "same type: float32, int32"),
    ),
    "another structure": (
        lambda: tf.cond(tf.constant(True), constant, lambda: [constant(), constant()]),
        *(TypeError, "Incompatible return types"),
    ),
    "several bools": (
        lambda: tf.cond(tf.constant([True, False]), constant, constant),
        *(ValueError, "one bool"),
    ),
    "a number": (
        lambda: tf.cond(tf.constant(1.0), constant, constant),
        ValueError,
        "bool",
    ),
    "no pair": (lambda: tf.case([constant]), TypeError, "2-tuple"),
}


@for_each("name", REFUSED)
def test_condition_is_refused_when_the_line_is_written(name: str) -> None:
    make, kind, words = REFUSED[name]

    with tf.Graph().as_default(), pytest.raises(kind, match=words):
        make()


def test_what_stands_in_a_branch_cannot_be_fetched(x: Any) -> None:
    inside: list[Any] = []

    def branch() -> Any:
        inside.append(x * 2)
        return inside[0]

    tf.cond(x > 0, branch, lambda: x)

    with tf.Session() as session, pytest.raises(ValueError, match="not fetchable"):
        session.run(inside[0], {x: 1.0})
