"""Session managers: who initialises, who restores, who waits, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tf1.attempts import Later, attempt
from tests.tf1.look import Case, makes_case, tf


def manager(**named: Any) -> Any:
    """Return a manager that looks for uninitialised variables."""
    if "ready_op" not in named:
        named["ready_op"] = tf.report_uninitialized_variables()
    return tf.train.SessionManager(**named)


def case_prepared_with_feeds() -> Any:
    holder = tf.placeholder(tf.float32, [])
    v = tf.Variable(holder)
    result = manager().prepare_session(
        "", init_op=v.initializer, init_feed_dict={holder: 2.5}
    )
    with result as session:
        return session.run(v)


def case_prepared_without_a_ready_op() -> Any:
    v = tf.Variable(1.0)
    with tf.train.SessionManager().prepare_session("", init_op=tf.no_op()) as session:
        return attempt(session.run, v)


def saved(folder: Path, value: float = 5.0) -> str:
    """Save a variable `v` of this value; return the prefix."""
    with tf.Graph().as_default():
        v = tf.Variable(value, name="v")
        with tf.Session() as session:
            session.run(v.initializer)
            prefix: str = tf.train.Saver().save(session, str(folder / "m"), 1)
    return prefix


def case_restored_by_name(folder: Path) -> Any:
    prefix = saved(folder)
    v = tf.Variable(1.0, name="v")
    result = manager().prepare_session(
        "", saver=tf.train.Saver(), checkpoint_filename_with_path=prefix
    )
    with result as session:
        return session.run(v)


def case_two_places_to_restore_from(folder: Path) -> Any:
    prefix = saved(folder)
    tf.Variable(1.0, name="v")
    return manager().prepare_session(
        *("", None, tf.train.Saver(), str(folder)),
        checkpoint_filename_with_path=prefix,
    )


def case_waited_for_a_checkpoint(folder: Path) -> Any:
    v = tf.Variable(1.0, name="v")
    init, saver = v.initializer, tf.train.Saver()
    first = manager(recovery_wait_secs=0.05)
    result = first.prepare_session(
        *("", init, saver, str(folder)), wait_for_checkpoint=True, max_wait_secs=0.1
    )
    with result as session:
        return session.run(v)


@makes_case
def recovered(folder: Path, is_saved: bool = True, has_more: bool = False) -> Any:
    """Return a case: whether all is ready then, and the value that was saved."""
    if is_saved:
        saved(folder)
    if has_more:
        tf.Variable(1.0, name="w")
    v = tf.Variable(1.0, name="v")
    saver = tf.train.Saver([v])
    session, is_ready = manager().recover_session("", saver, str(folder))
    with session:
        return [is_ready, attempt(session.run, v)]


@makes_case
def prepared(make: Callable[[Any], dict[str, Any]]) -> Any:
    """Return a case: the value of a variable that such arguments initialise."""
    v = tf.Variable(1.0, name="v")
    with manager().prepare_session("", **make(v)) as session:
        return session.run(v)


def by_a_function(v: Any) -> dict[str, Any]:
    init = v.assign(6.0).op
    return {"init_fn": lambda session: session.run(init)}


def case_waited_for_the_chief() -> Any:
    server = tf.train.Server.create_local_server()
    v = tf.Variable(8.0, name="v")
    item, init = manager(recovery_wait_secs=0.1), v.initializer
    later = Later(item.wait_for_session, server.target, max_wait_secs=5)
    waits = later.is_waiting(0.05)
    with tf.Session(server.target) as chief:
        chief.run(init)
        with later.result() as session:
            return [waits, session.run(v)]


def case_local_variables_of_a_worker() -> Any:
    """A worker initialises its own variables when the shared ones are there."""
    server = tf.train.Server.create_local_server()
    v = tf.Variable(8.0, name="v")
    w = tf.Variable(2.0, name="w", collections=[tf.GraphKeys.LOCAL_VARIABLES])
    first = manager(
        ready_for_local_init_op=tf.report_uninitialized_variables([v]),
        local_init_op=w.initializer,
    )
    init = v.initializer
    with tf.Session(server.target) as chief:
        chief.run(init)
        with first.wait_for_session(server.target, max_wait_secs=0) as session:
            return session.run([v, w])


@makes_case
def ready_op_of(make: Case) -> Any:
    """Return a case: what a ready operation has to give."""
    v = tf.Variable(1.0, name="v")
    first = manager(ready_op=make())
    with first.prepare_session("", init_op=v.initializer) as session:
        return session.run(v)


CASES: dict[str, Case] = {
    "ready_without_text": ready_op_of(lambda: tf.constant([], tf.string)),
    "ready_with_text": ready_op_of(lambda: tf.constant(["not yet"])),
    "ready_with_numbers": ready_op_of(lambda: tf.constant([1, 2])),
    "ready_with_floats": ready_op_of(lambda: tf.constant([1.5])),
    "ready_with_an_operation": ready_op_of(lambda: tf.no_op()),
    "made_with_half_of_the_local_part": lambda: tf.train.SessionManager(
        ready_for_local_init_op=tf.no_op()
    ),
    "made_with_the_other_half": lambda: (
        type(tf.train.SessionManager(local_init_op=tf.no_op())).__name__
    ),
    "recovered": recovered(),
    "recovered_without_a_checkpoint": recovered(is_saved=False),
    "recovered_in_part": recovered(has_more=True),
    "prepared_with_a_list_of_operations": prepared(
        lambda v: {"init_op": [v.initializer, tf.no_op()]}
    ),
    "prepared_with_a_function_only": prepared(by_a_function),
}
