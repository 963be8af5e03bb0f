"""Variables in parts: how they are cut, shared, joined, changed and saved."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import started
from tests.tf1.servers import cluster

VALUE = np.arange(10, dtype=np.float32).reshape(5, 2)


def get(tf: Any, name: str = "v", n: int = 3, axis: int = 0, **how: Any) -> Any:
    """Return a variable of VALUE in n parts."""
    partitioner = tf.fixed_size_partitioner(n, axis)
    how = {"initializer": tf.constant(VALUE), **how}
    return tf.get_variable(name, partitioner=partitioner, **how)


def told(variable: Any) -> Any:
    """Tell name, shape and parts of a variable."""
    parts = variable._get_variable_list() if hasattr(variable, "__len__") else []
    shapes = [(one.name, one.shape.as_list()) for one in parts]
    return variable.name, variable.get_shape().as_list(), shapes


def case_a_scalar_is_whole(tf: Any) -> Any:
    with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(3)):
        one = tf.get_variable("one", [])
        two = tf.get_variable("two", (), tf.int32)
    return one.name, two.name, one.get_shape().as_list()


def case_the_shape_of_an_initial_tensor(tf: Any) -> Any:
    with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(3)):
        found = tf.get_variable("v", initializer=tf.constant(VALUE))
    return told(found), started(tf, [found.as_tensor(), *found])


def case_an_initial_tensor_with_its_shape(tf: Any) -> Any:
    return told(get(tf, shape=[5, 2]))


def case_an_initial_tensor_with_another_shape(tf: Any) -> Any:
    return told(get(tf, shape=[5, 3]))


def case_an_initial_array_without_shape(tf: Any) -> Any:
    return told(get(tf, initializer=VALUE))


def case_an_initial_array_with_a_shape(tf: Any) -> Any:
    found = get(tf, initializer=VALUE, shape=[5, 2])
    return told(found), started(tf, found.as_tensor())


def case_an_initial_scalar_in_a_partitioned_scope(tf: Any) -> Any:
    with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(3)):
        return told(tf.get_variable("v", initializer=3.0))


def case_it_is_the_same_object_again(tf: Any) -> Any:
    with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(2)):
        first = tf.get_variable("v", [4])
    with tf.variable_scope(
        "a", partitioner=tf.fixed_size_partitioner(2), reuse=tf.AUTO_REUSE
    ):
        second = tf.get_variable("v", [4])
    with tf.variable_scope("a", reuse=True):
        third = tf.get_variable("v", [4])
        fourth = tf.get_variable("v")
    return [first is one for one in (second, third, fourth)]


def case_it_exists_already(tf: Any) -> Any:
    get(tf)
    return get(tf)


def case_it_does_not_exist(tf: Any) -> Any:
    with tf.variable_scope("a", reuse=True):
        return get(tf)


def case_again_with_another_shape(tf: Any) -> Any:
    with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(2)):
        tf.get_variable("v", [4])
    with tf.variable_scope("a", reuse=True):
        return tf.get_variable("v", [5])


def case_again_with_another_dtype(tf: Any) -> Any:
    with tf.variable_scope("a", partitioner=tf.fixed_size_partitioner(2)):
        tf.get_variable("v", [4])
    with tf.variable_scope("a", reuse=True):
        return tf.get_variable("v", [4], tf.int32)


def case_again_with_other_parts(tf: Any) -> Any:
    get(tf)
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        return get(tf, n=2)


def case_again_as_a_whole(tf: Any) -> Any:
    get(tf)
    with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
        return told(tf.get_variable("v", [5, 2]))


def case_a_whole_one_again_in_parts(tf: Any) -> Any:
    tf.get_variable("v", [5, 2])
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        return get(tf)


def case_a_partitioner_that_is_no_function(tf: Any) -> Any:
    return tf.get_variable("v", [4], partitioner=3)


def case_a_partitioner_of_one_part(tf: Any) -> Any:
    found = get(tf, n=1)
    return told(found), found.as_tensor().name, found.as_tensor().op.type


def partitioner_that_gives(*counts: Any) -> Callable[[Any], Any]:
    def case(tf: Any) -> Any:
        parts = list(counts)
        return told(tf.get_variable("v", [4, 6], partitioner=lambda **_: parts))

    return case


def case_a_partitioner_is_told_shape_and_dtype(tf: Any) -> Any:
    seen = []

    def partitioner(shape: Any, dtype: Any) -> list[int]:
        seen.append([type(shape).__name__, shape.as_list(), dtype.name])
        return [2]

    tf.get_variable("v", [4], tf.int64, partitioner=partitioner)
    return seen


def case_a_shape_that_is_not_known(tf: Any) -> Any:
    return get(tf, initializer=None, shape=[None, 2])


def case_assigned_as_a_whole(tf: Any) -> Any:
    found = get(tf)
    changes = found.assign(VALUE * 2), found.assign_add(VALUE), found.assign_sub(VALUE)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        seen = []
        for one in changes:
            session.run(one)
            seen.append(session.run(found.as_tensor()))
        return seen, [type(one).__name__ for one in changes]


def case_in_expressions(tf: Any) -> Any:
    found = get(tf)
    x = tf.constant([[1.0, 2.0, 3.0, 4.0, 5.0]])
    made = [
        tf.matmul(x, found),
        tf.reduce_sum(found),
        tf.nn.embedding_lookup(found, [4, 0], partition_strategy="div"),
        tf.nn.embedding_lookup(found, [4, 0]),
    ]
    return started(tf, made)


def case_with_a_dtype_that_it_does_not_have(tf: Any) -> Any:
    return tf.convert_to_tensor(get(tf), tf.int32)


def case_gradients_by_it_and_by_its_parts(tf: Any) -> Any:
    found = get(tf)
    loss = tf.reduce_sum(tf.square(found))
    return started(tf, tf.gradients(loss, list(found)))


def case_trained(tf: Any) -> Any:
    found = get(tf)
    loss = tf.reduce_sum(tf.square(found))
    step = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        session.run(step)
        names = [one.name for one in tf.global_variables()]
        return session.run(found.as_tensor()), names


def case_saved_in_parts_and_restored_as_a_whole(tf: Any) -> Any:
    where = f"{tempfile.mkdtemp()}/model"
    with tf.Graph().as_default(), tf.Session() as session:
        get(tf, "a/v")
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, where)
    with tf.Graph().as_default(), tf.Session() as session:
        whole = tf.get_variable("a/v", [5, 2])
        other = tf.train.Saver()
        other.restore(session, path)
        first = session.run(whole)
    with tf.Graph().as_default(), tf.Session() as session:
        cut = get(tf, "a/v", n=2, axis=1)
        tf.train.Saver([cut]).restore(session, path)
        return first, session.run(list(cut)), tf.train.list_variables(path)


def case_saved_under_a_name(tf: Any) -> Any:
    where = f"{tempfile.mkdtemp()}/model"
    with tf.Session() as session:
        cut = get(tf)
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver({"other": cut})
        path = saver.save(session, where)
        return tf.train.list_variables(path)


def case_parts_on_several_tasks(tf: Any) -> Any:
    servers = cluster(tf, ps=2, worker=1)
    setter = tf.train.replica_device_setter(2)
    with tf.device(setter):
        cut = get(tf, n=3)
    with tf.Session(servers["worker"][0].target) as session:
        session.run(tf.global_variables_initializer())
        return [one.device for one in cut], session.run(cut.as_tensor())


def case_the_initializer_of_a_part_is_told_which_it_is(tf: Any) -> Any:
    seen = []

    def initializer(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        seen.append([list(shape), partition_info.full_shape, partition_info.var_offset])
        return tf.ones(shape, dtype)

    get(tf, initializer=initializer, shape=[5, 2])
    return seen


def case_axis_sizes_and_bounds(tf: Any) -> Any:
    axis_size = tf.variable_axis_size_partitioner(8)
    bounds = tf.min_max_variable_partitioner(max_partitions=3, min_slice_size=8)
    return [
        told(tf.get_variable("a", [6, 2], partitioner=axis_size)),
        told(tf.get_variable("b", [6, 2], partitioner=bounds)),
        told(tf.get_variable("c", [1, 2], partitioner=bounds)),
    ]


def case_regularized_part_by_part(tf: Any) -> Any:
    get(tf, regularizer=tf.reduce_sum)
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    return started(tf, losses)


def case_iterated_and_measured(tf: Any) -> Any:
    found = get(tf)
    return len(found), [one.name for one in found], found.dtype.name


def case_fetched(tf: Any) -> Any:
    found = get(tf)
    return started(tf, [found.as_tensor(), {"parts": list(found)}])


CASES: dict[str, Callable[[Any], Any]] = {
    "a_partitioner_that_cuts_two_axes": partitioner_that_gives(2, 2),
    "a_partitioner_that_forgets_an_axis": partitioner_that_gives(2),
    "a_partitioner_of_no_parts": partitioner_that_gives(0, 1),
    "a_partitioner_of_a_fraction": partitioner_that_gives(1.5, 1),
    "a_partitioner_of_more_parts_than_rows": partitioner_that_gives(5, 1),
    "a_partitioner_along_the_second_axis": partitioner_that_gives(1, 4),
}
