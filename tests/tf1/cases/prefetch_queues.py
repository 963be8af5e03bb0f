"""Queues that threads fill with batches ahead of the step."""

from __future__ import annotations

from typing import Any


def fed(tf: Any, fetches: Any, count: int) -> list[Any]:
    """Return what runs fetch while threads fill the queue."""
    coordinator = tf.train.Coordinator()
    with tf.Session() as session:
        threads = tf.train.start_queue_runners(session, coordinator)
        made = [session.run(fetches) for _ in range(count)]
        coordinator.request_stop()  # the runners close their queues then
        coordinator.join(threads)
    return made


def numbers(tf: Any) -> Any:
    return tf.train.range_input_producer(3, shuffle=False).dequeue()


def summaries(tf: Any) -> list[str]:
    kept = tf.get_collection(tf.GraphKeys.SUMMARIES)
    return [tensor.op.name for tensor in kept if "prefetch" in tensor.op.name]


def case_list(tf: Any) -> Any:
    n = numbers(tf)
    queue = tf.contrib.slim.prefetch_queue.prefetch_queue([n, n * 2], capacity=4)
    first, second = queue.dequeue()
    shapes = [first.shape.as_list(), first.dtype.name, queue.name]
    return [shapes, summaries(tf), fed(tf, [first, second], 4)]


def case_dict(tf: Any) -> Any:
    n = numbers(tf)
    make = tf.contrib.slim.prefetch_queue.prefetch_queue
    queue = make({"b": n, "a": tf.to_float(n)}, num_threads=1, name="p")
    return [queue.name, sorted(queue.names), fed(tf, queue.dequeue(), 2)]


def case_sizes_that_are_unknown(tf: Any) -> Any:
    row = tf.range(numbers(tf))
    make = tf.contrib.slim.prefetch_queue.prefetch_queue
    queue = make([row], dynamic_pad=True)
    return fed(tf, queue.dequeue(), 3)


def case_sizes_that_are_unknown_without_padding(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [None])
    return tf.contrib.slim.prefetch_queue.prefetch_queue([x])
