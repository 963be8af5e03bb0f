"""Queues: what goes in and comes out, what waits, what is chosen, what is refused."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from tests.tf1.attempts import attempt
from tests.tf1.look import Case, kind_of, makes_case, names_of, tf


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
}
