"""Scaffolds: what is filled in, from where, and what a graph may hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.tf1.attempts import attempt

FIELDS = (
    *("init_op", "init_feed_dict", "init_fn", "ready_op", "ready_for_local_init_op"),
    *("local_init_op", "summary_op", "saver"),
)


def kinds(scaffold: Any) -> list[str]:
    """Tell of what kind each part is."""
    return [type(getattr(scaffold, name)).__name__ for name in FIELDS]


def case_empty_at_first(tf: Any) -> Any:
    return kinds(tf.train.Scaffold())


def case_finalised(tf: Any) -> Any:
    tf.Variable(1.0, name="v")
    scaffold = tf.train.Scaffold()
    same = scaffold.finalize() is scaffold
    return [same, kinds(scaffold), tf.get_default_graph().finalized]


def case_finalised_twice(tf: Any) -> Any:
    tf.Variable(1.0, name="v")
    scaffold = tf.train.Scaffold()
    scaffold.finalize()
    before = {name: getattr(scaffold, name) for name in FIELDS}
    scaffold.finalize()
    return [getattr(scaffold, name) is one for name, one in before.items()]


def case_names_of_its_parts(tf: Any) -> Any:
    tf.Variable(1.0, name="v")
    scaffold = tf.train.Scaffold().finalize()
    return [getattr(scaffold, name).name for name in ("init_op", "local_init_op")]


def case_run_by_hand(tf: Any) -> Any:
    """Its operations do what their names say."""
    v = tf.Variable(4.0, name="v")
    w = tf.Variable(5.0, name="w", collections=[tf.GraphKeys.LOCAL_VARIABLES])
    scaffold = tf.train.Scaffold().finalize()
    found = []
    with tf.Session() as session:
        ready = [scaffold.ready_op, scaffold.ready_for_local_init_op]
        found.append([sorted(one.tolist()) for one in session.run(ready)])
        session.run(scaffold.init_op)
        found.append([sorted(one.tolist()) for one in session.run(ready)])
        session.run(scaffold.local_init_op)
        found.append([sorted(one.tolist()) for one in session.run(ready)])
        return [*found, session.run([v, w])]


def collected(key: str, field: str) -> Callable[[Any], Any]:
    """Return a case: a part is taken from the graph's collection."""

    def case(tf: Any) -> Any:
        tf.Variable(1.0)
        part = tf.no_op(name="mine")
        tf.add_to_collection(getattr(tf.GraphKeys, key), part)
        scaffold = tf.train.Scaffold().finalize()
        return getattr(scaffold, field) is part

    return case


def collected_twice(key: str) -> Callable[[Any], Any]:
    def case(tf: Any) -> Any:
        tf.Variable(1.0)
        for _ in range(2):
            tf.add_to_collection(getattr(tf.GraphKeys, key), tf.no_op())
        return kinds(tf.train.Scaffold().finalize())

    return case


def case_a_saver_is_collected(tf: Any) -> Any:
    tf.Variable(1.0)
    saver = tf.train.Saver()
    tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
    return tf.train.Scaffold().finalize().saver is saver


def case_two_savers_are_collected(tf: Any) -> Any:
    tf.Variable(1.0)
    for _ in range(2):
        tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver())
    return tf.train.Scaffold().finalize()


def case_collections_afterwards(tf: Any) -> Any:
    """What was made is in the collections, so a second scaffold finds it."""
    tf.Variable(1.0)
    one = tf.train.Scaffold().finalize()
    keys = tf.GraphKeys
    names = (keys.INIT_OP, keys.READY_OP, keys.LOCAL_INIT_OP, keys.SAVERS)
    counts = [len(tf.get_collection(name)) for name in names]
    two = tf.train.Scaffold().finalize()
    return [counts, [getattr(one, f) is getattr(two, f) for f in FIELDS]]


def case_parts_that_are_given(tf: Any) -> Any:
    tf.Variable(1.0)
    parts = {
        **{name: tf.no_op(name=name) for name in ("init_op", "local_init_op")},
        **{name: tf.constant(["x"]) for name in ("ready_op", "summary_op")},
        "ready_for_local_init_op": tf.constant(["y"]),
        "saver": tf.train.Saver(),
        "init_feed_dict": {"a": 1},
    }
    scaffold = tf.train.Scaffold(**parts).finalize()
    return [getattr(scaffold, name) is one for name, one in sorted(parts.items())]


def case_parts_of_another_scaffold(tf: Any) -> Any:
    tf.Variable(1.0)
    one = tf.train.Scaffold(init_op=tf.no_op(), saver=tf.train.Saver())
    two = tf.train.Scaffold(copy_from_scaffold=one)
    three = tf.train.Scaffold(init_op=tf.no_op(), copy_from_scaffold=one)
    return [
        *(two.init_op is one.init_op, two.saver is one.saver),
        *(three.init_op is one.init_op, three.saver is one.saver),
    ]


def case_parts_of_another_kind(tf: Any) -> Any:
    return tf.train.Scaffold(copy_from_scaffold="no scaffold")


def case_a_function_that_initialises(tf: Any) -> Any:
    """It is called with the scaffold and the session, after the initialisation."""
    v = tf.Variable(1.0)
    holder = tf.placeholder(tf.float32, [])
    assign = v.assign(holder)
    found: list[Any] = []

    def init(scaffold: Any, session: Any) -> None:
        found.append([session.run(v), kinds(scaffold)[0]])
        session.run(assign, {holder: 9.0})

    scaffold = tf.train.Scaffold(init_fn=init)
    creator = tf.train.ChiefSessionCreator(scaffold)
    with tf.train.MonitoredSession(creator) as session:
        found.append(session.run(v))
    return found


def case_feeds_that_initialise(tf: Any) -> Any:
    holder = tf.placeholder(tf.float32, [2])
    v = tf.Variable(holder)
    scaffold = tf.train.Scaffold(init_feed_dict={holder: [1.0, 2.0]})
    with tf.train.MonitoredTrainingSession(scaffold=scaffold) as session:
        return session.run(v)


def case_an_operation_that_initialises(tf: Any) -> Any:
    v, w = tf.Variable(1.0, name="v"), tf.Variable(2.0, name="w")
    scaffold = tf.train.Scaffold(init_op=tf.group(v.assign(3.0), w.initializer))
    with tf.train.MonitoredTrainingSession(scaffold=scaffold) as session:
        return session.run([v, w])


def case_an_operation_that_forgets(tf: Any) -> Any:
    v = tf.Variable(1.0, name="v")
    tf.Variable(2.0, name="w")
    scaffold = tf.train.Scaffold(init_op=v.initializer)
    with tf.train.MonitoredTrainingSession(scaffold=scaffold) as session:
        return session.run(v)


def case_local_variables_come_after(tf: Any) -> Any:
    v = tf.Variable(4.0, name="v")
    start = v.initialized_value() * 2.0
    w = tf.Variable(start, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    with tf.train.MonitoredTrainingSession() as session:
        return session.run([v, w])


def case_local_variables_by_ones_own_operation(tf: Any) -> Any:
    w = tf.Variable(1.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    scaffold = tf.train.Scaffold(local_init_op=w.assign(7.0))
    with tf.train.MonitoredTrainingSession(scaffold=scaffold) as session:
        return session.run(w)


def case_a_graph_without_variables(tf: Any) -> Any:
    scaffold = tf.train.Scaffold().finalize()
    with tf.Session() as session:
        session.run([scaffold.init_op, scaffold.local_init_op])
        ready = session.run(scaffold.ready_op)
        return [ready.tolist(), scaffold.summary_op is None]


def case_its_saver(tf: Any) -> Any:
    tf.Variable(1.0)
    scaffold = tf.train.Scaffold().finalize()
    saver = scaffold.saver
    return [saver.last_checkpoints, type(saver).__name__]


def case_get_or_default(tf: Any) -> Any:
    call = tf.train.Scaffold.get_or_default
    found = [call("a", "kept", lambda: "default"), call("a", "kept", lambda: "again")]
    tf.add_to_collection("b", "in the graph")
    found.append(call("b", "b", lambda: "default"))
    tf.add_to_collection("b", "also")
    return [*found, attempt(tf, call, "b", "b", lambda: "default")]


KEYS = {
    "INIT_OP": "init_op",
    "READY_OP": "ready_op",
    "READY_FOR_LOCAL_INIT_OP": "ready_for_local_init_op",
    "LOCAL_INIT_OP": "local_init_op",
    "SUMMARY_OP": "summary_op",
}

CASES: dict[str, Callable[[Any], Any]] = {
    **{f"{field}_is_collected": collected(key, field) for key, field in KEYS.items()},
    **{f"{KEYS[key]}_is_collected_twice": collected_twice(key) for key in KEYS},
}
