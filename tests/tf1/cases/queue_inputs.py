"""Input from queues: producers, batches, queues that shuffle, pad, or fill ahead."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1.attempts import attempt
from tests.tf1.look import (
    Case,
    filled,
    initialized,
    makes_case,
    names_of,
    op_names_of,
    tf,
)

ROWS = np.arange(6, dtype=np.int32)


@makes_case
def to_the_end(make: Case) -> Any:
    """Return a case that tells all that comes until the error at the end."""
    fetch = make()
    result: list[Any] = []
    with initialized() as session:
        session.run(tf.local_variables_initializer())
        with filled(session):
            while not isinstance(result[-1] if result else None, str):
                result.append(attempt(session.run, fetch))
    return result


@makes_case
def sorted_rows(make: Case) -> Any:
    """Return a case that tells which rows come, in whatever order."""
    *batches, error = to_the_end(make)()
    return [len(batch) for batch in batches], sorted(np.concatenate(batches)), error


def produced() -> Any:
    return tf.train.input_producer(
        ROWS.reshape(3, 2), num_epochs=2, shuffle=False
    ).dequeue()


def names_of_files() -> Any:
    queue = tf.train.string_input_producer(["a", "b"], num_epochs=2, shuffle=False)
    return queue.dequeue()


def numbers() -> Any:
    return tf.train.range_input_producer(3, num_epochs=1, shuffle=False).dequeue()


def slices() -> Any:
    return tf.train.slice_input_producer(
        [ROWS, ROWS * 0.5], num_epochs=1, shuffle=False
    )


def one_by_one(**how: Any) -> Any:
    (row,) = tf.train.slice_input_producer([ROWS], num_epochs=1, shuffle=False)
    return tf.train.batch([row], 4, **how)


def batch_of_two() -> Any:
    return tf.train.batch(slices(), 2)


def batch_as_a_dict() -> Any:
    row, half = slices()
    return tf.train.batch({"row": row, "half": half}, 3)


def padded() -> Any:
    n = tf.train.range_input_producer(4, num_epochs=1, shuffle=False).dequeue()
    ones, words = tf.ones([n, 2]), tf.fill([n], "w")
    return tf.train.batch([ones, words], 2, dynamic_pad=True)


def shuffled() -> Any:
    (row,) = tf.train.slice_input_producer([ROWS], num_epochs=2)
    return tf.train.shuffle_batch([row], 5, 8, 3, allow_smaller_final_batch=True)


def shuffled_many() -> Any:
    rows = tf.train.limit_epochs(tf.constant(ROWS), 2)
    return tf.train.shuffle_batch(
        [rows], 4, 8, 3, enqueue_many=True, allow_smaller_final_batch=True
    )


def joined() -> Any:
    rows = [tf.train.limit_epochs(tf.constant(item), 2) for item in (1, 2)]
    return tf.train.batch_join([[row] for row in rows], 2)


def joined_in_random_order() -> Any:
    rows = [tf.train.limit_epochs(tf.constant(item), 2) for item in (1, 2)]
    return tf.train.shuffle_batch_join([[row] for row in rows], 2, 4, 1)


def case_names_in_the_graph() -> Any:
    row, half = tf.train.slice_input_producer([ROWS, ROWS * 0.5], num_epochs=1)
    result = tf.train.shuffle_batch([row, half], 2, 10, 5)
    graph = tf.get_default_graph()
    kinds = ("FIFOQueueV2", "RandomShuffleQueueV2", "CountUpTo", "ScalarSummary")
    return [
        names_of(result),
        [tensor.shape.as_list() for tensor in result],
        [
            get_operation.name
            for get_operation in graph.get_operations()
            if get_operation.type in kinds
        ],
        op_names_of(tf.local_variables()),
        names_of(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)),
        op_names_of(tf.get_collection(tf.GraphKeys.SUMMARIES)),
    ]


def case_names_of_what_is_done_to_a_queue() -> Any:
    def ops(queue: Any) -> list[Any]:
        return [
            *(queue.enqueue(1), queue.enqueue_many([[1]]), queue.dequeue().op),
            *(queue.dequeue_many(1).op, queue.dequeue_up_to(1).op, queue.size().op),
            *(queue.is_closed().op, queue.close()),
        ]

    with tf.name_scope("scope"):
        queue = tf.FIFOQueue(2, tf.int32, shapes=[[]])
        inside = ops(queue)
    return names_of((*inside, *ops(queue)))


def case_names_that_a_program_gives() -> Any:
    (row,) = tf.train.slice_input_producer([ROWS], name="source")
    result = tf.train.batch([row], 2, name="mine")
    return result.name, names_of(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS))


def case_a_batch_that_may_be_smaller_has_no_known_size() -> Any:
    return one_by_one(allow_smaller_final_batch=True).shape.as_list()


def steps_elements_kept_back() -> list[Any]:
    queue = tf.RandomShuffleQueue(10, 2, tf.int32, shapes=[[]])
    put = queue.enqueue_many(([7, 7, 7, 7],))
    return [
        *(put, queue.dequeue(), queue.size(), queue.dequeue_many(1), queue.close()),
        *(queue.dequeue_many(3), queue.dequeue_up_to(3), queue.dequeue()),
    ]


def case_an_order_is_random(session: Any) -> Any:
    queue = tf.RandomShuffleQueue(100, 0, tf.int64, shapes=[[]], seed=3)
    put, taken = queue.enqueue_many((np.arange(100),)), queue.dequeue_many(100)
    session.run(put)
    values = session.run(taken)
    return sorted(values) == list(range(100)), list(values) == list(range(100))


def steps_a_padding_queue() -> list[Any]:
    queue = tf.PaddingFIFOQueue(10, [tf.int32, tf.string], shapes=[[None, 2], []])
    puts = [
        queue.enqueue((np.full([size, 2], size), str(size))) for size in (1, 3, 0, 2)
    ]
    return [*puts, queue.dequeue_many(3), queue.dequeue()]


def steps_a_count() -> list[Any]:
    count = tf.Variable(0)
    up = count.count_up_to(2)
    return [count.initializer, up, up, count, up, tf.count_up_to(count, 9), count]


REFUSED: dict[str, Case] = {
    "no_epochs": lambda: tf.train.limit_epochs(tf.constant(1), 0),
    "rows_of_an_unknown_shape": lambda: tf.train.input_producer(
        tf.placeholder(tf.float32, [None, None])
    ),
    "no_texts": lambda: tf.train.string_input_producer([]),
    "no_slices": lambda: tf.train.slice_input_producer([]),
    "shapes_not_known": lambda: tf.train.batch([tf.placeholder(tf.float32, [None])], 2),
    "a_shuffle_larger_than_the_queue": lambda: tf.train.shuffle_batch(
        [tf.constant(1)], 2, 10, 10
    ),
    "sizes_of_a_fifo_queue": lambda: tf.FIFOQueue(2, tf.int32, shapes=[[None]]),
    "axes_of_a_padding_queue": lambda: tf.PaddingFIFOQueue(2, tf.int32, shapes=[None]),
    "a_count_of_floats": lambda: tf.count_up_to(tf.Variable(1.0), 2),
    "a_count_of_a_vector": lambda: tf.count_up_to(tf.Variable([1]), 2),
}


def fed(fetches: Any, count: int) -> list[Any]:
    """Return what runs fetch while threads fill the queue."""
    with tf.Session() as session, filled(session):
        return [session.run(fetches) for _ in range(count)]


def numbered() -> Any:
    return tf.train.range_input_producer(3, shuffle=False).dequeue()


def summaries() -> list[str]:
    kept = tf.get_collection(tf.GraphKeys.SUMMARIES)
    return [tensor.op.name for tensor in kept if "prefetch" in tensor.op.name]


def case_list() -> Any:
    n = numbered()
    queue = tf.contrib.slim.prefetch_queue.prefetch_queue([n, n * 2], capacity=4)
    first, second = queue.dequeue()
    shapes = [first.shape.as_list(), first.dtype.name, queue.name]
    return [shapes, summaries(), fed([first, second], 4)]


def case_dict() -> Any:
    n = numbered()
    make = tf.contrib.slim.prefetch_queue.prefetch_queue
    queue = make({"b": n, "a": tf.to_float(n)}, num_threads=1, name="p")
    return [queue.name, sorted(queue.names), fed(queue.dequeue(), 2)]


def case_sizes_that_are_unknown() -> Any:
    row = tf.range(numbered())
    make = tf.contrib.slim.prefetch_queue.prefetch_queue
    queue = make([row], dynamic_pad=True)
    return fed(queue.dequeue(), 3)


def case_sizes_that_are_unknown_without_padding() -> Any:
    x = tf.placeholder(tf.float32, [None])
    return tf.contrib.slim.prefetch_queue.prefetch_queue([x])


CASES: dict[str, Case] = {
    "rows_for_two_epochs": to_the_end(produced),
    "texts_for_two_epochs": to_the_end(names_of_files),
    "numbers_for_an_epoch": to_the_end(numbers),
    "slices_for_an_epoch": to_the_end(slices),
    "a_last_batch_that_is_not_full": to_the_end(one_by_one),
    "batches_of_two_components": to_the_end(batch_of_two),
    "batches_as_a_dict": to_the_end(batch_as_a_dict),
    "batches_that_are_padded": to_the_end(padded),
    "shuffled_batches": sorted_rows(shuffled),
    "shuffled_batches_of_rows": sorted_rows(shuffled_many),
    "batches_from_two_sources": sorted_rows(joined),
    "shuffled_batches_from_two_sources": sorted_rows(joined_in_random_order),
    **{f"refused_{name}": made for name, made in REFUSED.items()},
}
