"""Trainings by slim, and variables that begin with the values of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tf1.look import initialized, op_names_of, tf


def step() -> Any:
    """Return an operation that halves a variable, and gives the loss before."""
    w = tf.get_variable("w", [2], initializer=tf.constant_initializer(4.0))
    loss = tf.reduce_sum(w * w) / 2
    optimizer = tf.train.GradientDescentOptimizer(0.5)
    return tf.contrib.slim.learning.create_train_op(loss, optimizer)


def case_some_steps(folder: Path) -> Any:
    train_op, seen = step(), []
    loss = tf.contrib.slim.learning.train(
        train_op,
        str(folder),
        number_of_steps=3,
        init_fn=lambda session: seen.append(session.run("w:0").tolist()),
        save_summaries_secs=0,
    )
    state = tf.train.latest_checkpoint(str(folder))
    return [float(loss), seen, state]


def case_steps_without_a_folder() -> Any:
    return float(tf.contrib.slim.learning.train(step(), None, number_of_steps=2))


def case_steps_of_ones_own() -> Any:
    learning, seen = tf.contrib.slim.learning, []

    def own(session: Any, train_op: Any, global_step: Any, arguments: Any) -> Any:
        seen.append(sorted(arguments))
        return learning.train_step(session, train_op, global_step, arguments)

    loss = learning.train(step(), None, own, number_of_steps=2)
    return [float(loss), seen]


def case_a_summary_without_a_folder() -> Any:
    train_op = step()
    return tf.contrib.slim.learning.train(train_op, None, summary_op=tf.no_op())


def kept(folder: Path) -> str:
    """Save a/v and b/v, and begin another graph."""
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("a"):
            first = tf.get_variable("v", [2], initializer=tf.ones_initializer())
        with tf.variable_scope("b"):
            tf.get_variable("v", [3], initializer=tf.constant_initializer(3.0))
        session.run(tf.global_variables_initializer())
        session.run(first.assign([5.0, 6.0]))
        return str(tf.train.Saver().save(session, str(folder / "kept")))


def begun() -> Any:
    """Return variables a/v, b/v and c/v."""
    made = []
    for name, size in (("a", 2), ("b", 3), ("c", 1)):
        with tf.variable_scope(name):
            made.append(
                tf.get_variable("v", [size], initializer=tf.zeros_initializer())
            )
    return made


def case_what_a_checkpoint_has(folder: Path) -> Any:
    path, variables = kept(folder), begun()
    slim = tf.contrib.slim
    restore = slim.assign_from_checkpoint_fn(path, variables, ignore_missing_vars=True)
    other = slim.assign_from_checkpoint_fn(path, {"a/v": variables[0]})
    assign, feeds = slim.assign_from_checkpoint(path, {"b/v": variables[1]})
    none = slim.assign_from_checkpoint_fn(path, variables[2:], ignore_missing_vars=True)
    with initialized() as session:
        restore(session)
        result = [session.run(variables)]
        session.run(tf.global_variables_initializer())
        other(session)
        session.run(assign, feeds)
        return [*result, session.run(variables), none]


def case_no_variables_to_restore(folder: Path) -> Any:
    return tf.contrib.slim.assign_from_checkpoint_fn(kept(folder), [])


def case_a_variable_that_is_not_kept(folder: Path) -> Any:
    path, variables = kept(folder), begun()
    return tf.contrib.framework.assign_from_checkpoint(path, variables)


def case_a_variable_of_another_size(folder: Path) -> Any:
    path, variables = kept(folder), begun()
    return tf.contrib.framework.assign_from_checkpoint(path, {"a/v": variables[1]})


def case_variables_to_restore() -> Any:
    begun()
    choose = tf.contrib.framework.get_variables_to_restore
    return [
        op_names_of(choose(**how))
        for how in ({}, {"include": ["a", "b"]}, {"exclude": ["a"]})
    ]


def case_variables_of_a_text() -> Any:
    begun()
    return tf.contrib.framework.get_variables_to_restore(include="a")


def case_step_by_itself() -> Any:
    train_op = step()
    with initialized() as session:
        result = tf.contrib.slim.learning.train_step(
            session, train_op, tf.train.get_global_step(), {}
        )
    return [float(result[0]), result[1]]


CASES = {
    "no_step_to_make": lambda: tf.contrib.slim.learning.train(None, None),
}
