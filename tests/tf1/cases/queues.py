"""Queues: what goes in and comes out, what waits, what is chosen, what is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1.attempts import attempt
from tests.tf1.look import makes_case


def ran(session: Any, fetch: Any, feeds: Any = None) -> Any:
    """Run, and tell the value or the name of the error."""
    try:
        return session.run(fetch, feeds)
    except Exception as error:
        return type(error).__name__


@makes_case
def steps(tf: Any, session: Any, make: Callable[[Any], list[Any]]) -> Any:
    """Return a case that runs fetches one after the other."""
    fetches = make(tf)
    return [ran(session, fetch) for fetch in fetches]


def in_and_out(tf: Any) -> list[Any]:
    queue = tf.FIFOQueue(3, tf.float32)
    puts = [queue.enqueue(float(number)) for number in range(3)]
    return [*puts, queue.size(), queue.dequeue(), queue.dequeue(), queue.size()]


def unbounded(tf: Any) -> list[Any]:
    queue = tf.FIFOQueue(-1, tf.int32)
    return [*[queue.enqueue(item) for item in range(20)], queue.size(), queue.dequeue()]


def pairs(tf: Any) -> list[Any]:
    queue = tf.FIFOQueue(3, [tf.int32, tf.string])
    return [queue.enqueue((1, "a")), queue.enqueue([2, b"b"]), queue.dequeue()]


def named(tf: Any) -> list[Any]:
    queue = tf.FIFOQueue(3, [tf.int32, tf.float32], names=["n", "x"])
    return [queue.enqueue({"x": 1.5, "n": 2}), queue.dequeue()]


def rows(tf: Any) -> list[Any]:
    queue = tf.FIFOQueue(10, tf.int32, shapes=[[2]])
    values = np.arange(8, dtype=np.int32).reshape(4, 2)
    puts = queue.enqueue_many(values)
    return [puts, queue.size(), queue.dequeue(), queue.dequeue_many(2), queue.size()]


def rows_of_pairs(tf: Any) -> list[Any]:
    queue = tf.FIFOQueue(10, [tf.int32, tf.float32], shapes=[[], [2]])
    puts = queue.enqueue_many(([1, 2], [[1.0, 2.0], [3.0, 4.0]]))
    return [puts, queue.dequeue_many(2)]


def none_at_once(tf: Any) -> list[Any]:
    queue = tf.FIFOQueue(10, tf.float32, shapes=[[3]])
    return [queue.dequeue_many(0)]


def closed(tf: Any) -> list[Any]:
    queue = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    return [
        *(queue.enqueue_many(([1, 2, 3],)), queue.is_closed(), queue.close()),
        *(queue.is_closed(), queue.enqueue(4), queue.dequeue(), queue.size()),
        *(queue.dequeue_many(3), queue.size(), queue.dequeue_up_to(5)),
        *(queue.dequeue_up_to(5), queue.dequeue(), queue.close()),
        queue.close(cancel_pending_enqueues=True),
    ]


def without_shapes(tf: Any) -> list[Any]:
    queue = tf.FIFOQueue(10, tf.int32)
    return [queue.enqueue_many(([1, 2],)), queue.dequeue_many(2), queue.size()]


def case_another_shape_is_refused_when_run(tf: Any, session: Any) -> Any:
    queue = tf.FIFOQueue(2, tf.int32, shapes=[[2]])
    holder = tf.placeholder(tf.int32)
    put = queue.enqueue(holder)
    result = [ran(session, put, {holder: [1, 2, 3]})]
    return [*result, ran(session, put, {holder: [1, 2]}), session.run(queue.size())]


def case_unknown_shapes(tf: Any) -> Any:
    queue = tf.FIFOQueue(5, tf.int32)
    return queue.dequeue().shape.ndims, [d.name for d in queue.dtypes]


@makes_case
def closed_while_putting(tf: Any, session: Any, take: str) -> Any:
    """Return a case that closes a queue that somebody waits to put into."""
    queue = tf.FIFOQueue(2, tf.int32, shapes=[()])
    put = queue.enqueue_many([[1, 2, 3, 4]])
    taken, close = getattr(queue, take)(4), queue.close()
    size, is_closed = queue.size(), queue.is_closed()
    result: list[Any] = []
    threads = [
        threading.Thread(target=lambda: result.append(ran(session, put))),
        threading.Thread(target=lambda: result.append(ran(session, close))),
    ]
    threads[0].start()
    while session.run(size) < 2:
        pass
    threads[1].start()
    threads[1].join(0.3)  # it waits by then
    waited = [thread.is_alive() for thread in threads]
    values = ran(session, taken)
    for thread in threads:
        thread.join(10.0)
    return [waited, values, result, ran(session, is_closed)]


def made(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a case that tells what kind of thing came out, if anything did."""
    return lambda tf: type(make(tf)).__name__


MADE: dict[str, Callable[[Any], Any]] = {
    "components_of_another_shape": lambda tf: tf.FIFOQueue(
        2, tf.int32, shapes=[[2]]
    ).enqueue([1, 2, 3]),
    "a_component_of_another_dtype": lambda tf: tf.FIFOQueue(2, tf.int32).enqueue(1.5),
    "a_tensor_of_another_dtype": lambda tf: tf.FIFOQueue(2, tf.int32).enqueue(
        tf.constant(1.5)
    ),
    "rows_in_a_bare_list": lambda tf: tf.FIFOQueue(
        2, tf.int32, shapes=[[]]
    ).enqueue_many([1, 2]),
    "several_values_for_one_component": lambda tf: tf.FIFOQueue(2, tf.int32).enqueue(
        [1, 2]
    ),
    "too_many_components": lambda tf: tf.FIFOQueue(2, [tf.int32]).enqueue((1, 2)),
    "too_few_components": lambda tf: tf.FIFOQueue(2, [tf.int32] * 2).enqueue((1,)),
    "other_keys": lambda tf: tf.FIFOQueue(2, tf.int32, names=["n"]).enqueue({"m": 1}),
    "no_dict_for_names": lambda tf: tf.FIFOQueue(2, tf.int32, names=["n"]).enqueue(1),
    "a_dict_without_names": lambda tf: tf.FIFOQueue(2, tf.int32).enqueue({"n": 1}),
    "names_of_another_number": lambda tf: tf.FIFOQueue(2, tf.int32, names=["a", "b"]),
    "shapes_of_another_number": lambda tf: tf.FIFOQueue(2, tf.int32, shapes=[[1], [2]]),
    "rows_of_another_shape": lambda tf: tf.FIFOQueue(
        2, tf.int32, shapes=[[2]]
    ).enqueue_many(([1, 2],)),
    "a_scalar_as_rows": lambda tf: tf.FIFOQueue(2, tf.int32, shapes=[[]]).enqueue_many(
        1
    ),
    "no_list_of_queues": lambda tf: tf.QueueBase.from_list(
        0, tf.FIFOQueue(2, tf.int32)
    ),
    "a_list_of_others": lambda tf: tf.QueueBase.from_list(0, [1]),
    "an_unknown_dtype": lambda tf: tf.FIFOQueue(2, "moon"),
}


def pair(tf: Any, second: Any = None, **named: Any) -> list[Any]:
    first = tf.FIFOQueue(3, tf.int32, shapes=[], name="first")
    return [first, tf.FIFOQueue(3, second or tf.int32, name="second", **named)]


@makes_case
def taken(tf: Any, session: Any, index: Any) -> Any:
    """Return a case: an element is taken from the queue of that place."""
    queues = pair(tf, shapes=[])
    chosen = tf.QueueBase.from_list(index(tf), queues)
    for number, item in enumerate(queues):
        session.run(item.enqueue_many([[10 * number, 10 * number + 1]]))
    return [
        attempt(tf, session.run, chosen.dequeue()),
        session.run([queue.size() for queue in queues]),
    ]


def chosen_from(make: Callable[[Any], Any], index: Any = 0) -> Callable[[Any], Any]:
    return lambda tf: tf.QueueBase.from_list(index, make(tf)) is not None


def made_with(*arguments: Any, **named: Any) -> Callable[[Any], Any]:
    """Return a case: whether such a queue can be made_with."""
    return lambda tf: (
        tf.FIFOQueue(*(argument(tf) for argument in arguments), **named).dtypes[0].name
    )


def many(count: int) -> Callable[[Any], Any]:
    return lambda tf: pair(tf)[0].dequeue_many(count).shape.as_list()


def numbers(tf: Any) -> Any:
    return tf.int32


CASES: dict[str, Callable[[Any], Any]] = {
    "elements_come_out_in_order": steps(in_and_out),
    "a_queue_without_bound": steps(unbounded),
    "elements_of_two_components": steps(pairs),
    "elements_with_names": steps(named),
    "rows_are_elements": steps(rows),
    "rows_of_two_components": steps(rows_of_pairs),
    "no_elements_at_once": steps(none_at_once),
    "a_closed_queue": steps(closed),
    "several_at_once_need_shapes": steps(without_shapes),
    "closed_while_many_are_put_and_taken": closed_while_putting("dequeue_many"),
    "closed_while_many_are_put_and_the_rest_taken": closed_while_putting(
        "dequeue_up_to"
    ),
    **{f"made_of_{name}": made(make) for name, make in MADE.items()},
    "the_first": taken(lambda tf: 0),
    "the_second": taken(lambda tf: 1),
    "the_second_by_a_constant": taken(lambda tf: tf.constant(1)),
    "of_no_list": chosen_from(lambda tf: tuple(pair(tf))),
    "of_an_empty_list": chosen_from(lambda tf: []),
    "of_other_things": chosen_from(lambda tf: [*pair(tf), 1]),
    "of_other_dtypes": chosen_from(lambda tf: pair(tf, tf.float32)),
    "of_other_names": chosen_from(lambda tf: pair(tf, names=["a"])),
    "of_other_shapes": chosen_from(lambda tf: pair(tf, shapes=[[2]])),
    "of_one_alone": chosen_from(lambda tf: pair(tf)[:1]),
    "by_a_fraction": chosen_from(pair, 0.5),
    "by_a_text": chosen_from(pair, "first"),
    "made_with_a_text_for_a_capacity": made_with(lambda tf: "3", numbers),
    "made_with_no_dtype": made_with(lambda tf: 3, lambda tf: []),
    "made_with_two_dtypes": made_with(lambda tf: 3, lambda tf: [tf.int32, tf.float32]),
    "made_with_too_many_names": made_with(lambda tf: 3, numbers, names=["a", "b"]),
    "made_with_too_many_shapes": made_with(lambda tf: 3, numbers, shapes=[[], []]),
    "three_at_once": many(3),
    "none_at_once": many(0),
    "less_than_none_at_once": many(-1),
}
