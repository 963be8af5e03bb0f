"""Scaffolds: what is filled in, from where, and what a graph may hold."""

from __future__ import annotations

from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.look import makes_case, tf

FIELDS = (
    *("init_op", "init_feed_dict", "init_fn", "ready_op", "ready_for_local_init_op"),
    *("local_init_op", "summary_op", "saver"),
)


def kinds(scaffold: Any) -> list[str]:
    """Tell of what kind each part is."""
    return [type(getattr(scaffold, name)).__name__ for name in FIELDS]


@makes_case
def collected(key: str, field: str) -> Any:
    """Return a case: a part is taken from the graph's collection."""
    tf.Variable(1.0)
    part = tf.no_op(name="mine")
    tf.add_to_collection(getattr(tf.GraphKeys, key), part)
    scaffold = tf.train.Scaffold().finalize()
    return getattr(scaffold, field) is part


@makes_case
def collected_twice(key: str) -> Any:
    tf.Variable(1.0)
    for _ in range(2):
        tf.add_to_collection(getattr(tf.GraphKeys, key), tf.no_op())
    return kinds(tf.train.Scaffold().finalize())


def case_a_saver_is_collected() -> Any:
    tf.Variable(1.0)
    saver = tf.train.Saver()
    tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
    return tf.train.Scaffold().finalize().saver is saver


def case_parts_that_are_given() -> Any:
    tf.Variable(1.0)
    parts = {
        **{name: tf.no_op(name=name) for name in ("init_op", "local_init_op")},
        **{name: tf.constant(["x"]) for name in ("ready_op", "summary_op")},
        "ready_for_local_init_op": tf.constant(["y"]),
        "saver": tf.train.Saver(),
        "init_feed_dict": {"a": 1},
    }
    scaffold = tf.train.Scaffold(**parts).finalize()
    return [getattr(scaffold, name) is item for name, item in sorted(parts.items())]


def case_parts_of_another_scaffold() -> Any:
    tf.Variable(1.0)
    first = tf.train.Scaffold(init_op=tf.no_op(), saver=tf.train.Saver())
    two = tf.train.Scaffold(copy_from_scaffold=first)
    three = tf.train.Scaffold(init_op=tf.no_op(), copy_from_scaffold=first)
    return [
        *(two.init_op is first.init_op, two.saver is first.saver),
        *(three.init_op is first.init_op, three.saver is first.saver),
    ]


def case_parts_of_another_kind() -> Any:
    return tf.train.Scaffold(copy_from_scaffold="no scaffold")


def case_feeds_that_initialise() -> Any:
    holder = tf.placeholder(tf.float32, [2])
    v = tf.Variable(holder)
    scaffold = tf.train.Scaffold(init_feed_dict={holder: [1.0, 2.0]})
    with tf.train.MonitoredTrainingSession(scaffold=scaffold) as session:
        return session.run(v)


def case_get_or_default() -> Any:
    call = tf.train.Scaffold.get_or_default
    result = [call("a", "kept", lambda: "default"), call("a", "kept", lambda: "again")]
    tf.add_to_collection("b", "in the graph")
    result.append(call("b", "b", lambda: "default"))
    tf.add_to_collection("b", "also")
    return [*result, attempt(call, "b", "b", lambda: "default")]


KEYS = {
    "INIT_OP": "init_op",
    "READY_OP": "ready_op",
    "READY_FOR_LOCAL_INIT_OP": "ready_for_local_init_op",
    "LOCAL_INIT_OP": "local_init_op",
    "SUMMARY_OP": "summary_op",
}

CASES = {
    **{f"{field}_is_collected": collected(key, field) for key, field in KEYS.items()},
    **{f"{KEYS[key]}_is_collected_twice": collected_twice(key) for key in KEYS},
    "empty_at_first": lambda: kinds(tf.train.Scaffold()),
}
