"""Sparse tensors made dense, sums of rows of a table, and areas under curves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.look import makes_case

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)
PLACES = [[0, 0], [0, 1], [2, 0]]
SCORES = [0.9, 0.8, 0.4, 0.1, 0.55]
TRUE = [1, 0, 1, 0, 1]


def run(tf: Any, fetches: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetches, feeds)


def dense(*args: Any, **named: Any) -> Callable[[Any], Any]:
    """Return a case: what `tf.sparse_to_dense` makes of its arguments."""
    return lambda tf: run(tf, tf.sparse_to_dense(*args, **named))


@makes_case
def looked_up(tf: Any, combiner: str, weights: Any = None, **named: Any) -> Any:
    """Return a case: sums of the rows of a table, and the table's gradient."""
    table = tf.placeholder(tf.float32, [4, 3])
    ids = tf.SparseTensor(PLACES, tf.constant([1, 3, 0], tf.int64), [3, 2])
    tensor = None if weights is None else tf.SparseTensor(PLACES, weights, [3, 2])
    made = tf.nn.embedding_lookup_sparse(table, ids, tensor, combiner=combiner, **named)
    weighted = made * [[1.0, 2.0, 3.0]]
    slope = tf.convert_to_tensor(tf.gradients(weighted, table)[0])
    result = run(tf, [made, slope], {table: TABLE})
    return [item.round(4) for item in result]


@makes_case
def area(tf: Any, labels: Any = TRUE, scores: Any = SCORES, **named: Any) -> Any:
    """Return a case: the area under a curve after a batch, and after it comes again."""
    x = tf.placeholder(tf.float32, [len(scores)])
    value, update = tf.metrics.auc(labels, x, **named)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        first = session.run(update, {x: scores})
        second = session.run(update, {x: scores[::-1]})
        names = sorted(
            local_variable.op.name for local_variable in tf.local_variables()
        )
        last = session.run(value)
    return [[round(float(number), 4) for number in (first, second, last)], names]


def case_dense_of_a_sparse_tensor(tf: Any) -> Any:
    tensor = tf.SparseTensor(PLACES, [1.0, 2.0, 3.0], [3, 2])
    return run(tf, tf.sparse_tensor_to_dense(tensor, default_value=-1.0))


def case_combiner_that_is_unknown(tf: Any) -> Any:
    ids = tf.SparseTensor(PLACES, tf.constant([1, 3, 0], tf.int64), [3, 2])
    return tf.nn.embedding_lookup_sparse(TABLE, ids, None, combiner="max")


def case_classes_that_are_drawn(tf: Any) -> Any:
    logits = tf.placeholder(tf.float32, [None, 3])
    of_one = [[-1e9, 0.0, -1e9], [0.0, -1e9, -1e9]]
    made = tf.multinomial(logits, 4), tf.random.categorical(logits, 2, tf.int32)
    result = run(tf, made, {logits: of_one})
    return [[tensor.dtype.name, tensor.shape.as_list()] for tensor in made], result


CASES = {
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
