"""Rows by number: segments, scatters, gathers, sparse tensors, areas under curves."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.look import Case, initialized, makes_case, run, static, tf

X = np.array([[1, 2], [3, 4], [0, 6], [7, -8]], np.float32)


def with_gradient(x: Any, y: Any) -> Any:
    weight = tf.cast(tf.reshape(tf.range(tf.size(y)), tf.shape(y)), y.dtype) + 1
    (slope,) = tf.gradients(y * weight, x)
    return [static(y)["shape"], run([y, tf.convert_to_tensor(slope)])]


@makes_case
def reduced(name: str, *more: Any, x: Any = X) -> Any:
    tensor = tf.constant(x)
    return with_gradient(tensor, getattr(tf, name)(tensor, *more))


@makes_case
def whole(name: str, *more: Any) -> Any:
    return run(getattr(tf, name)(X.astype(np.int32), *more))


@makes_case
def changed(name: str, *more: Any, x: Any = X) -> Any:
    variable = tf.Variable(x)
    made = getattr(tf, name)(variable, *more)
    with initialized() as session:
        return [static(made), session.run(made), session.run(variable)]


@makes_case
def copied(name: str) -> Any:
    x, updates = tf.constant(X), tf.constant([[5.0, 5.0], [6.0, 6.0]])
    y = getattr(tf, name)(x, [[1], [3]], updates)
    slopes = tf.gradients(y * X, [x, updates])
    return [static(y), run([y, *slopes])]


@makes_case
def gathered(axis: Any, batch_dims: int) -> Any:
    x = tf.constant(np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5))
    rows = [[[0, 2], [1, 1], [2, 0]], [[1, 0], [0, 0], [2, 2]]]
    y = tf.gather(x, rows, axis=axis, batch_dims=batch_dims)
    return with_gradient(x, y)


def case_rows_of_one_batch_each() -> Any:
    x = tf.constant(X)
    return with_gradient(x, tf.batch_gather(x, [[1], [0], [0], [1]]))


def case_rows_at_coordinates_have_a_gradient_by_rows() -> Any:
    x = tf.constant(X)
    (slope,) = tf.gradients(tf.gather_nd(x, [[1], [3], [1]]), x)
    return run([slope.values, slope.indices, slope.dense_shape])


def insertions(side: str, rows: Any, values: Any) -> Case:
    return lambda: run(tf.searchsorted(rows, values, side=side))


def repeated(repeats: Any, axis: Any) -> Case:
    return lambda: run(tf.repeat(X, repeats, axis))


@makes_case
def part(key: Any, value: Any) -> Any:
    """Set a part of a variable, in both ways."""
    first, second = tf.Variable(X), tf.Variable(X)
    made = [first[key].assign(value), tf.assign(second[key], value)]
    with initialized() as session:
        return session.run(made)


def case_a_mask_in_brackets() -> Any:
    x = tf.constant(X)
    return run([x[x > 2], x[np.array([True, False, False, True])]])


def case_a_mask_made_of_the_first_axis() -> Any:
    x = tf.constant(X)
    return run(x[tf.greater(x[:, 0], 1.0)])


NAMES = ("sum", "mean", "prod", "min", "max")
TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)
PLACES = [[0, 0], [0, 1], [2, 0]]
SCORES = [0.9, 0.8, 0.4, 0.1, 0.55]
TRUE = [1, 0, 1, 0, 1]


def dense(*args: Any, **named: Any) -> Case:
    """Return a case: what `tf.sparse_to_dense` makes of its arguments."""
    return lambda: run(tf.sparse_to_dense(*args, **named))


@makes_case
def looked_up(combiner: str, weights: Any = None, **named: Any) -> Any:
    """Return a case: sums of the rows of a table, and the table's gradient."""
    table = tf.placeholder(tf.float32, [4, 3])
    ids = tf.SparseTensor(PLACES, tf.constant([1, 3, 0], tf.int64), [3, 2])
    tensor = None if weights is None else tf.SparseTensor(PLACES, weights, [3, 2])
    made = tf.nn.embedding_lookup_sparse(table, ids, tensor, combiner=combiner, **named)
    weighted = made * [[1.0, 2.0, 3.0]]
    slope = tf.convert_to_tensor(tf.gradients(weighted, table)[0])
    result = run([made, slope], {table: TABLE})
    return [item.round(4) for item in result]


@makes_case
def area(session: Any, labels: Any = TRUE, scores: Any = SCORES, **named: Any) -> Any:
    """Return a case: the area under a curve after a batch, and after it comes again."""
    x = tf.placeholder(tf.float32, [len(scores)])
    value, update = tf.metrics.auc(labels, x, **named)
    session.run(tf.local_variables_initializer())
    first = session.run(update, {x: scores})
    second = session.run(update, {x: scores[::-1]})
    names = sorted(local_variable.op.name for local_variable in tf.local_variables())
    last = session.run(value)
    return [[round(float(number), 4) for number in (first, second, last)], names]


def case_dense_of_a_sparse_tensor() -> Any:
    tensor = tf.SparseTensor(PLACES, [1.0, 2.0, 3.0], [3, 2])
    return run(tf.sparse_tensor_to_dense(tensor, default_value=-1.0))


def case_combiner_that_is_unknown() -> Any:
    ids = tf.SparseTensor(PLACES, tf.constant([1, 3, 0], tf.int64), [3, 2])
    return tf.nn.embedding_lookup_sparse(TABLE, ids, None, combiner="max")


def case_classes_that_are_drawn() -> Any:
    logits = tf.placeholder(tf.float32, [None, 3])
    of_one = [[-1e9, 0.0, -1e9], [0.0, -1e9, -1e9]]
    made = tf.multinomial(logits, 4), tf.random.categorical(logits, 2, tf.int32)
    result = run(made, {logits: of_one})
    return [[tensor.dtype.name, tensor.shape.as_list()] for tensor in made], result


CASES: dict[str, Case] = {
    **{
        f"ascending_{name}": reduced(f"segment_{name}", [0, 0, 2, 2])
        for name in NAMES
        if name != "prod"  # it has no gradient in the original
    },
    "ascending_products": whole("segment_prod", [0, 0, 2, 2]),
    **{f"ascending_whole_{n}": whole(f"segment_{n}", [0, 0, 2, 2]) for n in NAMES},
    **{
        f"unsorted_{name}": reduced(f"unsorted_segment_{name}", [2, 0, -1, 2], 4)
        for name in (*NAMES, "sqrt_n")
    },
    **{
        f"unsorted_whole_{name}": whole(f"unsorted_segment_{name}", [2, 0, 2, 2], 4)
        for name in ("sum", "prod", "min", "max")
    },
    **{
        f"gathered_{name}": reduced(f"sparse_segment_{name}", [3, 0, 1], [0, 0, 2])
        for name in ("sum", "mean", "sqrt_n")
    },
    "numbers_that_descend": reduced("segment_sum", [0, 2, 1, 2]),
    "numbers_below_nothing": reduced("segment_sum", [-1, 0, 1, 2]),
    "numbers_that_are_too_few": whole("segment_sum", [0, 1]),
    "numbers_beyond_the_count": reduced("unsorted_segment_sum", [0, 1, 2, 3], 2),
    "numbers_of_elements": reduced("unsorted_segment_sum", [[0, 1]] * 4, 3),
    "gathered_beyond_the_rows": reduced("sparse_segment_sum", [4], [0]),
    "multiplied_rows": changed("scatter_mul", [1, 1], [[2.0, 2.0], [3.0, 3.0]]),
    "divided_rows": changed("scatter_div", [1], [[2.0, 4.0]]),
    "least_rows": changed("scatter_min", [0, 3], [[0.0, 9.0], [0.0, 0.0]]),
    "greatest_rows": changed("scatter_max", [0, 3], [[0.0, 9.0], [0.0, 0.0]]),
    "multiplied_rows_by_a_number": changed("scatter_mul", [1, 2], 3.0),
    "added_at_coordinates": changed("scatter_nd_add", [[1, 1], [1, 1]], [5.0, 6.0]),
    "subtracted_at_coordinates": changed("scatter_nd_sub", [[1], [0]], X[:2]),
    "set_at_coordinates": changed("scatter_nd_update", [[3, 0], [0, 1]], [5.0, 6.0]),
    "set_at_coordinates_beyond": changed("scatter_nd_update", [[4, 0]], [5.0]),
    "set_at_coordinates_in_another_shape": changed(
        "scatter_nd_update", [[3, 0]], [5.0, 6.0]
    ),
    "copy_with_sums": copied("tensor_scatter_add"),
    "copy_with_differences": copied("tensor_scatter_sub"),
    "copy_with_others": copied("tensor_scatter_update"),
    "batches_along_the_first_axis": gathered(None, 1),
    "batches_along_their_own_axis": gathered(1, 1),
    "batches_along_a_later_axis": gathered(3, 1),
    "batches_of_two_axes": gathered(2, 2),
    "batches_of_two_axes_along_the_last": gathered(-1, 2),
    "batches_of_too_many_axes": gathered(1, 2),
    "before_equal_ones": insertions("left", [[1, 3, 3], [2, 4, 6]], [[3, 0], [9, 4]]),
    "after_equal_ones": insertions("right", [[1, 3, 3], [2, 4, 6]], [[3, 0], [9, 4]]),
    "before_equal_ones_of_a_row": insertions("left", [1.0, 2.0], [0.5, 2.0, 2.5]),
    "beside_equal_ones": insertions("beside", [1, 2], [1]),
    "a_row_that_is_set": part(1, [8.0, 9.0]),
    "a_column_that_is_set": part((slice(None), 1), [5.0, 6.0, 7.0, 8.0]),
    "an_element_that_is_set": part((2, 1), 9.0),
    "rows_that_are_set_backwards": part(slice(None, None, -2), [[1.0, 2.0]] * 2),
    "rows_that_are_too_few": part(slice(0, 3), [[1.0, 2.0]]),
    "rows_beyond_the_last": part(9, [1.0, 2.0]),
    "each_row_twice": repeated(2, 0),
    "each_row_as_often_as_it_says": repeated([0, 1, 2, 3], 0),
    "each_column_twice": repeated([1, 2], 1),
    "each_element_twice": repeated(2, None),
    "a_part_of_what_is_no_variable": lambda: tf.constant(X)[1:].assign(1.0),
    "dense_of_one_place": dense(1, [3], 7.0),
    "dense_of_a_vector": dense([0, 2], [4], [5, 6], 9),
    "dense_of_rows": dense([[0, 1], [1, 2]], [2, 3], [5, 6], -1),
    "dense_of_one_value": dense([[0, 1], [1, 2]], [2, 3], 5),
    "dense_of_places_that_come_twice": dense([1, 1], [4], [5, 6]),
    "dense_of_places_without_order": dense([2, 1], [4], [5, 6]),
    "dense_of_places_that_are_not_checked": dense(
        [2, 1], [4], [5, 6], validate_indices=False
    ),
    "dense_of_a_place_outside": dense([4], [4], [5]),
    **{f"rows_{item}": looked_up(item) for item in ("sum", "mean", "sqrtn")},
    **{
        f"rows_{item}_with_weights": looked_up(item, [1.0, 2.0, 3.0])
        for item in ("sum", "mean", "sqrtn")
    },
    "rows_that_are_shortened": looked_up("sum", max_norm=2.0),
    "area": area(),
    "area_of_precision": area(curve="PR", summation_method="minoring"),
    "area_of_few_limits": area(num_thresholds=5, summation_method="majoring"),
    "area_with_weights": area(weights=[1.0, 0.5, 2.0, 1.0, 0.0]),
    "area_under_another_curve": area(curve="ABC"),
    "area_by_another_method": area(summation_method="ABC"),
    "area_beyond_one": area(scores=[1.5, 0.0, 0.0, 0.0, 0.0]),
    "area_of_other_labels": area(labels=[1, 0]),
}
