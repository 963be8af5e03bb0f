"""Which ps task gets the next variable, and how a variable is cut in parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.tf1.look import makes_case


def greedy(tf: Any, tasks: int, shapes: list[list[int]]) -> Any:
    training = tf.contrib.training
    strategy = training.GreedyLoadBalancingStrategy(tasks, training.byte_size_load_fn)
    setter = tf.train.replica_device_setter(ps_tasks=tasks, ps_strategy=strategy)
    with tf.device(setter):
        made = [tf.Variable(tf.zeros(shape)) for shape in shapes]
    return [tensor.device for tensor in made]


def case_greedy_counts_bytes_of_the_dtype(tf: Any) -> Any:
    training = tf.contrib.training
    strategy = training.GreedyLoadBalancingStrategy(2, training.byte_size_load_fn)
    setter = tf.train.replica_device_setter(ps_tasks=2, ps_strategy=strategy)
    with tf.device(setter):
        made = [
            tf.Variable(tf.zeros([10], dtype))
            for dtype in (tf.float64, tf.float32, tf.int32, tf.int64, tf.float16)
        ]
    return [tensor.device for tensor in made]


def case_greedy_takes_a_load_of_ones_own(tf: Any) -> Any:
    loads = iter([3.0, 1.0, 1.0, 1.0, 5.0])
    strategy = tf.contrib.training.GreedyLoadBalancingStrategy(
        2, lambda op: next(loads)
    )
    op = tf.no_op()
    return [int(strategy(op)) for _ in range(5)]


def bytes_of(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda tf: int(tf.contrib.training.byte_size_load_fn(make(tf).op))


def by_chance(tf: Any, **options: Any) -> Any:
    strategy = tf.contrib.training.RandomStrategy(5, **options)
    return [int(strategy(tf.no_op(name))) for name in ("w", "b", "layer/w", "layer/b")]


def parts(tf: Any, partitioner: Any, shape: list[int], dtype: Any = None) -> Any:
    with tf.variable_scope("layer", partitioner=partitioner):
        variable = tf.get_variable("w", shape, dtype or tf.float32)
    return [[tensor.name, tensor.shape.as_list()] for tensor in variable]


@makes_case
def fixed(tf: Any, rows: int, count: int, axis: int = 0) -> Any:
    shape = [rows, 2] if axis == 0 else [2, rows]
    return parts(tf, tf.fixed_size_partitioner(count, axis), shape)


GREEDY = [[100], [10], [20], [80], [1], [1]]

CASES: dict[str, Callable[[Any], Any]] = {
    "greedy_gives_to_the_least_loaded": lambda tf: greedy(tf, 2, GREEDY),
    "greedy_over_three_tasks": lambda tf: greedy(tf, 3, GREEDY),
    "greedy_over_one_task": lambda tf: greedy(tf, 1, GREEDY),
    "greedy_counts_matrices": lambda tf: greedy(tf, 2, [[3, 4], [12], [1], [5, 5]]),
    "byte_size_of_a_vector": bytes_of(lambda tf: tf.Variable(tf.zeros([10]))),
    "byte_size_of_a_scalar": bytes_of(lambda tf: tf.Variable(1.0)),
    "byte_size_of_float64": bytes_of(lambda tf: tf.zeros([2, 3], tf.float64)),
    "byte_size_of_an_unknown_shape": bytes_of(lambda tf: tf.placeholder(tf.float32)),
    "byte_size_of_several_outputs": bytes_of(lambda tf: tf.split(tf.zeros([4]), 2)[0]),
    "random_strategy_goes_by_the_name": lambda tf: by_chance(tf),
    "random_strategy_goes_by_the_seed": lambda tf: by_chance(tf, seed=7),
    "seven_rows_in_three": fixed(7, 3),
    "ten_rows_in_four": fixed(10, 4),
    "two_rows_in_three": fixed(2, 3),
    "six_columns_in_two": fixed(6, 2, axis=1),
    "one_part": fixed(4, 1),
    "parts_of_at_least_256_kib": lambda tf: parts(
        tf, tf.min_max_variable_partitioner(8), [20, 4]
    ),
    "parts_of_at_most_a_size": lambda tf: parts(
        tf, tf.variable_axis_size_partitioner(100), [20, 4]
    ),
    "parts_of_at_most_a_size_and_number": lambda tf: parts(
        tf, tf.variable_axis_size_partitioner(100, max_shards=2), [20, 4]
    ),
}
