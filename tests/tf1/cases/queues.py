"""Queues: what goes in and comes out, what waits, what is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np


def ran(session: Any, fetch: Any, feeds: Any = None) -> Any:
    """Run, and tell the value or the name of the error."""
    try:
        return session.run(fetch, feeds)
    except Exception as error:
        return type(error).__name__


def steps(make: Callable[[Any], list[Any]]) -> Callable[[Any], Any]:
    """Return a case that runs fetches one after the other."""

    def case(tf: Any) -> Any:
        fetches = make(tf)
        with tf.Session() as session:
            return [ran(session, one) for one in fetches]

    return case


def in_and_out(tf: Any) -> list[Any]:
    queue = tf.FIFOQueue(3, tf.float32)
    puts = [queue.enqueue(float(one)) for one in range(3)]
    return [*puts, queue.size(), queue.dequeue(), queue.dequeue(), queue.size()]


def unbounded(tf: Any) -> list[Any]:
    queue = tf.FIFOQueue(-1, tf.int32)
    return [*[queue.enqueue(one) for one in range(20)], queue.size(), queue.dequeue()]


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


def case_another_shape_is_refused_when_run(tf: Any) -> Any:
    queue = tf.FIFOQueue(2, tf.int32, shapes=[[2]])
    holder = tf.placeholder(tf.int32)
    put = queue.enqueue(holder)
    with tf.Session() as session:
        found = [ran(session, put, {holder: [1, 2, 3]})]
        return [*found, ran(session, put, {holder: [1, 2]}), session.run(queue.size())]


def case_what_is_known_when_built(tf: Any) -> Any:
    queue = tf.FIFOQueue(5, [tf.int32, tf.float32], shapes=[[2], []], name="q")
    one, many = queue.dequeue(), queue.dequeue_many(3)
    up_to = queue.dequeue_up_to(3)
    tensors = [*one, *many, *up_to, queue.size()]
    known = [(t.name, t.dtype.name, t.shape.as_list()) for t in tensors]
    puts = [queue.enqueue([[1, 2], 1.0]), queue.close()]
    return [queue.name, known, [put.name for put in puts], queue.names]


def case_unknown_shapes(tf: Any) -> Any:
    queue = tf.FIFOQueue(5, tf.int32)
    return queue.dequeue().shape.ndims, [d.name for d in queue.dtypes]


def case_one_shared_name_is_one_queue(tf: Any) -> Any:
    one = tf.FIFOQueue(5, tf.int32, shared_name="common", name="one")
    other = tf.FIFOQueue(5, tf.int32, shared_name="common", name="other")
    with tf.Session() as session:
        session.run(one.enqueue(7))
        return session.run(other.size()), session.run(other.dequeue())


def case_sessions_of_a_server_share_it(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    queue = tf.FIFOQueue(5, tf.int32, shared_name="common")
    put, take = queue.enqueue(7), queue.dequeue()
    with tf.Session(server.target) as one, tf.Session(server.target) as other:
        one.run(put)
        return other.run(take)


def case_without_a_shared_name_each_session_has_its_own(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    queue = tf.FIFOQueue(5, tf.int32)
    put, size = queue.enqueue(7), queue.size()
    with tf.Session(server.target) as one, tf.Session(server.target) as other:
        one.run(put)
        return one.run(size), other.run(size)


def case_a_take_waits_for_a_put(tf: Any) -> Any:
    """A take that waits is served by a put that comes later."""
    queue = tf.FIFOQueue(1, tf.int32)
    take, put = queue.dequeue(), queue.enqueue(7)
    found: list[Any] = []
    with tf.Session() as session:
        thread = threading.Thread(target=lambda: found.append(session.run(take)))
        thread.start()
        session.run(put)
        thread.join(10.0)
    return found


def case_a_put_waits_for_room(tf: Any) -> Any:
    """A put that waits for room goes on when there is some."""
    queue = tf.FIFOQueue(1, tf.int32)
    take, holder = queue.dequeue(), tf.placeholder(tf.int32, [])
    put = queue.enqueue(holder)
    with tf.Session() as session:
        session.run(put, {holder: 1})
        thread = threading.Thread(target=lambda: session.run(put, {holder: 2}))
        thread.start()
        found = [session.run(take), session.run(take)]
        thread.join(10.0)
    return found


def case_a_put_that_waits_too_long(tf: Any) -> Any:
    queue = tf.FIFOQueue(1, tf.int32)
    options = tf.RunOptions(timeout_in_ms=50)
    with tf.Session() as session:
        session.run(queue.enqueue(1))
        return session.run(queue.enqueue(2), options=options)


def case_more_than_fit_at_once(tf: Any) -> Any:
    """Take more at once than the queue can hold."""
    queue = tf.FIFOQueue(2, tf.int32, shapes=[()])
    put = queue.enqueue_many([[1, 2, 3, 4, 5]])
    taken = queue.dequeue_many(5)
    with tf.Session() as session:
        thread = threading.Thread(target=ran, args=(session, put))
        thread.start()
        found = ran(session, taken)
        thread.join(10.0)
    return found


def closed_while_putting(take: str) -> Callable[[Any], Any]:
    """Return a case that closes a queue that somebody waits to put into."""

    def case(tf: Any) -> Any:
        queue = tf.FIFOQueue(2, tf.int32, shapes=[()])
        put = queue.enqueue_many([[1, 2, 3, 4]])
        taken, close = getattr(queue, take)(4), queue.close()
        size, is_closed = queue.size(), queue.is_closed()
        found: list[Any] = []
        with tf.Session() as session:
            threads = [
                threading.Thread(target=lambda: found.append(ran(session, put))),
                threading.Thread(target=lambda: found.append(ran(session, close))),
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
            return [waited, values, found, ran(session, is_closed)]

    return case


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
}
