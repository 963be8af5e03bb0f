"""Accumulators of sparse gradients: rows that meet, are averaged, and are refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.attempts import attempt, attempts, parts_of, steps
from tests.tf1.look import Case, kind_of, static, tf


def pairs(**named: Any) -> Any:
    return tf.SparseConditionalAccumulator(tf.float32, shape=[None, 2], **named)


def rows(*values: float) -> Any:
    """Return a row of two equal numbers for each value."""
    return np.array([[value, value] for value in values], np.float32)


def steps_each_row_has_its_own_mean() -> list[Any]:
    a = pairs()
    return [
        *(a.apply_grad([0, 2], rows(1.0, 2.0)), a.apply_grad([2], rows(6.0))),
        *(a.num_accumulated(), a.take_grad(2), a.num_accumulated()),
    ]


def steps_rows_are_summed_where_asked_for() -> list[Any]:
    a = pairs(reduction_type="SUM")
    puts = [a.apply_grad([0, 2], rows(1.0, 2.0)), a.apply_grad([2], rows(6.0))]
    return [*puts, a.take_grad(1)]


def steps_three_that_overlap() -> list[Any]:
    a = pairs()
    return [
        a.apply_grad([0, 1], rows(1.0, 10.0)),
        a.apply_grad([1, 3], rows(20.0, 5.0)),
        a.apply_grad([0, 1, 3], rows(3.0, 60.0, 7.0)),
        a.take_grad(1),
    ]


def steps_unsorted_rows() -> list[Any]:
    a = pairs()
    puts = [a.apply_grad([3, 1], rows(1.0, 2.0)), a.apply_grad([1, 3], rows(3.0, 4.0))]
    return [*puts, a.take_grad(2)]


def steps_repeated_rows() -> list[Any]:
    a = pairs()
    puts = [a.apply_grad([1, 1], rows(1.0, 2.0)), a.apply_grad([1], rows(3.0))]
    return [*puts, a.take_grad(2)]


def steps_stale_gradients_are_dropped() -> list[Any]:
    a = pairs()
    return [
        *(a.apply_grad([0], rows(1.0), local_step=0), a.take_grad(1)),
        *(a.apply_grad([0], rows(5.0), local_step=0), a.num_accumulated()),
        *(a.apply_grad([1], rows(5.0), local_step=1), a.take_grad(1)),
        *(a.set_global_step(9), a.apply_grad([1], rows(5.0), local_step=8)),
        *(a.num_accumulated(), a.apply_grad([1], rows(5.0), local_step=9)),
        a.num_accumulated(),
    ]


def steps_gradients_that_tell_a_shape() -> list[Any]:
    a = tf.SparseConditionalAccumulator(tf.float32)
    puts = [a.apply_grad([0], rows(1.0), [4, 2]), a.apply_grad([2], rows(3.0), [4, 2])]
    return [*puts, a.take_grad(1)]


def steps_rows_that_are_numbers() -> list[Any]:
    a = tf.SparseConditionalAccumulator(tf.float32, shape=[None])
    puts = [a.apply_grad([0, 4], [1.0, 2.0]), a.apply_grad([4], [4.0])]
    return [*puts, a.take_grad(2)]


def steps_gradients_as_slices() -> list[Any]:
    a = pairs()
    first = tf.IndexedSlices(tf.constant(rows(1.0, 2.0)), tf.constant([0, 3], tf.int64))
    two = tf.IndexedSlices(tf.constant(rows(4.0)), tf.constant([3], tf.int64))
    puts = [a.apply_indexed_slices_grad(each) for each in (first, two)]
    return [*puts, a.num_accumulated(), a.take_indexed_slices_grad(2)]


def steps_gradients_as_slices_with_a_dense_shape() -> list[Any]:
    a = tf.SparseConditionalAccumulator(tf.float32, shape=[4, 2])
    slices = tf.IndexedSlices(
        *(tf.constant(rows(1.0)), tf.constant([3], tf.int64)),
        dense_shape=tf.constant([4, 2], tf.int64),
    )
    return [a.apply_indexed_slices_grad(slices, 0), a.take_indexed_slices_grad(1)]


def steps_indices_out_of_the_shape() -> list[Any]:
    a = tf.SparseConditionalAccumulator(tf.float32, shape=[4, 2])
    return [
        *(a.apply_grad([4], rows(1.0)), a.apply_grad([-1], rows(1.0))),
        *(a.apply_grad([3], rows(1.0)), a.apply_grad([3], rows(1.0), [4, 2])),
        *(a.num_accumulated(), a.take_grad(1)),
    ]


def case_rows_of_another_width(session: Any) -> Any:
    a = pairs()
    indices, values = tf.placeholder(tf.int64), tf.placeholder(tf.float32)
    put = a.apply_grad(indices, values)
    result = []
    for where, what in [
        *(([0], [[1.0, 2.0, 3.0]]), ([0, 1], [[1.0, 2.0]])),
        *(([0], [1.0, 2.0]), ([[0]], [[1.0, 2.0]]), ([], np.zeros((0, 2)))),
        *(([2], [[1.0, 2.0]]), ([3], [[1.0, 2.0]])),
    ]:
        feeds = {indices: where, values: what}
        result.append(attempt(session.run, put, feeds))
    return [*result, *attempts(session, [a.num_accumulated()])]


def case_rows_of_another_width_than_the_first(session: Any) -> Any:
    a = tf.SparseConditionalAccumulator(tf.float32)
    values = tf.placeholder(tf.float32)
    put = a.apply_grad([0], values)
    result = [attempt(session.run, put, {values: [[1.0, 2.0]]})]
    result += [attempt(session.run, put, {values: [[1.0, 2.0, 3.0]]})]
    return [*result, session.run(a.num_accumulated())]


def taken_with(count: int) -> Case:
    def make() -> list[Any]:
        a = pairs()
        return [a.apply_grad([1], rows(1.0)), a.take_grad(count)]

    return steps(make)


def steps_a_gradient_without_rows() -> list[Any]:
    a = pairs()
    none = np.zeros(0, np.int64)
    puts = [a.apply_grad(none, np.zeros((0, 2), np.float32))]
    return [*puts, a.num_accumulated(), a.apply_grad([1], rows(4.0)), a.take_grad(1)]


def case_what_is_known_when_built() -> Any:
    a = tf.SparseConditionalAccumulator(tf.float32, shape=[5, 2], name="acc")
    put, take = a.apply_grad([1], rows(1.0)), a.take_grad(1)
    slices = a.take_indexed_slices_grad(1)
    tensors = [*take, slices.values, slices.indices, slices.dense_shape]
    return [
        *(a.name, a.dtype.name, a.accumulator_ref.name, put.type, type(take).__name__),
        *([static(tensor) for tensor in tensors], list(take._fields)),
        *(a.num_accumulated().name, a.set_global_step(1).name),
    ]


def case_one_shared_name_is_one_accumulator(session: Any) -> Any:
    first = pairs(shared_name="common", name="one")
    two = pairs(shared_name="common", name="two")
    session.run(first.apply_grad([1], rows(3.0)))
    session.run(two.apply_grad([2], rows(5.0)))
    return parts_of(session.run(two.take_grad(2)))


MADE: dict[str, Case] = {
    "an_unknown_reduction": lambda: pairs(reduction_type="MEDIAN"),
    "values_of_another_dtype": lambda: pairs().apply_grad(
        [0], tf.constant([[1.0, 2.0]], tf.float64)
    ),
    "indices_of_float": lambda: pairs().apply_grad([0.5], rows(1.0)),
    "indices_of_32_bits": lambda: pairs().apply_grad(
        tf.constant([0], tf.int32), rows(1.0)
    ),
    "no_slices": lambda: pairs().apply_indexed_slices_grad([[1.0, 2.0]]),
    "a_shape_of_float": lambda: pairs().apply_grad([0], rows(1.0), [4.5, 2.0]),
    "an_unknown_dtype": lambda: tf.SparseConditionalAccumulator("moon"),
    "a_vector_as_count": lambda: pairs().take_grad([1]),
}


CASES: dict[str, Case] = {
    **{f"taken_{n}_at_least".replace("-", "minus_"): taken_with(n) for n in (-1, 0, 1)},
    **{f"made_of_{name}": kind_of(make) for name, make in MADE.items()},
}
