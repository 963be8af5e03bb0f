"""Savers of some variables, or of variables that are not those that were saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.look import initialized, makes_case


def two(tf: Any, a: float = 1.0, b: float = 2.0) -> Any:
    """Make the variables of the guide."""
    v1 = tf.get_variable("v1", [3], initializer=tf.constant_initializer(a))
    v2 = tf.get_variable("v2", [2], initializer=tf.constant_initializer(b))
    return v1, v2


def saved(tf: Any, folder: Path, name: str = "model.ckpt", **values: float) -> str:
    """Save the two variables by a program of its own; return the prefix."""
    with tf.Graph().as_default():
        two(tf, **values)
        saver = tf.train.Saver()
        with initialized(tf) as session:
            return str(saver.save(session, str(folder / name)))


@makes_case
def chosen(tf: Any, folder: Path, make: Callable[[Any, Any, Any], Any]) -> Any:
    """Return a case: a saver of this list restores; then all values are read."""
    prefix = saved(tf, folder)
    v1, v2 = two(tf, 7.0, 8.0)
    saver = attempt(tf, tf.train.Saver, make(tf, v1, v2))
    if isinstance(saver, str):
        return saver
    with initialized(tf) as session:
        result = attempt(tf, saver.restore, session, prefix)
        return [result, session.run([v1, v2])]


def case_the_rest_is_not_initialised(tf: Any, folder: Path) -> Any:
    prefix = saved(tf, folder)
    v1, v2 = two(tf)
    with tf.Session() as session:
        tf.train.Saver({"v2": v2}).restore(session, prefix)
        before = [attempt(tf, session.run, v1), session.run(v2)]
        session.run(v1.initializer)
        names = session.run(tf.report_uninitialized_variables())
        return [*before, session.run(v1), list(names)]


def case_what_is_there(tf: Any, folder: Path) -> Any:
    """Restore what name and shape have in common, leave the rest as it was."""
    prefix = saved(tf, folder)
    reader = tf.train.NewCheckpointReader(prefix)
    shapes = reader.get_variable_to_shape_map()
    two(tf, 5.0, 6.0)
    tf.get_variable("v3", [2], initializer=tf.constant_initializer(9.0))
    common = [
        global_variable
        for global_variable in tf.global_variables()
        if shapes.get(global_variable.op.name) == global_variable.shape.as_list()
    ]
    with initialized(tf) as session:
        tf.train.Saver(common).restore(session, prefix)
        result = session.run(tf.global_variables())
    names = sorted(tensor.op.name for tensor in common)
    return [names, result, reader.get_tensor("v1"), reader.has_tensor("v3")]


CASES: dict[str, Callable[[Any], Any]] = {
    "one_by_its_name": chosen(lambda tf, v1, v2: {"v2": v2}),
    "one_in_a_list": chosen(lambda tf, v1, v2: [v1]),
    "one_in_a_tuple": chosen(lambda tf, v1, v2: (v2,)),
    "one_alone": chosen(lambda tf, v1, v2: v1),
    "crossed_over": chosen(lambda tf, v1, v2: {"v1": v2, "v2": v1}),
    "under_a_missing_name": chosen(lambda tf, v1, v2: {"v4": v1}),
    "one_twice": chosen(lambda tf, v1, v2: [v1, v1]),
    "one_under_two_names": chosen(lambda tf, v1, v2: {"v1": v1, "again": v1}),
    "a_tensor": chosen(lambda tf, v1, v2: [v1 + 1.0]),
    "a_tensor_by_its_name": chosen(lambda tf, v1, v2: {"v1": v1 * 2.0}),
    "a_text": chosen(lambda tf, v1, v2: ["v1"]),
    "none_in_a_list": chosen(lambda tf, v1, v2: []),
    "none_in_a_dict": chosen(lambda tf, v1, v2: {}),
    "those_of_a_set": chosen(lambda tf, v1, v2: {v1}),
}
