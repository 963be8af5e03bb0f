"""`tf.data`: what comes out of a dataset, in which order, and what ends it.

Expected values are written out, or computed with numpy or plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from kit import tf1 as tf
from tests.cases import for_each

Dataset = tf.data.Dataset


class Pair(NamedTuple):
    first: Any
    second: Any


def plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


def elements(dataset: Any, most: int = 100) -> list[Any]:
    """Return the elements until the end, or the first ones."""
    following = dataset.make_one_shot_iterator().get_next()
    result: list[Any] = []
    with tf.Session() as session:
        while len(result) < most:
            try:
                result.append(plain(session.run(following)))
            except tf.errors.OutOfRangeError:
                break
    return result


def numbers(*args: int) -> Any:
    return Dataset.range(*args)


CASES: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "range": (lambda: numbers(3), [0, 1, 2]),
    "range from": (lambda: numbers(2, 4), [2, 3]),
    "range down": (lambda: numbers(5, 0, -2), [5, 3, 1]),
    "slices": (lambda: Dataset.from_tensor_slices([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    "texts": (lambda: Dataset.from_tensor_slices(["a", "bc"]), [b"a", b"bc"]),
    "tensors": (lambda: Dataset.from_tensors([1, 2]), [[1, 2]]),
    "a pair": (
        lambda: Dataset.from_tensor_slices(([1, 2], [3.0, 4.0])),
        [(1, 3.0), (2, 4.0)],
    ),
    "a dict": (
        lambda: Dataset.from_tensor_slices({"b": [1, 2], "a": ([3, 4], [5, 6])}),
        [{"b": 1, "a": (3, 5)}, {"b": 2, "a": (4, 6)}],
    ),
    "a named tuple": (
        lambda: Dataset.from_tensor_slices(Pair([1], [2])).map(
            lambda item: item.first + item.second
        ),
        [3],
    ),
    "zip": (
        lambda: Dataset.zip((numbers(3), numbers(9).batch(2))),
        [(0, [0, 1]), (1, [2, 3]), (2, [4, 5])],
    ),
    "concatenate": (lambda: numbers(2).concatenate(numbers(5, 7)), [0, 1, 5, 6]),
    "repeat": (lambda: numbers(2).repeat(2), [0, 1, 0, 1]),
    "repeat 0": (lambda: numbers(2).repeat(0), []),
    "endless of nothing": (lambda: numbers(0).repeat(), []),
    "endless": (lambda: numbers(2).repeat().take(5), [0, 1, 0, 1, 0]),
    "take all": (lambda: numbers(3).take(-1), [0, 1, 2]),
    "skip": (lambda: numbers(4).skip(3), [3]),
    "skip all": (lambda: numbers(4).skip(-1), []),
    "shard": (lambda: numbers(7).shard(3, 1), [1, 4]),
    "batch": (lambda: numbers(5).batch(2), [[0, 1], [2, 3], [4]]),
    "whole batches": (
        lambda: numbers(5).batch(2, drop_remainder=True),
        [[0, 1], [2, 3]],
    ),
    "batch of pairs": (
        lambda: Dataset.zip((numbers(2), numbers(2, 4))).batch(2),
        [([0, 1], [2, 3])],
    ),
    "batch over an end": (
        lambda: numbers(3).repeat(2).batch(4),
        [[0, 1, 2, 0], [1, 2]],
    ),
    "map": (lambda: numbers(3).map(lambda x: x * x + 1), [1, 2, 5]),
    "map to a dict": (
        lambda: numbers(2).map(lambda x: {"x": x, "y": [x, x + 1]}),
        [{"x": 0, "y": [0, 1]}, {"x": 1, "y": [1, 2]}],
    ),
    "map of a pair": (
        lambda: Dataset.from_tensor_slices(([1, 2], [3, 5])).map(
            lambda x, y: (y, x - y), num_parallel_calls=4
        ),
        [(3, -2), (5, -3)],
    ),
    "map to itself": (lambda: numbers(2).map(lambda x: x), [0, 1]),
    "map to a constant": (lambda: numbers(2).map(lambda _: 7), [7, 7]),
    "map with a tensor from outside": (
        lambda: with_outside(tf.range(3) * 2),
        [[0, 2, 4], [1, 3, 5]],
    ),
    "map twice": (
        lambda: numbers(3).map(lambda x: x + 1).map(lambda x: x * 10),
        [10, 20, 30],
    ),
    "map of a Python function": (
        lambda: numbers(2).map(lambda x: tf.py_func(lambda v: v * 3, [x], tf.int64)),
        [0, 3],
    ),
    "filter": (lambda: numbers(6).filter(lambda x: tf.equal(x % 3, 1)), [1, 4]),
    "prefetch": (lambda: numbers(2).prefetch(1), [0, 1]),
    "cache": (lambda: numbers(2).cache().repeat(2), [0, 1, 0, 1]),
    "apply": (lambda: numbers(3).apply(lambda item: item.skip(1)), [1, 2]),
    "shuffled and repeated, mapped and batched": (
        lambda: (
            numbers(3)
            .apply(tf.data.experimental.shuffle_and_repeat(1, 2))
            .apply(tf.data.experimental.map_and_batch(lambda x: x + 1, 4))
            .prefetch(tf.data.experimental.AUTOTUNE)
        ),
        [[1, 2, 3, 1], [2, 3]],
    ),
    "padded": (
        lambda: ragged().padded_batch(2, [None]),
        [[[0], [1]], [[2, 2, 0], [3, 3, 3]]],  # the first row is padding only
    ),
    "padded to a size, with a value": (
        lambda: ragged().padded_batch(4, [4], padding_values=np.int64(-1)),
        [[[-1] * 4, [1, -1, -1, -1], [2, 2, -1, -1], [3, 3, 3, -1]]],
    ),
    "generator": (
        lambda: Dataset.from_generator(
            lambda: iter([(1, [2.0]), (3, [4.5])]), (tf.int32, tf.float32)
        ),
        [(1, [2.0]), (3, [4.5])],
    ),
    "generator with arguments, each pass anew": (
        lambda: Dataset.from_generator(range, tf.int64, [], args=(2,)).repeat(2),
        [0, 1, 0, 1],
    ),
}


def ragged() -> Any:
    return numbers(4).map(lambda n: tf.fill([tf.cast(n, tf.int32)], n))


def with_outside(tensor: Any) -> Any:
    return numbers(2).map(lambda x: tf.cast(x, tf.int32) + tensor)


@for_each("name", CASES)
def test_dataset_gives_these_elements_and_ends(name: str) -> None:
    make, expected = CASES[name]

    with tf.Graph().as_default():
        assert elements(make()) == expected


def test_each_run_takes_one_element_for_all_its_fetches(session: Any) -> None:
    following = numbers(4).make_one_shot_iterator().get_next()
    twice = following * 2

    result = [plain(tuple(session.run([following, twice, following]))) for _ in "ab"]

    assert result == [(0, 0, 0), (1, 2, 1)]


def test_two_get_next_take_two_elements_in_one_run(session: Any) -> None:
    iterator = numbers(4).make_one_shot_iterator()
    pair = [iterator.get_next(), iterator.get_next()]

    assert sorted(plain(tuple(session.run(pair)))) == [0, 1]


def test_initializer_begins_anew_with_what_is_fed(session: Any) -> None:
    rows, size = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int64, [])
    iterator = (
        Dataset.from_tensor_slices(rows).batch(size).make_initializable_iterator()
    )
    following = iterator.get_next()

    session.run(iterator.initializer, {rows: [1.0, 2.0, 3.0], size: 2})
    first = plain(session.run(following))
    session.run(iterator.initializer, {rows: [7.0], size: 5})
    second = plain(session.run(following))
    with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
        session.run(following)

    assert (first, second) == ([1.0, 2.0], [7.0])


def test_iterator_without_its_initializer_is_refused() -> None:
    following = numbers(2).make_initializable_iterator().get_next()

    with (
        tf.Session() as session,
        pytest.raises(tf.errors.FailedPreconditionError, match="not been initialized"),
    ):
        session.run(following)


def test_variable_in_a_function_is_read_when_the_iterator_begins(session: Any) -> None:
    factor = tf.Variable(3, dtype=tf.int64)
    iterator = numbers(3).map(lambda x: x * factor).make_initializable_iterator()
    following = iterator.get_next()

    session.run(factor.initializer)
    session.run(iterator.initializer)

    assert [int(session.run(following)) for _ in range(3)] == [0, 3, 6]


def test_iterator_of_a_structure_takes_one_dataset_after_the_other(
    session: Any,
) -> None:
    training, testing = numbers(2), numbers(10, 12)
    iterator = tf.data.Iterator.from_structure(
        training.output_types, training.output_shapes
    )
    begin = [iterator.make_initializer(item) for item in (training, testing)]
    following, result = iterator.get_next(), []

    for op in begin:
        session.run(op)
        result += [int(session.run(following)) for _ in range(2)]

    assert result == [0, 1, 10, 11]
    with pytest.raises(TypeError, match="output types"):
        iterator.make_initializer(Dataset.from_tensors(1.0))


def test_handle_that_is_fed_chooses_the_iterator(session: Any) -> None:
    training, testing = numbers(2).repeat(), numbers(10, 12)
    handle = tf.placeholder(tf.string, [])
    chosen = tf.data.Iterator.from_string_handle(
        handle, training.output_types, training.output_shapes
    )
    following = chosen.get_next() * 1
    first, other = (
        training.make_one_shot_iterator(),
        testing.make_initializable_iterator(),
    )

    session.run(other.initializer)
    handles = session.run([first.string_handle(), other.string_handle()])
    result = [int(session.run(following, {handle: handles[i]})) for i in (0, 1, 1, 0)]
    with pytest.raises(tf.errors.InvalidArgumentError, match="no iterator"):
        session.run(following, {handle: "another"})

    assert result == [0, 10, 11, 1]


def shuffled(
    seed: int | None, size: int = 20, passes: int = 1, **more: Any
) -> list[Any]:
    with tf.Graph().as_default():
        return elements(numbers(20).shuffle(size, seed, **more).repeat(passes))


def test_shuffle_gives_all_elements_in_another_order_that_its_seed_repeats() -> None:
    result = shuffled(7)

    assert sorted(result) == [*range(20)]
    assert result != [*range(20)]
    assert result == shuffled(7)
    assert result != shuffled(8)


def test_seed_of_the_graph_repeats_a_shuffle() -> None:
    orders = []
    for _ in range(2):
        with tf.Graph().as_default():
            tf.set_random_seed(5)
            orders.append(elements(numbers(20).shuffle(20)))

    assert orders[0] == orders[1]


def test_shuffle_draws_no_element_before_its_buffer_can_hold_it() -> None:
    result = shuffled(3, size=4)

    assert all(number < index + 4 for index, number in enumerate(result))


def test_repeat_shuffles_anew_unless_that_is_switched_off() -> None:
    anew = shuffled(7, passes=2)
    again = shuffled(7, passes=2, reshuffle_each_iteration=False)

    assert anew[:20] != anew[20:]
    assert again[:20] == again[20:]


def test_cache_computes_an_element_once() -> None:
    calls: list[int] = []

    def counted_value(value: Any) -> Any:
        calls.append(int(value))
        return value

    counted = numbers(3).map(lambda x: tf.py_func(counted_value, [x], tf.int64))

    assert elements(counted.cache().repeat(2)) == [0, 1, 2, 0, 1, 2]
    assert calls == [0, 1, 2]


def test_dtypes_and_shapes_are_known_before_a_run() -> None:
    dataset = Dataset.from_tensor_slices((np.zeros((4, 2), np.float32), ["a"] * 4))

    assert dataset.output_types == (tf.float32, tf.string)
    assert [output_shape.as_list() for output_shape in dataset.output_shapes] == [
        [2],
        [],
    ]
    batch = dataset.batch(3).output_shapes[0]
    whole = dataset.batch(3, drop_remainder=True).output_shapes[0]
    assert (batch.as_list(), whole.as_list()) == ([None, 2], [3, 2])
    following = dataset.make_one_shot_iterator().get_next()
    assert [tensor.shape.as_list() for tensor in following] == [[2], []]
    assert dataset.output_classes == (tf.Tensor, tf.Tensor)


def test_element_that_fails_is_lost_and_the_others_come(session: Any) -> None:
    def odd(value: Any) -> Any:
        if value == 1:
            raise ValueError("no one")
        return value

    dataset = (
        numbers(4).map(lambda x: tf.py_func(odd, [x], tf.int64)).repeat(1).batch(1)
    )
    following = dataset.make_one_shot_iterator().get_next()

    before = plain(session.run(following))
    with pytest.raises(tf.errors.InvalidArgumentError, match="no one"):
        session.run(following)
    after = [plain(session.run(following)) for _ in range(2)]

    assert (before, after) == ([0], [[2], [3]])


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a placeholder in a one-shot iterator": (
        lambda: Dataset.from_tensors(
            tf.placeholder(tf.float32, [2])
        ).make_one_shot_iterator(),
        *(ValueError, "Cannot capture a placeholder"),
    ),
    "a variable in a one-shot iterator": (
        lambda: Dataset.from_tensors(tf.Variable(1.0)).make_one_shot_iterator(),
        *(ValueError, "Cannot capture a stateful node"),
    ),
    "a variable made in a function": (
        lambda: numbers(2).map(lambda x: x + tf.Variable(1, dtype=tf.int64)),
        *(ValueError, "make it before"),
    ),
    "slices of unequal lengths": (
        lambda: Dataset.from_tensor_slices(([1, 2], [3])),
        *(ValueError, "not compatible|must be equal|[Dd]imension"),
    ),
    "slices of a number": (
        lambda: Dataset.from_tensor_slices(1),
        ValueError,
        "no axis",
    ),
    "a predicate of numbers": (
        lambda: numbers(2).filter(lambda x: x),
        *(ValueError, "scalar boolean"),
    ),
    "a function without a result": (
        lambda: numbers(2).map(lambda x: None),
        *(TypeError, "returned nothing"),
    ),
    "other dtypes": (
        lambda: numbers(2).concatenate(Dataset.from_tensors(1.0)),
        *(TypeError, "different types"),
    ),
    "a shard beyond the last": (lambda: numbers(2).shard(2, 2), ValueError, "index"),
    "a list to zip": (lambda: Dataset.zip([numbers(2)]), TypeError, "structure"),
}


@for_each("name", REFUSED)
def test_dataset_is_refused_when_the_line_is_written(name: str) -> None:
    make, kind, words = REFUSED[name]

    with tf.Graph().as_default(), pytest.raises(kind, match=words):
        make()


FAILING: dict[str, tuple[Callable[[], Any], str]] = {
    "a batch of nothing": (lambda: numbers(2).batch(0), "greater than zero"),
    "rows of different shapes": (lambda: ragged().batch(2), "different shapes"),
    "a size that is too small": (
        lambda: ragged().padded_batch(4, [2]),
        "smaller size",
    ),
    "a generator of another dtype": (
        lambda: Dataset.from_generator(lambda: iter(["a"]), tf.float32),
        "could not be converted",
    ),
    "a generator of another shape": (
        lambda: Dataset.from_generator(lambda: iter([[1]]), tf.int32, [2]),
        "element of shape",
    ),
    "a generator of another structure": (
        lambda: Dataset.from_generator(lambda: iter([1]), (tf.int32, tf.int32)),
        "expected structure",
    ),
}


@for_each("name", FAILING)
def test_run_says_what_is_wrong_with_an_element(name: str) -> None:
    make, words = FAILING[name]

    with (
        tf.Graph().as_default(),
        pytest.raises(tf.errors.InvalidArgumentError, match=words),
    ):
        elements(make())


@pytest.mark.slow
def test_iterator_lives_on_the_task_that_its_device_scope_names() -> None:
    server = tf.train.Server.create_local_server()
    name = f"/job:{server.server_def.job_name}/task:0"
    with tf.device(name):
        iterator = numbers(6).map(lambda x: x + 1).batch(2).make_one_shot_iterator()
    following, metadata = iterator.get_next(), tf.RunMetadata()

    with tf.Session(server.target) as session:
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        taken = plain(session.run(following, options=options, run_metadata=metadata))

    places = {
        node.node_name: device.device
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
    }
    assert taken == [1, 2]
    assert name.replace("/task", "/replica:0/task") in places[following.op.name]
