"""Queues that are chosen from a list, and what is refused when queues are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.look import makes_case


def pair(tf: Any, second: Any = None, **named: Any) -> list[Any]:
    first = tf.FIFOQueue(3, tf.int32, shapes=[], name="first")
    return [first, tf.FIFOQueue(3, second or tf.int32, name="second", **named)]


@makes_case
def taken(tf: Any, index: Any) -> Any:
    """Return a case: an element is taken from the queue of that place."""
    queues = pair(tf, shapes=[])
    chosen = tf.QueueBase.from_list(index(tf), queues)
    with tf.Session() as session:
        for number, item in enumerate(queues):
            session.run(item.enqueue_many([[10 * number, 10 * number + 1]]))
        return [
            attempt(tf, session.run, chosen.dequeue()),
            session.run([queue.size() for queue in queues]),
        ]


def chosen_from(make: Callable[[Any], Any], index: Any = 0) -> Callable[[Any], Any]:
    return lambda tf: tf.QueueBase.from_list(index, make(tf)) is not None


def made(*arguments: Any, **named: Any) -> Callable[[Any], Any]:
    """Return a case: whether such a queue can be made."""
    return lambda tf: (
        tf.FIFOQueue(*(argument(tf) for argument in arguments), **named).dtypes[0].name
    )


def many(count: int) -> Callable[[Any], Any]:
    return lambda tf: pair(tf)[0].dequeue_many(count).shape.as_list()


def numbers(tf: Any) -> Any:
    return tf.int32


CASES: dict[str, Callable[[Any], Any]] = {
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
    "made_with_a_text_for_a_capacity": made(lambda tf: "3", numbers),
    "made_with_no_dtype": made(lambda tf: 3, lambda tf: []),
    "made_with_two_dtypes": made(lambda tf: 3, lambda tf: [tf.int32, tf.float32]),
    "made_with_too_many_names": made(lambda tf: 3, numbers, names=["a", "b"]),
    "made_with_too_many_shapes": made(lambda tf: 3, numbers, shapes=[[], []]),
    "three_at_once": many(3),
    "none_at_once": many(0),
    "less_than_none_at_once": many(-1),
}
