"""Queues: what goes in and comes out, waits, is refused; input from queues."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from tests.tf1.attempts import attempt
from tests.tf1.look import (
    Case,
    filled,
    initialized,
    kind_of,
    makes_case,
    names_of,
    op_names_of,
    tf,
)


def steps_elements_come_out_in_order() -> list[Any]:
    queue = tf.FIFOQueue(3, tf.float32)
    puts = [queue.enqueue(float(number)) for number in range(3)]
    return [*puts, queue.size(), queue.dequeue(), queue.dequeue(), queue.size()]


def steps_a_queue_without_bound() -> list[Any]:
    queue = tf.FIFOQueue(-1, tf.int32)
    return [*[queue.enqueue(item) for item in range(20)], queue.size(), queue.dequeue()]


def steps_elements_of_two_components() -> list[Any]:
    queue = tf.FIFOQueue(3, [tf.int32, tf.string])
    return [queue.enqueue((1, "a")), queue.enqueue([2, b"b"]), queue.dequeue()]


def steps_elements_with_names() -> list[Any]:
    queue = tf.FIFOQueue(3, [tf.int32, tf.float32], names=["n", "x"])
    return [queue.enqueue({"x": 1.5, "n": 2}), queue.dequeue()]


def steps_rows_are_elements() -> list[Any]:
    queue = tf.FIFOQueue(10, tf.int32, shapes=[[2]])
    values = np.arange(8, dtype=np.int32).reshape(4, 2)
    puts = queue.enqueue_many(values)
    return [puts, queue.size(), queue.dequeue(), queue.dequeue_many(2), queue.size()]


def steps_rows_of_two_components() -> list[Any]:
    queue = tf.FIFOQueue(10, [tf.int32, tf.float32], shapes=[[], [2]])
    puts = queue.enqueue_many(([1, 2], [[1.0, 2.0], [3.0, 4.0]]))
    return [puts, queue.dequeue_many(2)]


def steps_no_elements_at_once() -> list[Any]:
    queue = tf.FIFOQueue(10, tf.float32, shapes=[[3]])
    return [queue.dequeue_many(0)]


def steps_a_closed_queue() -> list[Any]:
    queue = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    return [
        *(queue.enqueue_many(([1, 2, 3],)), queue.is_closed(), queue.close()),
        *(queue.is_closed(), queue.enqueue(4), queue.dequeue(), queue.size()),
        *(queue.dequeue_many(3), queue.size(), queue.dequeue_up_to(5)),
        *(queue.dequeue_up_to(5), queue.dequeue(), queue.close()),
        queue.close(cancel_pending_enqueues=True),
    ]


def steps_several_at_once_need_shapes() -> list[Any]:
    queue = tf.FIFOQueue(10, tf.int32)
    return [queue.enqueue_many(([1, 2],)), queue.dequeue_many(2), queue.size()]


def case_another_shape_is_refused_when_run(session: Any) -> Any:
    queue = tf.FIFOQueue(2, tf.int32, shapes=[[2]])
    holder = tf.placeholder(tf.int32)
    put = queue.enqueue(holder)
    result = [attempt(session.run, put, {holder: [1, 2, 3]})]
    return [
        *result,
        attempt(session.run, put, {holder: [1, 2]}),
        session.run(queue.size()),
    ]


def case_unknown_shapes() -> Any:
    queue = tf.FIFOQueue(5, tf.int32)
    return queue.dequeue().shape.ndims, names_of(queue.dtypes)


@makes_case
def closed_while_putting(session: Any, take: str) -> Any:
    """Return a case that closes a queue that somebody waits to put into."""
    queue = tf.FIFOQueue(2, tf.int32, shapes=[()])
    put = queue.enqueue_many([[1, 2, 3, 4]])
    taken, close = getattr(queue, take)(4), queue.close()
    size, is_closed = queue.size(), queue.is_closed()
    result: list[Any] = []
    threads = [
        threading.Thread(target=lambda: result.append(attempt(session.run, put))),
        threading.Thread(target=lambda: result.append(attempt(session.run, close))),
    ]
    threads[0].start()
    while session.run(size) < 2:
        pass
    threads[1].start()
    threads[1].join(0.3)  # it waits by then
    waited = [thread.is_alive() for thread in threads]
    values = attempt(session.run, taken)
    for thread in threads:
        thread.join(10.0)
    return [waited, values, result, attempt(session.run, is_closed)]


MADE: dict[str, Case] = {
    "components_of_another_shape": lambda: tf.FIFOQueue(
        2, tf.int32, shapes=[[2]]
    ).enqueue([1, 2, 3]),
    "a_component_of_another_dtype": lambda: tf.FIFOQueue(2, tf.int32).enqueue(1.5),
    "a_tensor_of_another_dtype": lambda: tf.FIFOQueue(2, tf.int32).enqueue(
        tf.constant(1.5)
    ),
    "rows_in_a_bare_list": lambda: tf.FIFOQueue(2, tf.int32, shapes=[[]]).enqueue_many(
        [1, 2]
    ),
    "several_values_for_one_component": lambda: tf.FIFOQueue(2, tf.int32).enqueue(
        [1, 2]
    ),
    "too_many_components": lambda: tf.FIFOQueue(2, [tf.int32]).enqueue((1, 2)),
    "too_few_components": lambda: tf.FIFOQueue(2, [tf.int32] * 2).enqueue((1,)),
    "other_keys": lambda: tf.FIFOQueue(2, tf.int32, names=["n"]).enqueue({"m": 1}),
    "no_dict_for_names": lambda: tf.FIFOQueue(2, tf.int32, names=["n"]).enqueue(1),
    "a_dict_without_names": lambda: tf.FIFOQueue(2, tf.int32).enqueue({"n": 1}),
    "names_of_another_number": lambda: tf.FIFOQueue(2, tf.int32, names=["a", "b"]),
    "shapes_of_another_number": lambda: tf.FIFOQueue(2, tf.int32, shapes=[[1], [2]]),
    "rows_of_another_shape": lambda: tf.FIFOQueue(
        2, tf.int32, shapes=[[2]]
    ).enqueue_many(([1, 2],)),
    "a_scalar_as_rows": lambda: tf.FIFOQueue(2, tf.int32, shapes=[[]]).enqueue_many(1),
    "no_list_of_queues": lambda: tf.QueueBase.from_list(0, tf.FIFOQueue(2, tf.int32)),
    "a_list_of_others": lambda: tf.QueueBase.from_list(0, [1]),
    "an_unknown_dtype": lambda: tf.FIFOQueue(2, "moon"),
}


def pair(second: Any = None, **named: Any) -> list[Any]:
    first = tf.FIFOQueue(3, tf.int32, shapes=[], name="first")
    return [first, tf.FIFOQueue(3, second or tf.int32, name="second", **named)]


@makes_case
def taken(session: Any, index: Any) -> Any:
    """Return a case: an element is taken from the queue of that place."""
    queues = pair(shapes=[])
    chosen = tf.QueueBase.from_list(index(), queues)
    for number, item in enumerate(queues):
        session.run(item.enqueue_many([[10 * number, 10 * number + 1]]))
    return [
        attempt(session.run, chosen.dequeue()),
        session.run([queue.size() for queue in queues]),
    ]


def chosen_from(make: Case, index: Any = 0) -> Case:
    return lambda: tf.QueueBase.from_list(index, make()) is not None


def made_with(*arguments: Any, **named: Any) -> Case:
    """Return a case: whether such a queue can be made_with."""
    return lambda: (
        tf.FIFOQueue(*(argument() for argument in arguments), **named).dtypes[0].name
    )


def many(count: int) -> Case:
    return lambda: pair()[0].dequeue_many(count).shape.as_list()


def numbers() -> Any:
    return tf.int32


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


def produced_numbers() -> Any:
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
    "closed_while_many_are_put_and_taken": closed_while_putting("dequeue_many"),
    "closed_while_many_are_put_and_the_rest_taken": closed_while_putting(
        "dequeue_up_to"
    ),
    **{f"made_of_{name}": kind_of(make) for name, make in MADE.items()},
    "the_first": taken(lambda: 0),
    "the_second": taken(lambda: 1),
    "the_second_by_a_constant": taken(lambda: tf.constant(1)),
    "of_no_list": chosen_from(lambda: tuple(pair())),
    "of_an_empty_list": chosen_from(lambda: []),
    "of_other_things": chosen_from(lambda: [*pair(), 1]),
    "of_other_dtypes": chosen_from(lambda: pair(tf.float32)),
    "of_other_names": chosen_from(lambda: pair(names=["a"])),
    "of_other_shapes": chosen_from(lambda: pair(shapes=[[2]])),
    "of_one_alone": chosen_from(lambda: pair()[:1]),
    "by_a_fraction": chosen_from(pair, 0.5),
    "by_a_text": chosen_from(pair, "first"),
    "made_with_a_text_for_a_capacity": made_with(lambda: "3", numbers),
    "made_with_no_dtype": made_with(lambda: 3, lambda: []),
    "made_with_two_dtypes": made_with(lambda: 3, lambda: [tf.int32, tf.float32]),
    "made_with_too_many_names": made_with(lambda: 3, numbers, names=["a", "b"]),
    "made_with_too_many_shapes": made_with(lambda: 3, numbers, shapes=[[], []]),
    "three_at_once": many(3),
    "none_at_once": many(0),
    "less_than_none_at_once": many(-1),
    "rows_for_two_epochs": to_the_end(produced),
    "texts_for_two_epochs": to_the_end(names_of_files),
    "numbers_for_an_epoch": to_the_end(produced_numbers),
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
