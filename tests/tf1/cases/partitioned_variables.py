"""Variables in parts: how they are cut, shared, joined, changed and saved."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np

from tests.tf1.look import initialized, makes_case, names_of, started, tf

VALUE = np.arange(10, dtype=np.float32).reshape(5, 2)


def get(name: str = "v", n: int = 3, axis: int = 0, **how: Any) -> Any:
    """Return a variable of VALUE in n parts."""
    partitioner = tf.fixed_size_partitioner(n, axis)
    how = {"initializer": tf.constant(VALUE), **how}
    return tf.get_variable(name, partitioner=partitioner, **how)


def described(variable: Any) -> Any:
    """Tell name, shape and parts of a variable."""
    parts = variable._get_variable_list() if hasattr(variable, "__len__") else []
    shapes = [(part.name, part.shape.as_list()) for part in parts]
    return variable.name, variable.get_shape().as_list(), shapes


def case_an_initial_array_with_a_shape() -> Any:
    result = get(initializer=VALUE, shape=[5, 2])
    return described(result), started(result.as_tensor())


def case_it_is_the_same_object_again() -> Any:
    with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(2)):
        first = tf.get_variable("v", [4])
    with tf.variable_scope(
        "a", partitioner=tf.fixed_size_partitioner(2), reuse=tf.AUTO_REUSE
    ):
        second = tf.get_variable("v", [4])
    with tf.variable_scope("a", reuse=True):
        third = tf.get_variable("v", [4])
        fourth = tf.get_variable("v")
    return [first is item for item in (second, third, fourth)]


def case_it_exists_already() -> Any:
    get()
    return get()


def case_it_does_not_exist() -> Any:
    with tf.variable_scope("a", reuse=True):
        return get()


def case_again_with_another_dtype() -> Any:
    with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(2)):
        tf.get_variable("v", [4])
    with tf.variable_scope("a", reuse=True):
        return tf.get_variable("v", [4], tf.int32)


def case_again_with_other_parts() -> Any:
    get()
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        return get(n=2)


def case_again_as_a_whole() -> Any:
    get()
    with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
        return described(tf.get_variable("v", [5, 2]))


def case_a_whole_one_again_in_parts() -> Any:
    tf.get_variable("v", [5, 2])
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        return get()


def case_a_partitioner_that_is_no_function() -> Any:
    return tf.get_variable("v", [4], partitioner=3)


def case_a_partitioner_of_one_part() -> Any:
    result = get(n=1)
    return described(result), result.as_tensor().name, result.as_tensor().op.type


@makes_case
def partitioner_that_gives(*counts: Any) -> Any:
    parts = list(counts)
    return described(tf.get_variable("v", [4, 6], partitioner=lambda **_: parts))


def case_assigned_as_a_whole() -> Any:
    result = get()
    changes = (
        result.assign(VALUE * 2),
        result.assign_add(VALUE),
        result.assign_sub(VALUE),
    )
    with initialized() as session:
        seen = []
        for change in changes:
            session.run(change)
            seen.append(session.run(result.as_tensor()))
        return seen, [type(item).__name__ for item in changes]


def case_trained() -> Any:
    result = get()
    loss = tf.reduce_sum(tf.square(result))
    step = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    with initialized() as session:
        session.run(step)
        session.run(step)
        names = names_of(tf.global_variables())
        return session.run(result.as_tensor()), names


def case_saved_in_parts_and_restored_as_a_whole() -> Any:
    where = f"{tempfile.mkdtemp()}/model"
    with tf.Graph().as_default(), tf.Session() as session:
        get("a/v")
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, where)
    with tf.Graph().as_default(), tf.Session() as session:
        whole = tf.get_variable("a/v", [5, 2])
        other = tf.train.Saver()
        other.restore(session, path)
        first = session.run(whole)
    with tf.Graph().as_default(), tf.Session() as session:
        cut = get("a/v", n=2, axis=1)
        tf.train.Saver([cut]).restore(session, path)
        return first, session.run(list(cut)), tf.train.list_variables(path)


def case_axis_sizes_and_bounds() -> Any:
    axis_size = tf.variable_axis_size_partitioner(8)
    bounds = tf.min_max_variable_partitioner(max_partitions=3, min_slice_size=8)
    return [
        described(tf.get_variable("a", [6, 2], partitioner=axis_size)),
        described(tf.get_variable("b", [6, 2], partitioner=bounds)),
        described(tf.get_variable("c", [1, 2], partitioner=bounds)),
    ]


def case_regularized_part_by_part() -> Any:
    get(regularizer=tf.reduce_sum)
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    return started(losses)


def case_iterated_and_measured() -> Any:
    result = get()
    return len(result), names_of(result), result.dtype.name


CASES = {
    "a_partitioner_that_cuts_two_axes": partitioner_that_gives(2, 2),
    "a_partitioner_that_forgets_an_axis": partitioner_that_gives(2),
    "a_partitioner_of_no_parts": partitioner_that_gives(0, 1),
    "a_partitioner_of_a_fraction": partitioner_that_gives(1.5, 1),
    "a_partitioner_of_more_parts_than_rows": partitioner_that_gives(5, 1),
    "a_partitioner_along_the_second_axis": partitioner_that_gives(1, 4),
    "a_shape_that_is_not_known": lambda: get(initializer=None, shape=[None, 2]),
    "with_a_dtype_that_it_does_not_have": lambda: tf.convert_to_tensor(get(), tf.int32),
}
